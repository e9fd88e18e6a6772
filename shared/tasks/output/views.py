"""Looking at the output of a task: its last lines, and any part of it page by page, as text.

Runs in a daemon, in a worker thread. Each call opens the files, reads at most `WINDOW_BYTES` of them, and
closes them, so its time and memory are bounded whatever the task wrote. Positions are bytes of the stream as
the task wrote it; texts are folded (`folding`), and measured by what they take in a JSON string.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.errors import InvalidInput
from shared.tasks.output.folding import complete_end, fold, whole_end, whole_start
from shared.tasks.output.stored import StoredStream, StreamFiles

WINDOW_BYTES = 128 * 1024
TAIL_BYTES = 4096
PAGE_BYTES = 16_000
MAX_PAGE_BYTES = 28_000
# What is looked at in front of a page, to begin with a whole character or after a whole escape sequence.
_BEFORE_BYTES = 4096


@dataclass(frozen=True)
class View:
    """A part of a stream as text.

    Args:
        text: folded.
        offset: the position in the stream of the first byte shown.
        next_offset: the position after the last byte shown or folded away; the next page starts here.
        total_bytes: written by the task so far.
        dropped: (from, to): bytes that are not there, at the end of this part; of a tail: the last ones that
            were not kept, wherever the tail begins.
        reason: why they are not.
        removed: the task's file was deleted or replaced.
    """

    text: str
    offset: int
    next_offset: int
    total_bytes: int
    dropped: tuple[int, int] | None = None
    reason: str | None = None
    removed: bool = False


def tail_view(files: StreamFiles, max_bytes: int = TAIL_BYTES) -> View:
    """The last lines of a stream, in at most `max_bytes`; a longer line without its beginning."""
    with StoredStream(files) as stored:
        run_start, run_end = stored.last_run(stored.total_bytes)
        start = max(run_start, run_end - WINDOW_BYTES)
        chunk = stored.read(start, run_end - start)
        data = chunk.data
        if files.end is None:
            data = data[: complete_end(data)]
        first = 0 if chunk.start == run_start else whole_start(data, min(1, len(data)))
        text, left, at = "", max_bytes, len(data)
        # From the last line back, so that only what is shown is folded.
        while at > first:
            begin = max(first, data.rfind(b"\n", 0, at - 1) + 1)
            line = _fold_line(data[begin:at])
            cost = text_cost(line)
            if cost > left:
                if not text:
                    text, at = _cut_front(line, left), begin
                break
            text, left, at = line + text, left - cost, begin
        offset = chunk.start + at
        dropped = None
        if run_end < stored.total_bytes:
            dropped = (run_end, stored.total_bytes)
        elif run_start:
            dropped = (stored.last_run(run_start)[1], run_start)
        why = _why(files, stored, dropped)
        return View(text, offset, run_end, stored.total_bytes, dropped, why, stored.removed)


def page(files: StreamFiles, offset: int = 0, max_bytes: int = PAGE_BYTES) -> View:
    """The part of a stream that starts at `offset` (negative: so many bytes before its end).

    A page ends with a line where one ends in it, never within a character or an escape sequence. Going on at
    `next_offset` misses nothing; where that is `offset`, or `total_bytes`, there is no more yet.

    Raises:
        InvalidInput: `offset` is past the end.
    """
    max_bytes = max(64, min(max_bytes, MAX_PAGE_BYTES))
    with StoredStream(files) as stored:
        total = stored.total_bytes
        if offset > total:
            so_far = "" if files.end else " so far"
            raise InvalidInput(
                f"offset {offset} is past the end: the stream has {total} bytes{so_far}",
                details={"total_bytes": total},
            )
        wanted = max(0, total + offset) if offset < 0 else offset
        before = stored.read(max(0, wanted - _BEFORE_BYTES), min(wanted, _BEFORE_BYTES) + WINDOW_BYTES)
        if before.start <= wanted < before.end:
            skipped = whole_start(before.data, wanted - before.start)
        else:
            before, skipped = stored.read(wanted, WINDOW_BYTES), 0
        data = before.data[skipped : skipped + WINDOW_BYTES]
        start = before.start + skipped
        more_follows = files.end is None and start + len(data) == total
        text, used = _fill(data, max_bytes, open_ended=more_follows, cut=len(data) == WINDOW_BYTES)
        next_offset = start + used
        dropped = (wanted, start) if before.start > wanted else None
        if used == len(data) and next_offset < total:
            follows = stored.read(next_offset, 1)
            if follows.start > next_offset:
                dropped = dropped or (next_offset, follows.start)
                next_offset = follows.start
        why = _why(files, stored, dropped)
        return View(text, start, next_offset, total, dropped, why, stored.removed)


def text_cost(text: str) -> int:
    """How many bytes a text takes in a JSON string, which is what an answer is measured by."""
    size = len(text) if text.isascii() else len(text.encode())
    return size + text.count("\n") + text.count('"') + text.count("\\") + text.count("\t")


def _fill(data: bytes, budget: int, *, open_ended: bool, cut: bool) -> tuple[str, int]:
    """(text, bytes of `data` it stands for): whole lines, or a part of the first."""
    end = complete_end(data) if open_ended else len(data)
    texts: list[str] = []
    at, left = 0, budget
    while at < end:
        stop = data.find(b"\n", at, end) + 1 or end
        line = _fold_line(data[at:stop])
        cost = text_cost(line)
        unfinished = cut and stop == end and data[stop - 1] != 0x0A
        if texts and (cost > left or unfinished):
            break
        if cost > left or unfinished:
            return _fill_part(data[at:stop], budget)
        texts.append(line)
        left -= cost
        at = stop
    return "".join(texts), at


def _fill_part(line: bytes, budget: int) -> tuple[str, int]:
    """The same for a line that is too long for a page: what fits, at best up to a carriage return."""
    stop = line.rfind(b"\r", 0, len(line) - 1) + 1 or whole_end(line, len(line) - 1)
    while True:
        text = _fold_line(line[:stop])
        cost = text_cost(text)
        if cost <= budget or stop <= 1:
            return text, stop
        # Each round is shorter, so it ends with what fits or with one character.
        fewer = max(1, min(stop - 1, stop * budget // cost))
        shorter = whole_end(line, fewer)
        if shorter >= stop:
            return "", stop
        stop = shorter


def _fold_line(line: bytes) -> str:
    return fold(line[:-1]) + "\n" if line.endswith(b"\n") else fold(line)


def _cut_front(line: str, budget: int) -> str:
    """The end of a line that fits."""
    shown = line[-budget:]
    while (excess := text_cost(shown) - budget) > 0:
        shown = shown[max(1, excess // 6) :]
    return shown


def _why(files: StreamFiles, stored: StoredStream, dropped: tuple[int, int] | None) -> str | None:
    if dropped is None:
        return None
    tail_start = stored.head_bytes + stored.dropped_bytes
    if stored.head_bytes <= dropped[0] and dropped[1] <= tail_start:
        return (files.end.reason if files.end else None) or "cap"
    return "gone from the disk"
