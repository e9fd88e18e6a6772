"""Requests to the broker under an agent's token: `send`, `recv`, and what empties and fills an inbox."""

from __future__ import annotations

from bench.load import Target, ask, measure
from shared.runtime.ids import new_ulid
from shared.wire.model import MAX_ID

# 400 bytes in fifty words, which the broker indexes.
BODY = " ".join(f"word{number:03}" for number in range(50)) + "."
_FILL_CONNECTIONS = 16
_FILL_SECONDS = 60.0


def encode_send(target: Target, to: str) -> bytes:
    """A `send` of 400 bytes."""
    return target.encode("POST", "/v1/agent/messages", {"to": to, "body": BODY}, Idempotency_Key=new_ulid())


def encode_recv(target: Target) -> bytes:
    """A `recv` of one message."""
    return target.encode("POST", "/v1/agent/inbox/recv", {"max": 1}, Idempotency_Key=new_ulid())


async def refill(sender: Target, recipient: Target, name: str, count: int) -> None:
    """Ack what the recipient holds, then have `count` messages wait for it."""
    await ask(recipient, recipient.encode("POST", "/v1/agent/inbox/ack", {"up_to": MAX_ID}))
    sample = await measure(
        sender,
        lambda: encode_send(sender, name),
        connections=_FILL_CONNECTIONS,
        max_requests=count,
        max_seconds=_FILL_SECONDS,
    )
    if sample.requests < count:
        raise RuntimeError(f"only {sample.requests} of {count} messages were sent in {_FILL_SECONDS:g} s")
