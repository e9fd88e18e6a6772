"""A send of which nobody could tell its agent whether it was stored is there for the operator to see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from services.hyperhive_mcp.service.inbox import InboxService
from services.hyperhive_mcp.service.long_texts import LongTexts
from services.hyperhive_mcp.service.reminders import ReminderService
from services.hyperhive_mcp.service.unknown_sends import MAX_WAITING, UnknownSends
from services.hyperhive_mcp.spill import ReminderDirectory, SpillDirectory
from services.hyperhive_mcp.store import StateStore
from shared.client import BrokerClient
from shared.errors import OutcomeUnknown
from shared.runtime.credential import TokenFile
from shared.runtime.files import write_private
from shared.wire.messages import SendRequest
from tests.integration.broker.running import BOOTS, Broker, Peer
from tests.unit.shared.scripted import hang, scripted

pytestmark = pytest.mark.requirement("delivery.unknown-seen")

SEND = SendRequest(to="iris", body="secret words")


class Surface:
    """The parts of a surface that send, over a connection on which no answer comes, and that report."""

    def __init__(self, reaching: BrokerClient, deaf: BrokerClient, data: Path) -> None:
        self.store = StateStore(data / "hyperhive.sqlite")
        self.unknown = UnknownSends(reaching, self.store)
        texts = LongTexts(reaching, SpillDirectory(data))
        reminders = ReminderService(reaching, ReminderDirectory(data))
        self.inbox = InboxService(deaf, texts, self.unknown, boot=BOOTS[0], on_acked=reminders.sweep)

    async def send_in_vain(self, key: str) -> None:
        with pytest.raises(OutcomeUnknown):
            await self.inbox.send(SEND, key=key)


@asynccontextmanager
async def surface_of(broker: Broker, peer: Peer, tmp_path: Path) -> AsyncIterator[Surface]:
    write_private(tmp_path / "agent-token", peer.token.encode())

    def connect(url: str) -> BrokerClient:
        token = TokenFile(tmp_path / "agent-token")
        return BrokerClient(url, token, unit="hyperhive", boot=BOOTS[0], deadline_seconds=0.5)

    with anyio.fail_after(30):
        async with scripted(hang) as nobody, connect(broker.url) as reaching, connect(nobody.url) as deaf:
            surface = Surface(reaching, deaf, tmp_path)
            yield surface
            surface.store.close()


async def audit(broker: Broker) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await broker.operator.get("GET", "/refusals"))["refusals"]
    return rows


async def test_it_is_reported_once_the_broker_hears_again(broker: Broker, ruth: Peer, tmp_path: Path) -> None:
    async with surface_of(broker, ruth, tmp_path) as surface:
        await surface.send_in_vain("k-1")
        # It had arrived: what got lost was the answer.
        body = {"to": "iris", "body": SEND.body}
        await ruth.get("POST", "/messages", body, headers={"Idempotency-Key": "k-1"})
        await surface.unknown.push()
        await surface.unknown.push()
    (row,) = await audit(broker)
    assert (row["sender"], row["recipient"], row["code"], row["count"]) == (
        "ruth",
        "iris",
        "outcome_unknown",
        1,
    )
    assert row["size"] == len(SEND.body)
    (number,) = await broker.agents["iris"].recv()
    assert row["reason"].endswith(f"whether it was stored; it was, as #{number} to iris")
    assert SEND.body not in str(row)


async def test_it_is_reported_by_the_next_start_of_the_daemon(
    broker: Broker, ruth: Peer, tmp_path: Path
) -> None:
    async with surface_of(broker, ruth, tmp_path) as surface:
        await surface.send_in_vain("k-1")
    async with surface_of(broker, ruth, tmp_path) as surface:
        await surface.unknown.push()
    assert [row["code"] for row in await audit(broker)] == ["outcome_unknown"]
    async with surface_of(broker, ruth, tmp_path) as surface:
        assert surface.store.find_unknown_sends() == []


async def test_of_very_many_the_newest_are_kept(broker: Broker, ruth: Peer, tmp_path: Path) -> None:
    async with surface_of(broker, ruth, tmp_path) as surface:
        for number in range(MAX_WAITING + 5):
            await surface.unknown.note(SEND, key=f"k-{number}")
        kept = surface.store.find_unknown_sends()
        assert [kept[0].key, kept[-1].key, len(kept)] == ["k-5", f"k-{MAX_WAITING + 4}", MAX_WAITING]
        await surface.unknown.push()
    (row,) = await audit(broker)
    assert row["count"] == MAX_WAITING
    assert row["reason"].endswith("nothing is stored under its key")


async def test_a_report_says_nothing_of_anothers_keys(broker: Broker, ruth: Peer, iris: Peer) -> None:
    await iris.get("POST", "/messages", {"to": "ruth", "body": "x"}, headers={"Idempotency-Key": "k-1"})
    sends = [{"key": "k-1", "to": "ruth", "size": 1, "at": 1}]
    await ruth.get("POST", "/reports", {"unit": "hyperhive", "boot": BOOTS[0], "unknown_sends": sends})
    (row,) = await audit(broker)
    assert row["reason"].endswith("nothing is stored under its key")


async def test_a_report_is_bounded(broker: Broker, ruth: Peer) -> None:
    send = {"key": "k", "to": "iris", "size": 1, "at": 1}
    report = {"unit": "hyperhive", "boot": BOOTS[0]}
    await ruth.refused(422, "POST", "/reports", report | {"unknown_sends": [send] * 21})
    for wrong in ({"to": "x" * 201}, {"key": "a b"}, {"size": -1}, {"why": "x"}):
        await ruth.refused(422, "POST", "/reports", report | {"unknown_sends": [send | wrong]})
    await ruth.get("POST", "/reports", report | {"unknown_sends": [send | {"to": "nobody"}]})
    assert [row["recipient"] for row in await audit(broker)] == ["?"]
