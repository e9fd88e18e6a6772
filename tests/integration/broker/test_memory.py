"""What the writer remembers between transactions is what the database says, whatever was done or undone."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from services.broker.migrations import upgrade_schema
from services.broker.store import Store, Tx
from services.broker.store.agents import AgentRow
from services.broker.store.inbox import UrgentHanded
from services.broker.store.messages import NewMessage
from shared.errors import NotFound
from shared.wire.agents import Grants

SEEDS = range(4)
TURNS = ("t1", "t2")


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    upgrade_schema(database)
    store = Store(database)
    await store.open()
    for block, name in enumerate(("ruth", "iris")):
        await store.write(partial(add, name=name, block=block))
    yield store
    await store.close()


def add(tx: Tx, *, name: str, block: int) -> int:
    grants = Grants(groups=[], capabilities=[])
    return tx.agents.insert(name=name, parent_id=None, port_block=block, grants=grants, created_at=1)


def send(tx: Tx, *, to: int | None = 2, urgent: bool = False) -> None:
    tx.messages.insert(NewMessage("ruth", 1, "iris", to, "x", 1, urgent=urgent))


def failing(*units: Callable[[Tx], object]) -> Callable[[Tx], None]:
    """A unit of work that does these, and then fails."""

    def work(tx: Tx) -> None:
        for unit in units:
            unit(tx)
        raise NotFound("no")

    return work


def hand_out(tx: Tx, *, most: int, turn: str) -> None:
    rows = tx.inbox.list_next(2, limit=most)
    tx.inbox.mark_delivered(2, [row.id for row in rows], at=2, turn=turn)


def choose(dice: random.Random) -> Callable[[Tx], object]:
    """Something that changes who waits in a mailbox."""
    some = [dice.randint(1, 60) for _ in range(4)]
    mailbox = dice.choice([2, 2, None])
    turn = dice.choice(TURNS)
    urgent = UrgentHanded(some[0], some[1] % 3)
    changes: list[Callable[[Tx], object]] = [
        partial(send, urgent=dice.random() < 0.2),
        partial(send, to=None),
        partial(send, to=mailbox),
        partial(hand_out, most=dice.randint(1, 3), turn=turn),
        lambda tx: tx.inbox.release(2, ids=some),
        lambda tx: tx.inbox.release(2, turn=turn),
        lambda tx: tx.inbox.ack_until(mailbox, some[0], at=3, urgent=urgent),
        lambda tx: tx.inbox.ack_ids(mailbox, some, at=3),
        lambda tx: tx.parked.fail_turn(2, turn, ids=None, most=2, at=4),
        lambda tx: tx.parked.release(some[0]),
        lambda tx: tx.old_messages.delete(acked_before=4, limit=3, chars=2),
    ]
    return dice.choice(changes)


def count(tx: Tx) -> list[int]:
    return [tx.inbox.count_pending(mailbox) for mailbox in (2, None)]


@pytest.mark.parametrize("seed", SEEDS)
async def test_what_waits_is_counted_right_through_changes_and_failures(store: Store, seed: int) -> None:
    dice = random.Random(seed)

    async def do(unit: Callable[[Tx], object]) -> None:
        try:
            await store.write(unit)
        except NotFound:
            return

    for _ in range(25):
        units: list[Callable[[Tx], object]] = []
        for _ in range(dice.randint(1, 6)):
            unit = choose(dice)
            units.append(failing(unit) if dice.random() < 0.15 else unit)
        async with anyio.create_task_group() as tasks:
            for unit in units:
                tasks.start_soon(do, unit)
        assert await store.write(count) == await store.read(count)


def look(tx: Tx) -> tuple[AgentRow | None, AgentRow | None]:
    return tx.agents.find_live(2), tx.agents.find_by_name("iris")


CHANGES: dict[str, Callable[[Tx], object]] = {
    "boot": lambda tx: tx.agents.set_boot(2, "b"),
    "grants": lambda tx: tx.agents.set_grants(2, Grants(groups=[], capabilities=[], version=3)),
    "urgent": lambda tx: tx.agents.note_urgent_handed(tx.agents.find_live(2) or pytest.fail("absent"), 7),
    "limits": lambda tx: tx.agents.lift_limits(2, until=9),
    "parent": lambda tx: tx.agents.reparent_children(1, to=None),
    "end": lambda tx: tx.agents.mark_destroyed(2, at=5),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_an_agent_is_as_the_database_has_it(store: Store, name: str) -> None:
    change = CHANGES[name]
    before = await store.write(look)
    with pytest.raises(NotFound):
        await store.write(failing(change, look))
    assert await store.write(look) == before == await store.read(look)
    await store.write(change)
    assert await store.write(look) == await store.read(look)


async def test_an_agent_that_was_not_created_after_all_is_not_remembered(store: Store) -> None:
    def create(tx: Tx) -> None:
        add(tx, name="otto", block=7)
        assert tx.agents.find_by_name("otto") is not None

    def find(tx: Tx) -> AgentRow | None:
        return tx.agents.find_by_name("otto")

    with pytest.raises(NotFound):
        await store.write(failing(create))
    assert await store.write(find) is None
    await store.write(create)
    assert await store.write(find) == await store.read(find) is not None


HIGHEST: tuple[dict[str, Any], ...] = (
    {"since": 0, "until": 99, "turn": None},
    {"since": 5, "until": 99, "turn": None},
    {"since": 5, "until": 99, "turn": "t1"},
    {"since": 0, "until": 4, "turn": "t2"},
)


@pytest.mark.parametrize("different", [0, 3, 70])
async def test_the_hops_that_an_agent_was_handed_are_as_the_database_has_them(
    store: Store, different: int
) -> None:
    def find(tx: Tx) -> list[int | None]:
        return [tx.handed.find_highest(2, **window) for window in HIGHEST]

    def record(tx: Tx) -> None:
        tx.handed.record(2, set(range(1, different + 1)), at=4, turn="t1")

    def record_later(tx: Tx) -> None:
        tx.handed.record(2, {2}, at=6, turn="t2")

    assert await store.write(find) == [None] * len(HIGHEST)
    for change in (record, record_later):
        with pytest.raises(NotFound):
            await store.write(failing(change, find))
        assert await store.write(find) == await store.read(find)
        await store.write(change)
        assert await store.write(find) == await store.read(find)
