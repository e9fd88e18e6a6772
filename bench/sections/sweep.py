"""`send` while a broker removes a million old messages, against the same broker with none to remove."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from functools import partial

from bench.compare import Bounds, Result, summaries
from bench.hive import UNLIMITED
from bench.load import Sample, Target, measure
from bench.mail import encode_send
from bench.sections.inbox import fill
from tests.support.units import Units, running_units

CONNECTIONS = (1, 16)
# Ten days old are the messages that were stored.
KEPT_DAYS = {"quiet": 30, "swept": 1}


def run(bounds: Bounds) -> Result:
    """Latencies at each number of connections; `ratio` is of the 99th percentiles."""
    result: Result = {"stored": bounds.stored}
    with running_units(**UNLIMITED) as units:
        fill(units, bounds.stored, pending=False)
        for connections in CONNECTIONS:
            result[str(connections)] = _compare(units, connections, bounds)
    return result


def _compare(units: Units, connections: int, bounds: Bounds) -> Result:
    """Both in turns, so that what else the machine does hits both; each time the broker starts anew."""
    found: dict[str, list[Sample]] = {name: [] for name in KEPT_DAYS}
    removed = seconds = 0.0
    for _ in range(bounds.rounds):
        for name, days in KEPT_DAYS.items():
            units.broker.kill()
            units.broker.start(HIVE_BROKER_MESSAGES_KEPT_DAYS=str(days))
            before, began = _count(units), time.perf_counter()
            found[name].append(asyncio.run(_measure(units, connections, bounds)))
            if name == "swept":
                removed += before - _count(units)
                seconds += time.perf_counter() - began
    figures = summaries(found)
    return figures | {
        "ratio": round(figures["swept"]["p99_ms"] / figures["quiet"]["p99_ms"], 3),
        "rows_a_second": round(removed / seconds),
    }


async def _measure(units: Units, connections: int, bounds: Bounds) -> Sample:
    broker = Target.of(units.broker.url, units.agents["iris"].token)
    send = partial(
        measure,
        broker,
        partial(encode_send, broker, "otto"),
        connections=connections,
        max_seconds=bounds.seconds,
    )
    await send(max_requests=max(bounds.requests // 5, connections))
    return await send(max_requests=bounds.requests)


def _count(units: Units) -> int:
    """How many acked messages are left."""
    with closing(sqlite3.connect(units.layout.database)) as db:
        query = "SELECT count(*) FROM messages WHERE acked_at IS NOT NULL"
        return int(db.execute(query).fetchone()[0])
