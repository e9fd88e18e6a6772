"""How answers about tasks are worded. Pure functions; the formats are contract.

What a task wrote, and its command, is foreign text: fenced with a nonce of the answer, or made one line.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shared.prose import count, fence, make_nonce, one_line
from shared.tasks.model import End, StreamRecord, TaskState
from shared.tasks.output.search import Match, SearchResult
from shared.tasks.output.views import View
from shared.tasks.registry import TaskRow

NAMES: Final = {"out": "stdout", "err": "stderr"}
_SHORT_TITLE: Final = 80
_MAX_DETAIL: Final = 4_000


@dataclass(frozen=True)
class Tails:
    """The last of each stream, and where all of it lies."""

    views: Mapping[str, View]
    paths: Mapping[str, str]


@dataclass(frozen=True)
class Swept:
    """There is no output any more, or none that can be read now."""

    why: str
    is_removed: bool = True


def render_started(row: TaskRow, *, is_waiting: bool) -> str:
    """The answer of `run` when the task has not ended: its first line is contract."""
    first = f"task started: id={row.id}"
    if row.state is TaskState.PENDING:
        return f"{first}\nIt is pending: as many tasks run as may, and it starts when one ends."
    if is_waiting:
        return f"{first}\nIt waits for input: use send_input, or kill."
    return f"{first}\nIt runs on; you are woken when it ends."


def render_status(row: TaskRow, tails: Tails | Swept, *, is_waiting: bool) -> str:
    """State, command and the last of both streams."""
    lines = [f"task {row.id}: {describe_state(row)}"]
    if is_waiting:
        lines.append("It waits for input: use send_input, or kill.")
    lines.append(f"command: {one_line(row.title)}")
    lines += _describe_remains(row.end)
    if isinstance(tails, Swept):
        return "\n".join([*lines, _say_swept(tails)])
    nonce = make_nonce(view.text for view in tails.views.values())
    for stream, view in tails.views.items():
        dropped = row.end["streams"].get(stream) if row.end else None
        lines += _render_tail(stream, view, tails.paths[stream], nonce, dropped)
    return "\n".join(lines)


def describe_state(row: TaskRow) -> str:
    """`done, exit code 0, 1.2 s`; `killed by signal 9 (SIGKILL), 3 min`; `running for 12 s`."""
    end = row.end
    if end is None:
        return row.state.value
    parts = [row.state.value]
    if end["exit_code"] is not None:
        parts.append(f"exit code {end['exit_code']}")
    if end["signal"] is not None:
        parts.append(f"signal {_name_signal(end['signal'])}")
    if row.state is not TaskState.FAILED and end["started_at"] < end["ended_at"]:
        parts.append(render_duration(end["duration_ms"]))
    text = ", ".join(parts)
    return f"{text}: {one_line(end['reason'], limit=500)}" if end["reason"] else text


def render_duration(milliseconds: int) -> str:
    """`0.012 s`, `4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.3g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def render_list(
    running: Sequence[TaskRow], ended: Sequence[TaskRow], *, total: int, waiting: Collection[str]
) -> str:
    """A line a task: those that run or wait, then the newest that have ended."""
    if not running and not ended:
        return "no tasks"
    lines = []
    for row in running:
        note = ", waits for input" if row.id in waiting else ""
        lines.append(f"{row.id} {row.state}{note}: {one_line(row.title, limit=_SHORT_TITLE)}")
    lines += [f"{row.id} {describe_state(row)}: {one_line(row.title, limit=_SHORT_TITLE)}" for row in ended]
    if (more := total - len(running) - len(ended)) > 0:
        lines.append(f"and {count(more, 'earlier task')}")
    return "\n".join(lines)


def render_page(row: TaskRow, stream: str, view: View) -> str:
    """A part of one stream, with what is needed to read on."""
    head = f"task {row.id} {NAMES[stream]}: bytes {view.offset} to {view.next_offset} of {view.total_bytes}"
    if row.end is None:
        head += " so far"
    lines = [head]
    if view.dropped:
        lines.append(_say_dropped(view))
    if view.removed:
        lines.append("The file was removed or replaced while the task ran.")
    if view.text:
        lines.append(fence(view.text, make_nonce([view.text])))
    if view.next_offset < view.total_bytes:
        lines.append(f"Next: offset={view.next_offset}")
    return "\n".join(lines)


def render_matches(row: TaskRow, stream: str, found: SearchResult) -> str:
    """The lines of one stream that match, a line each: its number, the byte it begins at, its text."""
    span = f"bytes {found.searched_from} to {found.searched_to} of {found.total_bytes}"
    counted = count(len(found.matches) + found.more, "line")
    lines = [f"task {row.id} {NAMES[stream]}: {counted} matched in {span}"]
    if found.removed:
        lines.append("The file was removed or replaced while the task ran.")
    if found.dropped:
        lines.append(f"Bytes {found.dropped[0]} to {found.dropped[1]} were not kept, and so not searched.")
    if found.matches:
        shown = "\n".join(_render_match(match) for match in found.matches)
        lines.append(fence(shown, make_nonce([shown])))
    if found.more:
        lines.append(f"{found.more} more are not shown.")
    if found.slow:
        lines.append(
            f"The expression is too slow for the line at byte {found.searched_to}: use a simpler one, or an "
            "offset behind that line."
        )
    if found.next_offset is not None and not (found.slow and found.next_offset <= found.searched_from):
        lines.append(f"Next: offset={found.next_offset}")
    return "\n".join(lines)


def _render_match(match: Match) -> str:
    number = "?" if match.line_number is None else match.line_number
    cut = "" if match.line_bytes is None else f" ({match.line_bytes} bytes)"
    return f"{number} @{match.offset}{cut}: {match.text}"


def render_swept(row: TaskRow) -> str:
    """What is left to say of output that is gone."""
    return f"task {row.id}: {describe_state(row)}\n{_say_swept(Swept(row.swept or ''))}"


def render_todo(row: TaskRow, tails: Tails | Swept) -> tuple[str, str | None]:
    """Summary and detail of a todo: how a task ended, or that it waits for input; and its last lines."""
    title = one_line(row.title, limit=_SHORT_TITLE)
    if row.end is None:
        summary = f"[bash] task {row.id} waits for input ({title}) — use send_input, or kill"
    else:
        summary = f"[bash] task {row.id} {describe_state(row)} ({title}) — use status to view"
    if isinstance(tails, Swept):
        return summary, _say_swept(tails)
    parts = [
        f"{NAMES[stream]}:\n{view.text.rstrip()}" for stream, view in tails.views.items() if view.text.strip()
    ]
    return summary, "\n".join(parts)[-_MAX_DETAIL:] or None


def _describe_remains(end: End | None) -> list[str]:
    """What the command left running, and what nothing could end."""
    lines = []
    if end and end["leftovers"]:
        lines.append(
            f"It left these running, which were ended: {one_line(', '.join(end['leftovers']), limit=500)}"
        )
    if end and end["survivors"]:
        lines.append(f"These could not be ended: {one_line(', '.join(end['survivors']), limit=500)}")
    return lines


def _render_tail(stream: str, view: View, path: str, nonce: str, end: StreamRecord | None) -> list[str]:
    name = NAMES[stream]
    if view.removed:
        return [f"{name}: {path} was removed or replaced while the task ran"]
    if not view.total_bytes:
        return [f"{name}: empty"]
    part = "" if view.offset == 0 and not view.dropped else "the end of "
    lines = [f"{name}: {part}{count(view.total_bytes, 'byte')}, {path}"]
    if end and end["dropped_bytes"]:
        lines.append(
            f"{end['dropped_bytes']} bytes from byte {end['head_bytes']} on were not kept ({end['reason']})."
        )
    elif view.dropped:
        lines.append(_say_dropped(view))
    return [*lines, fence(view.text.removesuffix("\n"), nonce)]


def _say_dropped(view: View) -> str:
    begin, end = view.dropped or (0, 0)
    return f"Bytes {begin} to {end} were not kept ({one_line(view.reason or 'cap', limit=80)})."


def _say_swept(swept: Swept) -> str:
    what = "was removed" if swept.is_removed else "cannot be read"
    return f"Its output {what}: {one_line(swept.why, limit=400)}."


def _name_signal(number: int) -> str:
    try:
        return f"{number} ({signals.Signals(number).name})"
    except ValueError:
        return str(number)
