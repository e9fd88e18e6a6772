"""`GET loose-ends` of an agent with a few of its own, beside none and beside 10,000 of other agents."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import ExitStack, closing
from functools import partial

from bench.compare import Bounds, Case, Result, alternate, ratio, summaries
from bench.hive import UNLIMITED
from bench.load import Target
from tests.support.units import Units, running_units

OTHERS = 200
# Of each kind; three kinds make 10,000 open rows and a few more.
ROWS = 3_400
OWN = 10

_FAR = 4_000_000_000
_REMINDERS = """
WITH RECURSIVE number(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < :rows)
INSERT INTO reminders (agent_id, body, created_at, due_at, wake_at)
SELECT :first + i % :agents, 'water the plants', 1700000000, :far + i, :far + i FROM number
"""
_APPROVALS = """
WITH RECURSIVE number(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < :rows)
INSERT INTO approvals (kind, agent_id, agent, summary, content, status, created_at, deadline_at)
SELECT 'tool_permission', a.id, a.name, 'use Write', '{}', 'pending', 1700000000, :far + i
FROM number JOIN agents a ON a.id = :first + i % :agents
"""
_MESSAGES = """
WITH RECURSIVE number(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < :rows)
INSERT INTO messages (sender, recipient, recipient_agent_id, body, sent_at, urgent, hops, state,
                      delivered_count)
SELECT 'operator', a.name, a.id, 'hello', 1700000000 + i, 0, 0, 'pending', 0
FROM number JOIN agents a ON a.id = :first + i % :agents
"""


def run(bounds: Bounds) -> Result:
    """Latencies at one connection; `ratio` is of medians, to the broker without rows of others."""
    with ExitStack() as stack:
        brokers = {"alone": _filled(stack, 0), "among many": _filled(stack, ROWS)}
        return asyncio.run(_measure(brokers, bounds)) | {"rows": 3 * ROWS}


def _filled(stack: ExitStack, rows: int) -> Units:
    """A broker that was down while its database got so many open rows of each kind, of other agents."""
    units = stack.enter_context(running_units(**UNLIMITED))
    ruth = units.enlist("ruth")
    others = [units.enlist(f"other{number}", parent="ruth") for number in range(OTHERS)]
    for _ in range(OWN):
        ruth.json("POST", "/reminders", {"body": "one of her own", "delay_seconds": 10_000_000})
    number = units.operator.json("GET", f"/agents/{others[0].name}")["id"]
    units.broker.kill()
    print(f"bench: storing {3 * rows} open rows", file=sys.stderr)
    with closing(sqlite3.connect(units.layout.database)) as db, db:
        values = {"rows": rows, "first": number, "agents": OTHERS, "far": _FAR}
        for statement in (_REMINDERS, _APPROVALS, _MESSAGES) if rows else ():
            db.execute(statement, values)
    units.broker.start()
    return units


async def _measure(brokers: dict[str, Units], bounds: Bounds) -> Result:
    cases = []
    for name, units in brokers.items():
        ruth = Target.of(units.broker.url, units.agents["ruth"].token)
        cases.append(Case(name, ruth, partial(ruth.encode, "GET", "/v1/agent/loose-ends")))
    found = await alternate(cases, connections=1, bounds=bounds)
    return summaries(found) | {"ratio": ratio(found["among many"], found["alone"], "p50_ms")}
