"""What the stream holds of a subject: read by direct get, which needs no consumer."""

from __future__ import annotations

import json

import nats.errors
from nats.aio.client import Client
from nats.js.api import Header

from services.broker.bus.link import REQUEST_SECONDS, Link
from shared.wire.notices import STREAM

_DIRECT_GET = f"$JS.API.DIRECT.GET.{STREAM}"
_BATCH = 256
# Status headers of the server (source: ADR-31 of nats-architecture-and-design); the others end a batch.
_NO_STREAM = "503"


async def list_ids(link: Link, subject: str) -> list[str]:
    """The ids of all notices of a subject that the stream holds, the oldest first.

    Raises:
        HiveError: when NATS does not answer or refuses.
    """
    found: list[str] = []
    first = 1
    while rows := await link.ask(_read_batch(link.client, subject, first), what=f"list {subject}"):
        found += [event_id for _, event_id in rows if event_id is not None]
        first = rows[-1][0] + 1
    return found


async def _read_batch(client: Client, subject: str, first: int) -> list[tuple[int, str | None]]:
    """Sequence and id of the next notices from `first` on; none when there are no more."""
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox)
    rows: list[tuple[int, str | None]] = []
    try:
        question = {"seq": first, "batch": _BATCH, "next_by_subj": subject}
        await client.publish(_DIRECT_GET, json.dumps(question).encode(), reply=inbox)
        while True:
            headers = (await answers.next_msg(timeout=REQUEST_SECONDS)).headers or {}
            status = headers.get("Status")
            if status == _NO_STREAM:
                raise nats.errors.NoRespondersError
            if status is not None:
                return rows
            rows.append((int(headers["Nats-Sequence"]), headers.get(Header.MSG_ID)))
    finally:
        await answers.unsubscribe()
