"""`send` over HTTP against an endpoint of the same broker without database: SQLite, and PostgreSQL."""

from __future__ import annotations

import asyncio

from bench.compare import Bounds, Case, Result, alternate, ratio, summaries
from bench.hive import UNLIMITED
from bench.load import Target
from bench.mail import encode_send
from tests.support.postgres import find_postgres, postgres_server
from tests.support.units import Units, running_units

CONNECTIONS = (1, 16, 64)
# A server as its package sets it up: every commit is on the disk before it is answered.
_DURABLE: dict[str, str] = {}


def run(bounds: Bounds) -> Result:
    """Calls a second and latencies at each number of connections; `ratio` is of calls a second."""
    with running_units(**UNLIMITED) as units:
        found = {"sqlite": asyncio.run(_measure(units, bounds))}
    if find_postgres() is None:
        return found | {"postgresql": {"skipped": "no PostgreSQL server here: apt-get install postgresql"}}
    with postgres_server(settings=_DURABLE) as server:
        url = server.url_of(server.create_database())
        with running_units(HIVE_BROKER_DATABASE_URL=url, **UNLIMITED) as units:
            return found | {"postgresql": asyncio.run(_measure(units, bounds))}


async def _measure(units: Units, bounds: Bounds) -> Result:
    units.enlist("ruth")
    iris = units.enlist("iris", parent="ruth")
    broker = Target.of(iris.broker_url, iris.token)
    cases = [
        Case("bare", broker, lambda: broker.encode("GET", "/healthz")),
        Case("send", broker, lambda: encode_send(broker, "ruth")),
    ]
    result: Result = {}
    for connections in CONNECTIONS:
        found = await alternate(cases, connections=connections, bounds=bounds)
        share = ratio(found["send"], found["bare"], "per_second")
        result[str(connections)] = summaries(found) | {"ratio": share}
    return result
