"""How long a lifecycle transition takes from the driver's report to a subscriber of NATS."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from bench.compare import Bounds, Result
from bench.hive import Hive
from bench.load import Target, ask, connect, percentiles, read_answer
from shared.runtime.ids import new_ulid

AGENT = "bench"
NOTICE_SECONDS = 10.0


def run(bounds: Bounds, hive: Hive) -> Result:
    """Milliseconds from sending the report, and from its answer, to the notice."""
    return asyncio.run(_measure(hive, bounds))


async def _measure(hive: Hive, bounds: Bounds) -> Result:
    operator = hive.operator
    # Known to the hive's own driver, which is never asked to start it: its life is what we report.
    created = {"name": AGENT, "parent": "ruth", "token_sha256": "0" * 64, "wanted": False}
    answer = await ask(operator, operator.encode("POST", "/v1/operator/agents", created))
    agent_id = json.loads(answer)["id"]
    since_sent, since_answered = [], []
    async with _subscribed(hive.description["nats"]) as arrivals:
        reader, writer = await connect(operator)
        began = time.perf_counter()
        for number in range(bounds.requests):
            sent = time.perf_counter()
            if sent - began > bounds.seconds * bounds.rounds:
                break
            writer.write(_report(operator, agent_id, "started" if number % 2 == 0 else "stopped"))
            await read_answer(reader)
            answered = time.perf_counter()
            async with asyncio.timeout(NOTICE_SECONDS):
                arrived = await arrivals.get()
            since_sent.append(arrived - sent)
            since_answered.append(max(0.0, arrived - answered))
        writer.close()
    return {
        "transitions": len(since_sent),
        "from_report": dict(zip(("p50_ms", "p99_ms"), percentiles(since_sent), strict=True)),
        "from_answer": dict(zip(("p50_ms", "p99_ms"), percentiles(since_answered), strict=True)),
    }


def _report(operator: Target, agent_id: int, kind: str) -> bytes:
    event: dict[str, Any] = {
        "event_id": new_ulid(),
        "kind": kind,
        "at": int(time.time()),
        "agent_id": agent_id,
    }
    return operator.encode("POST", "/v1/operator/driver/events", {"driver_id": AGENT, "events": [event]})


@asynccontextmanager
async def _subscribed(login: dict[str, str]) -> AsyncIterator[asyncio.Queue[float]]:
    """The times at which notices of the agent reach a live subscriber with the credential of `hive.json`."""
    arrivals: asyncio.Queue[float] = asyncio.Queue()

    async def take(_message: Msg) -> None:
        arrivals.put_nowait(time.perf_counter())

    password = Path(login["reader_password_file"]).read_text(encoding="ascii").strip()  # noqa: ASYNC240
    client = Client()
    await client.connect(
        login["url"],
        user=login["reader_user"],
        password=password,
        inbox_prefix=login["inbox_prefix"],
    )
    try:
        await client.subscribe(f"swarm.notices.*.{AGENT}.*", cb=take)
        await client.flush()
        yield arrivals
    finally:
        await client.close()
