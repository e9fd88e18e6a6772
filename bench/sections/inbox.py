"""`recv` from a broker that stores 1,000 messages against ones that store many more, most of them acked."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import ExitStack, closing
from functools import partial

from bench.compare import Bounds, Case, Result, alternate, ratio, summaries
from bench.hive import UNLIMITED
from bench.load import Target
from bench.mail import BODY, encode_recv, refill
from tests.support.units import Units, running_units

FEW = 1_000
AGENTS = ("ruth", "iris", "otto", *(f"agent{number}" for number in range(7)))
# Every so many rows one still waits, for an agent other than the one that is measured.
PENDING_EVERY = 10

_FILL = """
WITH RECURSIVE number(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < :rows),
message(i, sender, recipient) AS (SELECT i, 1 + i % :agents, 1 + (i / :agents + 1 + i) % :agents FROM number)
INSERT INTO messages (sender, sender_agent_id, recipient, recipient_agent_id, body, sent_at, urgent, hops,
                      state, delivered_count, delivered_at, acked_at, pair, pair_seq)
SELECT s.name, s.id, r.name, r.id, :body, 1700000000 + i, 0, 0,
       CASE WHEN i % :every = 0 AND r.name <> 'otto' THEN 'pending' ELSE 'acked' END, 1, 1700000001 + i,
       unixepoch() - 864000, min(s.id, r.id) || '-' || max(s.id, r.id), i
FROM message JOIN agents s ON s.id = sender JOIN agents r ON r.id = recipient
"""


def run(bounds: Bounds) -> Result:
    """Latencies of `recv` at one connection; `ratio` is of medians, to the broker that stores few."""
    with ExitStack() as stack:
        stores = {
            "few": _filled(stack, FEW, pending=False),
            "many": _filled(stack, bounds.stored, pending=False),
            "many, a tenth of them pending for others": _filled(stack, bounds.stored, pending=True),
        }
        return asyncio.run(_measure(stores, bounds)) | {"stored": {"few": FEW, "many": bounds.stored}}


def _filled(stack: ExitStack, rows: int, *, pending: bool) -> Units:
    units = stack.enter_context(running_units(**UNLIMITED))
    fill(units, rows, pending=pending)
    return units


def fill(units: Units, rows: int, *, pending: bool) -> None:
    """Have a broker be down while its database gets so many old messages of ten agents."""
    for name in AGENTS:
        units.enlist(name, parent=None if name == AGENTS[0] else AGENTS[0])
    units.broker.kill()
    print(f"bench: storing {rows} messages", file=sys.stderr)
    with closing(sqlite3.connect(units.layout.database)) as db, db:
        # A bench's own file: what a power failure leaves of it does not matter.
        db.execute("PRAGMA synchronous=OFF")
        every = PENDING_EVERY if pending else rows + 1
        db.execute(_FILL, {"rows": rows, "agents": len(AGENTS), "every": every, "body": BODY})
        db.execute("INSERT INTO message_words (message_words) VALUES ('rebuild')")
        db.execute("UPDATE meta SET value = :rows WHERE key = 'searched_up_to'", {"rows": str(rows)})
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    units.broker.start()


async def _measure(stores: dict[str, Units], bounds: Bounds) -> Result:
    cases = []
    for name, units in stores.items():
        iris, otto = (Target.of(units.broker.url, units.agents[who].token) for who in ("iris", "otto"))
        fill = partial(refill, iris, otto, "otto", bounds.requests)
        cases.append(Case(name, otto, partial(encode_recv, otto), fill))
    found = await alternate(cases, connections=1, bounds=bounds)
    ratios = {name: ratio(found[name], found["few"], "p50_ms") for name in found if name != "few"}
    return summaries(found) | {"ratio": ratios}
