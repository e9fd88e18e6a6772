"""What the processes of idle agents weigh: PSS, which shares what several processes map among them."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from bench.compare import Bounds, Result
from bench.hive import running_hive

_SURFACE = re.compile(r"(?:hyperhive|bash|matrix|subagent)-(?P<agent>.+)")
_PSS = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)


def run(bounds: Bounds) -> Result:
    """Megabytes of each agent's surfaces, of all, and of the hive's other processes."""
    names = [f"agent{number}" for number in range(bounds.agents - 1)]
    with running_hive(*names) as hive:
        # By then a fresh process has freed and given back what only its start needed.
        settle_seconds = bounds.seconds * 2
        print(f"bench: waiting {settle_seconds:g} s until {bounds.agents} agents are idle", file=sys.stderr)
        time.sleep(settle_seconds)
        pids = hive.pids()
        try:
            weights = {name: _pss_mb(pid) for name, pid in pids.items()}
        except PermissionError:
            # Daemons are not dumpable: their memory is nobody's business but root's.
            return {"skipped": "reading the memory of daemons takes root"}
    agents: dict[str, float] = {}
    others: dict[str, float] = {}
    for name, weight in weights.items():
        match = _SURFACE.fullmatch(name)
        place, key = (others, name) if match is None else (agents, match["agent"])
        place[key] = round(place.get(key, 0.0) + weight, 1)
    return {
        "agents": len(agents),
        "pss_mb_an_agent": round(sum(agents.values()) / len(agents), 1),
        "pss_mb_largest": max(agents.values()),
        "pss_mb_of_others": others,
    }


def _pss_mb(pid: int) -> float:
    found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) / 1024
