"""The program that searches one stream: a process of its own, as `re` cannot be stopped in a thread.

`search` starts it with `-I -S`, the open files, and a request as one JSON line on stdin; it answers in JSON
lines: `at` (so far all is searched), `match`, and one `done` or `bad`. It sees a line as it is shown. Its
time, processor time and memory are bounded, and it opens nothing.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

from shared.tasks.output.folding import fold, whole_end

BLOCK_BYTES = 1024 * 1024
# A longer line is searched in parts of this size.
LINE_BYTES = 64 * 1024
TEXT_CHARACTERS = 400
COUNT_SECONDS = 1.0
MEMORY_BYTES = 512 * 1024 * 1024
# A part of the time that one block may take before the pattern is to blame.
_SLOW_SHARE = 0.5
_FRONT_CHARACTERS = 80
_NOT_PLAIN = re.compile(rb"[^\t\n\x20-\x7e]")
_LINES = re.compile(rb"[^\n]*\n|[^\n]+")
_META = re.compile(r"[.^$*+?{}\[\]\\|()]")


class _TimeUpError(Exception):
    """Raised by the alarm, in the middle of whatever runs."""


class _Search:
    """One run over the stream, block by block; what it knows is right whenever it is stopped."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.pieces: list[list[int]] = request["pieces"]
        self.at: int = request["offset"]
        self.total: int = request["total"]
        self.left_matches: int = request["max_matches"]
        self.left_bytes: int = request["max_bytes"]
        self.seconds: float = request["seconds"]
        self.pattern = re.compile(request["pattern"])
        self.literal: str | None = None if _META.search(request["pattern"]) else request["pattern"]
        self.line: int | None = 1  # not known behind a hole
        self.shown = False
        self.more = 0
        self.next_offset: int | None = None
        self.slow = False

    def run(self) -> None:
        """Search until the end or the alarm."""
        try:
            self._count_lines()
            for offset, block, follows in self._blocks(self.at):
                self.at = offset
                if not follows:
                    self.line = None
                _say({"at": offset})
                self._search_block(block)
            self.at = self.total  # behind the last block is nothing, or what was dropped
        except _TimeUpError:
            return

    def _count_lines(self) -> None:
        """How many lines stand in front of where the search starts."""
        end, lines = 0, 1
        for start, data in _read(self.pieces, 0, self.at):
            if start != end:
                break
            end += len(data)
            lines += data.count(b"\n")
        self.line = lines if end == self.at else None

    def _blocks(self, end: int) -> Iterator[tuple[int, bytes, bool]]:
        """(offset, bytes, whether they follow what came before): whole lines, or parts of long ones."""
        rest, follows = b"", True
        for start, data in _read(self.pieces, end, None):
            if start != end:
                if rest:
                    yield end - len(rest), rest, follows
                rest, follows = b"", False
            end = start + len(data)
            rest += data
            cut = rest.rfind(b"\n") + 1
            if not cut and len(rest) >= LINE_BYTES:
                cut = whole_end(rest, len(rest) - 1)
            if cut:
                yield end - len(rest), rest[:cut], follows
                rest, follows = rest[cut:], True
        if rest:
            yield end - len(rest), rest, follows

    def _search_block(self, block: bytes) -> None:
        begun = time.monotonic()
        offset, index, sizes = self.at, 0, [0]
        try:
            lines, sizes = self._show(block)
            search = self.pattern.search
            for index, line in enumerate(lines):
                found = search(line)
                if found is not None:
                    self._found(found, line, block, sizes, index)
        except _TimeUpError:
            passed = sum(sizes[:index])
            self.at += passed
            self.slow = self.next_offset is None and time.monotonic() - begun > self.seconds * _SLOW_SHARE
            raise
        self.at = offset + len(block)
        if self.line is not None:
            self.line += block.count(b"\n")

    def _show(self, block: bytes) -> tuple[list[str], list[int]]:
        """(the lines of a block as they are shown, the bytes that each stands for)."""
        if _NOT_PLAIN.search(block) is None:
            text = block.decode("ascii")
            if self.literal is not None and self.literal not in text:
                return [], []
            lines = text.split("\n")
            if not lines[-1]:
                lines.pop()
            sizes = [len(line) + 1 for line in lines]
            if max(sizes) <= LINE_BYTES:
                return lines, sizes
        parts = [part for line in _LINES.findall(block) for part in _parts(line)]
        return [fold(part.removesuffix(b"\n")) for part in parts], [len(part) for part in parts]

    def _found(self, found: re.Match[str], line: str, block: bytes, sizes: list[int], index: int) -> None:
        if self.next_offset is not None:
            self.more += 1
            return
        passed = sum(sizes[:index])
        text, cut = _excerpt(line, found.start())
        match = {
            "offset": self.at + passed,
            "line": None if self.line is None else self.line + block.count(b"\n", 0, passed),
            "text": text,
            "bytes": len(block[passed : passed + sizes[index]].rstrip(b"\n")) if cut else None,
        }
        cost = len(json.dumps(match, ensure_ascii=False).encode())
        if not self.left_matches or (cost > self.left_bytes and self.shown):
            self.next_offset, self.more = self.at + passed, 1
            # The answer is there; what is left is counted, for a while.
            left, _ = signal.getitimer(signal.ITIMER_REAL)
            signal.setitimer(signal.ITIMER_REAL, min(left, COUNT_SECONDS) or COUNT_SECONDS)
            return
        self.left_bytes -= cost
        self.left_matches -= 1
        self.shown = True
        _say({"match": match})


def _read(pieces: list[list[int]], start: int, end: int | None) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of what is there from `start` up to `end`."""
    for first, last, fd, shift in pieces:
        at = max(first, start)
        stop = last if end is None else min(last, end)
        while at < stop:
            data = os.pread(fd, min(BLOCK_BYTES, stop - at), at - shift)
            if not data:
                break
            yield at, data
            at += len(data)


def _parts(line: bytes) -> Iterator[bytes]:
    while len(line) > LINE_BYTES:
        cut = whole_end(line, LINE_BYTES)
        yield line[:cut]
        line = line[cut:]
    yield line


def _excerpt(line: str, at: int) -> tuple[str, bool]:
    """(what is shown of a line, whether that is less than all)."""
    if len(line) <= TEXT_CHARACTERS:
        return line, False
    start = max(0, min(at - _FRONT_CHARACTERS, len(line) - TEXT_CHARACTERS))
    stop = start + TEXT_CHARACTERS
    return f"{'…' if start else ''}{line[start:stop]}{'…' if stop < len(line) else ''}", True


def _say(answer: dict[str, Any]) -> None:
    # At most PIPE_BUF, so whole or not at all when the alarm rings.
    os.write(1, json.dumps(answer, ensure_ascii=False).encode() + b"\n")


def _ring(*_: object) -> None:
    raise _TimeUpError


def main() -> None:
    """Answer the request on stdin."""
    request = json.loads(sys.stdin.readline())
    seconds: float = request["seconds"]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 2, int(seconds) + 2))
    signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        search = _Search(request)
        search.run()
    except re.error as exc:
        _say({"bad": exc.msg, "position": exc.pos})
    except (_TimeUpError, MemoryError, OverflowError, RecursionError):
        _say({"bad": "it is too large", "position": None})
    else:
        _say({"done": search.at, "more": search.more, "next_offset": search.next_offset, "slow": search.slow})
