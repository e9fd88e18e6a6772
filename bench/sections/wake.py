"""From a message's commit to the wake that a waiting client sees, alone and beside many agents that wait.

The client waits at a real surface. Of the others the broker sees what it sees of surfaces: a stream each.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack

from bench.compare import Bounds, Result
from bench.hive import UNLIMITED
from bench.load import Target, ask, connect, percentiles, read_answer
from bench.mail import encode_send
from shared.revision import revision
from shared.runtime.ids import new_ulid
from shared.wire.model import MAX_ID
from tests.support.units import Units, running_units

WAITING = (1, 200)
# Until the surface surely waits: nothing says so from outside.
_SETTLE_SECONDS = 0.01
_QUIET_SECONDS = 5.0


def run(bounds: Bounds) -> Result:
    """Milliseconds from the `send` and from its answer; the commit lies between the two."""
    with running_units("ruth", "iris", **UNLIMITED) as units:
        others = [units.enlist(f"w{number}", parent="ruth") for number in range(max(WAITING) - 1)]
        streams = [Target.of(units.broker.url, other.token) for other in others]
        return {
            str(waiting): asyncio.run(_measure(units, streams[: waiting - 1], bounds)) for waiting in WAITING
        }


async def _measure(units: Units, others: list[Target], bounds: Bounds) -> Result:
    ruth, iris = (Target.of(units.broker.url, units.agents[name].token) for name in ("ruth", "iris"))
    surface = Target.of(units.agents["iris"].surface_url, units.agents["iris"].token)
    async with AsyncExitStack() as stack:
        for other in others:
            await _open_stream(stack, other)
        to_broker, to_surface = await connect(ruth), await connect(surface)
        stack.callback(to_broker[1].close)
        stack.callback(to_surface[1].close)
        from_send: list[float] = []
        from_answer: list[float] = []
        end = time.perf_counter() + bounds.seconds * bounds.rounds
        while len(from_send) < bounds.requests and time.perf_counter() < end:
            await _become_quiet(iris, surface)
            to_surface[1].write(surface.encode("GET", "/api/wait?timeout_seconds=30"))
            woken = asyncio.create_task(_time_of(to_surface[0]))
            await asyncio.sleep(_SETTLE_SECONDS)
            began = time.perf_counter()
            to_broker[1].write(encode_send(ruth, "iris"))
            answered = await _time_of(to_broker[0])
            seen = await woken
            from_send.append(seen - began)
            from_answer.append(max(0.0, seen - answered))
    return {
        "wakes": len(from_send),
        "from_send": dict(zip(("p50_ms", "p99_ms"), percentiles(from_send), strict=True)),
        "from_answer": dict(zip(("p50_ms", "p99_ms"), percentiles(from_answer), strict=True)),
    }


async def _open_stream(stack: AsyncExitStack, agent: Target) -> None:
    reader, writer = await connect(agent)
    stack.callback(writer.close)
    writer.write(
        agent.encode(
            "POST", "/v1/agent/control", {"unit": "hyperhive", "boot": new_ulid(), "revision": revision()}
        )
    )
    await reader.readuntil(b'"inbox"')


async def _become_quiet(iris: Target, surface: Target) -> None:
    """Ack what was sent, and wait until nothing is due."""
    await ask(iris, iris.encode("POST", "/v1/agent/inbox/ack", {"up_to": MAX_ID}))
    async with asyncio.timeout(_QUIET_SECONDS):
        # Asked from outside: there is no event to wait for.
        while json.loads(await ask(surface, surface.encode("GET", "/api/wait?timeout_seconds=0")))["due"]:  # noqa: ASYNC110
            await asyncio.sleep(_SETTLE_SECONDS)


async def _time_of(reader: asyncio.StreamReader) -> float:
    """When the next answer is there."""
    await read_answer(reader)
    return time.perf_counter()
