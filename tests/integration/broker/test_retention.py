"""What the sweep of old messages removes: acked ones after their days, and nothing else ever."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from services.broker.service.housekeeping import Housekeeping
from services.broker.service.retention import BATCH_ROWS, DAY_SECONDS, Retention
from services.broker.store import Store, Tx
from services.broker.store.messages import NewMessage
from tests.integration.broker.running import Broker, Peer, running_broker

DAYS = 30
KEY = {"Idempotency-Key": "k-1"}
SPILL = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.fixture
async def store(broker: Broker) -> AsyncIterator[Store]:
    """A store of the test's own on the broker's database."""
    store = Store(broker.settings.database)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def retention(broker: Broker, store: Store) -> Retention:
    return Retention(store, kept_days=DAYS, clock=broker.clock, pause_seconds=0)


async def listed(broker: Broker, name: str) -> list[int]:
    """The ids of all that an agent was ever sent, as far as it is stored."""
    page = await broker.operator.get("GET", f"/agents/{name}/inbox?include_acked=true&limit=200")
    return [row["id"] for row in page["messages"]]


@pytest.mark.requirement("retention.acked-only")
async def test_only_what_was_acked_thirty_days_ago_is_removed(
    broker: Broker, ruth: Peer, iris: Peer, retention: Retention
) -> None:
    ids = [await ruth.send("iris") for _ in range(5)]
    await iris.recv(3)
    await iris.ack(ids[0])
    broker.clock.now += 1
    await iris.ack(ids[1])
    broker.clock.now += DAYS * DAY_SECONDS - 1
    assert await retention.sweep() == 0
    broker.clock.now += 1
    assert (await retention.sweep(), await listed(broker, "iris")) == (1, ids[1:])
    broker.clock.now += 100 * DAYS * DAY_SECONDS
    assert (await retention.sweep(), await listed(broker, "iris")) == (1, ids[2:])
    assert await iris.recv() == ids[3:]


@pytest.mark.requirement("retention.acked-only")
async def test_what_an_agent_left_behind_unread_and_approvals_stay(
    broker: Broker, ruth: Peer, retention: Retention
) -> None:
    await broker.permit("iris", add_capabilities=["relay_permissions"])
    asked = {"tool": "Bash", "input": "{}"}
    approval = (await broker.agents["iris"].get("POST", "/approvals", asked))["id"]
    await broker.operator.get("POST", f"/approvals/{approval}/deny", {})
    left = await ruth.send("iris")
    broker.clock.now += 100 * DAYS * DAY_SECONDS
    assert await retention.sweep() == 0
    assert left in await listed(broker, "iris")
    assert (await broker.operator.get("GET", f"/approvals/{approval}"))["status"] == "denied"


@pytest.mark.requirement("retention.references")
async def test_what_refers_to_a_removed_message_goes_on(
    broker: Broker, ruth: Peer, iris: Peer, store: Store, retention: Retention
) -> None:
    first = await ruth.send("iris")
    await iris.recv()
    await iris.ack(first)
    reply = await iris.send("ruth", in_reply_to=first)
    broker.clock.now += DAYS * DAY_SECONDS + 1
    assert await retention.sweep() == 1

    (row,) = (await ruth.get("POST", "/inbox/recv", {"max": 5}, headers=KEY))["messages"]
    assert (row["id"], row["in_reply_to"]) == (reply, first)
    assert (await ruth.get("POST", "/inbox/recv", {"max": 5}, headers=KEY))["messages"] == [row]
    refused = await ruth.refused(404, "POST", "/messages", {"to": "iris", "body": "x", "in_reply_to": first})
    assert refused["code"] == "no_such_message"
    assert await ruth.send("iris", in_reply_to=reply) > reply
    assert (await iris.get("POST", "/inbox/states", {"ids": [first]}))["states"] == {}
    # One ack of what is gone is an ack of nothing.
    assert (await iris.ack(first))["acked"] == 0


@pytest.mark.requirement("retention.references")
async def test_an_id_is_not_used_again_when_the_newest_message_was_removed(
    broker: Broker, ruth: Peer, iris: Peer, retention: Retention
) -> None:
    newest = [await ruth.send("iris") for _ in range(3)][-1]
    await iris.ack(newest)
    broker.clock.now += DAYS * DAY_SECONDS + 1
    assert (await retention.sweep(), await listed(broker, "iris")) == (3, [])
    assert await ruth.send("iris") == newest + 1


@pytest.mark.requirement("retention.references")
async def test_the_file_of_a_long_reminder_is_forgotten_with_its_message(
    broker: Broker, iris: Peer, store: Store
) -> None:
    reminder = {"body": "long", "delay_seconds": 1, "spill": SPILL}
    await iris.get("POST", "/reminders", reminder)
    broker.clock.now += 2
    ids: list[int] = []
    with anyio.fail_after(5):
        while not ids:
            ids = await iris.recv()
    await iris.ack(ids[-1])
    broker.clock.now += 7 * DAY_SECONDS + 1
    assert await Retention(store, kept_days=1, clock=broker.clock).sweep() == 1
    assert await Housekeeping(store, clock=broker.clock).sweep() >= 1
    assert (await iris.get("POST", "/reminder-spills", {"spills": [SPILL]}))["states"] == {}


@pytest.mark.requirement("retention.batches")
async def test_very_many_go_in_small_batches_and_messages_pass_between(
    broker: Broker, ruth: Peer, iris: Peer, store: Store
) -> None:
    rows = 4 * BATCH_ROWS + 1

    def fill(tx: Tx) -> None:
        agent = tx.agents.find_by_name("iris")
        assert agent is not None
        for _ in range(rows):
            last = tx.messages.insert(NewMessage("ruth", None, "iris", agent.id, "x", 1))
        tx.inbox.ack_until(agent.id, last, at=1)

    await store.write(fill)
    sizes: list[int] = []

    class BusyStore(Store):
        """Somebody sends after each of its transactions."""

        async def write(self, run: Callable[[Tx], Any]) -> Any:
            sizes.append(await super().write(run))
            await ruth.send("iris")
            return sizes[-1]

    busy = BusyStore(broker.settings.database)
    await busy.open()
    try:
        retention = Retention(busy, kept_days=DAYS, clock=broker.clock, pause_seconds=0)
        assert await retention.sweep() == rows
    finally:
        await busy.close()
    assert sizes == [*[BATCH_ROWS] * 4, 1, 0]
    assert len(await listed(broker, "iris")) == len(sizes)
    assert (await iris.get("GET", "/inbox/level"))["pending"] == len(sizes)


@pytest.mark.requirement("retention.acked-only")
async def test_a_broker_sweeps_by_its_setting_when_it_starts(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris", parent="ruth")
        await iris.ack(await ruth.send("iris"))
        last = await ruth.send("iris")
        clock = broker.clock
    clock.now += 2 * DAY_SECONDS + 1
    async with running_broker(tmp_path, clock, messages_kept_days=2) as broker:
        with anyio.fail_after(5):
            while await listed(broker, "iris") != [last]:
                await anyio.lowlevel.checkpoint()
