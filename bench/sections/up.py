"""How long `hivectl up` takes from its call until all is ready, on a root that was up before."""

from __future__ import annotations

import time
from statistics import median

from bench.compare import Bounds, Result
from bench.hive import Hive, stopped_hive


def run(bounds: Bounds) -> Result:
    """Seconds, the median of the rounds, with one agent and with more."""
    with stopped_hive() as hive:
        one = _measure(hive, [], bounds)
        others = [f"agent{number}" for number in range(bounds.agents - 1)]
        many = _measure(hive, others, bounds) if others else one
    return {"agents": bounds.agents, "seconds_with_one": one, "seconds_with_all": many}


def _measure(hive: Hive, agents: list[str], bounds: Bounds) -> float:
    # The first one makes the agents, and warms the disk's cache.
    hive.up(agents)
    hive.down()
    taken = []
    for _ in range(bounds.rounds):
        began = time.perf_counter()
        hive.up()
        taken.append(time.perf_counter() - began)
        hive.down()
    return round(median(taken), 2)
