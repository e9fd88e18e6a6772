"""`hivectl todos`: what an agent has to look at, as its daemon last reported it."""

from __future__ import annotations

import time

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.names import AGENT_NAME
from services.hivectl.render import format_time, print_table, safe
from services.hivectl.session import Session
from shared.prose import age, one_line
from shared.wire.todos import Todo, TodoPage

MAX_SHOWN = 80


@click.command(
    cls=HiveCommand,
    examples=(
        ("hivectl todos iris", "also while iris is down"),
        ("hivectl todos iris --json", "`as_of`, `connected`, `total`, and the newest 100 `todos`"),
    ),
)
@click.argument("name", type=AGENT_NAME)
@pass_session
def todos(session: Session, name: str) -> None:
    """Show an agent's open todos: what bash tasks, chats and other programs told it and it has not cleared.

    Its daemon reports them within seconds; of one that is down these are the last that it reported. Long
    texts are cut.
    """
    with session.open_client() as client:
        page = client.get_todos(name)
    if session.as_json:
        session.emit_json({"agent": name, "as_of": None, **page.model_dump(mode="json", exclude_none=True)})
        return
    if page.todos:
        print_table(("ID", "FROM", "KEY", "CHANGED", "SUMMARY"), [_cells(todo) for todo in page.todos])
    else:
        click.echo(
            f"no todo of {name} is open" if page.as_of is not None else f"{name} has reported no todos yet"
        )
    session.note(_how_fresh(name, page))


def _cells(todo: Todo) -> tuple[str, ...]:
    texts = (one_line(todo.subsystem, limit=30), one_line(todo.key, limit=40), format_time(todo.updated_at))
    return str(todo.id), *(safe(text) for text in texts), safe(one_line(todo.summary, limit=MAX_SHOWN))


def _how_fresh(name: str, page: TodoPage) -> str:
    shown = f"the newest {len(page.todos)} of {page.total}; " if page.total > len(page.todos) else ""
    reported = "" if page.as_of is None else f"as {name} reported {age(int(time.time()) - page.as_of)}"
    lost = "" if page.connected else f"{name} is not connected, and may have more by now"
    return shown + ("; ".join(filter(None, (reported, lost))) or f"{name} is connected")
