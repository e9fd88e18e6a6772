"""The wake level: what waits now counts, whatever was signalled before, and only for an idle agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from services.hyperhive_mcp.service.todos import TodoService
from services.hyperhive_mcp.service.turns import TurnStatus
from services.hyperhive_mcp.service.wake import MAX_WAITING, WakeLevel
from services.hyperhive_mcp.store import TodoStore
from shared.errors import LimitExceeded, Unavailable
from shared.wire.todos import UpsertTodo

pytestmark = pytest.mark.anyio
TODO = UpsertTodo(subsystem="bash", key="k", summary="done")


class Scene:
    """A wake level beside a broker that answers as it is told."""

    def __init__(self, store: TodoStore) -> None:
        self.store = store
        self.todos = TodoService(store)
        self.turns = TurnStatus()
        self.wake = WakeLevel(
            self.todos, self.turns, count_mail=self.count_mail, is_connected=lambda: self.is_connected
        )
        self.is_connected = True
        self.pending: int | None = 0
        self.asked = 0
        self.answers = anyio.Event()
        self.answers.set()
        self.is_asking = anyio.Event()

    async def count_mail(self) -> int:
        self.asked += 1
        self.is_asking.set()
        pending = self.pending
        await self.answers.wait()
        if pending is None:
            raise Unavailable("away")
        return pending


@asynccontextmanager
async def staged(tmp_path: Path) -> AsyncIterator[Scene]:
    store = TodoStore(tmp_path / "todos.sqlite")
    with anyio.fail_after(10):
        yield Scene(store)
    store.close()


@pytest.mark.requirement("wake.level")
async def test_a_level_lasts_until_it_falls(tmp_path: Path) -> None:
    async with staged(tmp_path) as scene:
        assert await scene.wake.wait(0) == []
        scene.wake.set_mail(2)
        await scene.todos.upsert(TODO)
        for _ in range(2):
            assert await scene.wake.wait(30) == ["inbox", "todos"]
        scene.wake.set_mail(0)
        await scene.todos.clear("bash", "k")
        assert await scene.wake.wait(0) == []


@pytest.mark.requirement("wake.unchanged")
async def test_what_a_good_turn_was_shown_wakes_no_more_and_the_same_again_neither(tmp_path: Path) -> None:
    async with staged(tmp_path) as scene:
        for key in "abc":
            await scene.todos.upsert(TODO.model_copy(update={"key": key}))
        assert await scene.wake.wait(30) == ["todos"]
        shown = {todo.id: todo.revision for todo in await scene.todos.list()}
        assert len(shown) == 3
        await scene.todos.mark_shown(shown)
        await scene.todos.upsert(TODO.model_copy(update={"key": "a"}))
        assert await scene.wake.wait(0) == []

        await scene.todos.upsert(TODO.model_copy(update={"key": "a", "summary": "failed"}))
        assert await scene.wake.wait(0) == ["todos"]


@pytest.mark.requirement("wake.busy")
async def test_what_comes_while_a_turn_runs_wakes_when_it_is_over(tmp_path: Path) -> None:
    async with staged(tmp_path) as scene, anyio.create_task_group() as tasks:
        woken: list[list[str]] = []

        async def wait() -> None:
            woken.append(await scene.wake.wait(30))

        scene.turns.set("Thinking")
        tasks.start_soon(wait)
        scene.wake.set_mail(1)
        await anyio.wait_all_tasks_blocked()
        assert woken == []

        scene.turns.set("Idle")
    assert woken == [["inbox"]]


@pytest.mark.requirement("wake.handled")
async def test_what_the_running_turn_has_handled_wakes_nobody_afterwards(tmp_path: Path) -> None:
    async with staged(tmp_path) as scene:
        scene.turns.set("Thinking")
        scene.wake.set_mail(1)
        await scene.todos.upsert(TODO)
        scene.wake.note_handled()
        scene.wake.set_mail(0)
        await scene.todos.clear("bash", "k")
        scene.turns.set("Idle")

        assert await scene.wake.wait(0) == []


@pytest.mark.requirement("wake.handled")
async def test_a_push_from_before_the_ack_wakes_nobody(tmp_path: Path) -> None:
    """The broker is asked: what it pushed may have been under way when the agent acked."""
    async with staged(tmp_path) as scene:
        scene.wake.set_mail(1)
        scene.wake.note_handled()
        scene.wake.set_mail(1)

        assert await scene.wake.wait(0) == []
        assert scene.asked == 1
        scene.wake.set_mail(1)
        assert await scene.wake.wait(0) == ["inbox"]
        assert scene.asked == 1


async def test_a_push_during_the_question_has_it_asked_again(tmp_path: Path) -> None:
    async with staged(tmp_path) as scene, anyio.create_task_group() as tasks:
        woken: list[list[str]] = []

        async def wait() -> None:
            woken.append(await scene.wake.wait(0))

        scene.answers = anyio.Event()
        scene.wake.note_handled()
        tasks.start_soon(wait)
        await scene.is_asking.wait()
        scene.pending = 1
        scene.wake.set_mail(1)
        scene.answers.set()
        await anyio.wait_all_tasks_blocked()

        assert (woken, scene.asked) == ([["inbox"]], 2)


@pytest.mark.parametrize("is_connected", [True, False])
async def test_without_the_broker_the_last_level_holds(tmp_path: Path, is_connected: bool) -> None:
    async with staged(tmp_path) as scene:
        scene.wake.set_mail(1)
        scene.wake.note_handled()
        scene.pending, scene.is_connected = None, is_connected

        assert await scene.wake.wait(0) == ["inbox"]


@pytest.mark.requirement("wake.wait")
async def test_so_many_may_wait_and_all_are_let_go_at_the_end(tmp_path: Path) -> None:
    async with staged(tmp_path) as scene, anyio.create_task_group() as tasks:
        for _ in range(MAX_WAITING):
            tasks.start_soon(scene.wake.wait, 30.0)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(LimitExceeded):
            scene.wake.check_room()
        scene.wake.close()
    assert await scene.wake.wait(30) == []
