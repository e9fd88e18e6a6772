"""What a todo store remembers, and for how long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from services.hyperhive_mcp.agent_socket import MAX_LIST_BYTES, AgentSocket
from services.hyperhive_mcp.service.compaction import Compaction
from services.hyperhive_mcp.service.todos import TodoService
from services.hyperhive_mcp.store import StateStore, TodoStore
from services.hyperhive_mcp.store import todos as rows
from shared.errors import Conflict, LimitExceeded
from shared.wire.todos import MAX_OPEN_TODOS, UpsertTodo


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TodoStore]:
    with closing(TodoStore(tmp_path / "todos.sqlite")) as opened:
        yield opened


def todo(key: str = "k", summary: str = "s", **more: str) -> UpsertTodo:
    return UpsertTodo.model_validate({"subsystem": "bash", "key": key, "summary": summary, **more})


def revisions(store: TodoStore) -> dict[int, int]:
    return {one.id: one.revision for one in store.list()}


def test_what_a_good_turn_was_shown_is_news_no_more_until_it_changes(
    store: TodoStore, tmp_path: Path
) -> None:
    assert not store.has_news()
    store.upsert(todo(), now=1)
    shown = revisions(store)
    store.upsert(todo(summary="changed while the turn ran"), now=2)
    store.mark_shown(shown)
    assert store.has_news()
    store.mark_shown(revisions(store))
    assert not store.has_news()
    store.close()

    with closing(TodoStore(tmp_path / "todos.sqlite")) as later:
        assert not later.has_news()
        later.upsert(todo(), now=3)
        assert later.has_news()


def test_a_new_detail_is_stored_and_is_no_news(store: TodoStore) -> None:
    store.upsert(todo(detail="a"), now=1)
    store.mark_shown(revisions(store))
    store.upsert(todo(detail="b"), now=2)

    assert not store.has_news()
    assert [(one.detail, one.updated_at, one.revision) for one in store.list()] == [("b", 2, 1)]


def test_a_todo_that_was_cleared_and_comes_again_is_another_one_and_news(store: TodoStore) -> None:
    first = store.upsert(todo(), now=1)
    store.mark_shown(revisions(store))
    assert store.clear("bash", "k")

    second = store.upsert(todo(), now=2)

    assert second > first
    assert store.has_news()


@pytest.mark.requirement("todos.limits")
def test_so_many_events_are_remembered_and_one_subsystem_pushes_out_no_others(
    store: TodoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "EVENTS_A_SUBSYSTEM", 10)
    quiet = UpsertTodo(subsystem="matrix", key="k", summary="s", event_id="e")
    store.upsert(quiet, now=1)
    store.clear("matrix", "k")
    for number in range(600):
        store.upsert(todo(event_id=f"e{number}"), now=1)
    store.clear("bash", "k")

    store.upsert(todo(event_id="e599"), now=2)
    store.upsert(quiet, now=2)
    assert store.list() == []
    store.upsert(todo(event_id="e0"), now=2)
    assert len(store.list()) == 1


@pytest.mark.requirement("todos.limits")
def test_one_todo_too_many_is_refused_and_open_ones_still_change(store: TodoStore) -> None:
    with store._db.transaction() as db:
        db.executemany(
            "INSERT INTO todos (subsystem, key, summary, revision, updated_at) VALUES ('bash', ?, 's', 1, 1)",
            [(str(number),) for number in range(MAX_OPEN_TODOS)],
        )

    with pytest.raises(LimitExceeded, match="1000 todos are open"):
        store.upsert(todo("one more", event_id="e"), now=1)
    store.upsert(todo("7", "changed"), now=1)
    store.clear("bash", "8")
    # Its event was not noted: told again, it is not lost.
    store.upsert(todo("one more", event_id="e"), now=1)


@pytest.mark.anyio
@pytest.mark.requirement("todos.paged")
async def test_a_list_of_long_todos_comes_in_pages(tmp_path: Path) -> None:
    with (
        closing(TodoStore(tmp_path / "t.sqlite")) as store,
        closing(StateStore(tmp_path / "s.sqlite")) as state,
    ):
        ids = [
            store.upsert(todo(str(number), "\u5b8c" * 2_000, detail="\u5b8c" * 8_000), now=1)
            for number in range(40)
        ]
        socket = AgentSocket(TodoService(store), Compaction(state), dict, lambda: None)
        table = socket._build()
        seen: list[int] = []
        pages = 0
        more: object = True
        while more:
            after = {"after": seen[-1]} if seen else {}
            answer = await table.answer(json.dumps({"cmd": "list_todos", **after}).encode())
            assert len(json.dumps(answer)) < MAX_LIST_BYTES + 10_000
            seen += [one["id"] for one in answer["todos"]]
            more, pages = answer.get("more"), pages + 1
            assert more in {None, len(ids) - len(seen)}
        assert (seen, pages) == (ids, 3)


@pytest.mark.anyio
@pytest.mark.requirement("compact.refused")
async def test_compaction_is_wanted_only_after_a_turn_that_filled_the_context(tmp_path: Path) -> None:
    with closing(StateStore(tmp_path / "s.sqlite")) as state:
        compaction = Compaction(state)
        with pytest.raises(Conflict, match="no turn"):
            await compaction.request()
        compaction.fill_percent = 66.0
        with pytest.raises(Conflict, match=r"66 % of the context"):
            await compaction.request()
        assert not await compaction.is_wanted()

        compaction.fill_percent = 66.1
        await compaction.request()

        assert await Compaction(state).is_wanted()
        await compaction.clear()
        assert not await compaction.is_wanted()
