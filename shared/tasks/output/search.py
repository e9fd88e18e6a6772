"""Searching the output of a task, by a regular expression for each line.

Runs in a daemon, in a worker thread; the work is done by a process of its own (`searching`), which is killed
when it does not answer in time: ADR 0023.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shared.errors import InvalidInput, LimitExceeded, Unavailable
from shared.tasks.output.stored import StoredStream, StreamFiles

MAX_PATTERN_CHARACTERS = 1000
MATCHES = 50
MATCH_BYTES = 16_000
MAX_MATCH_BYTES = 28_000
SECONDS = 5.0
# Beyond its own alarm, and for starting on a busy machine.
_GRACE_SECONDS = 2.0
_ANSWER_BYTES = 1024 * 1024
# A search takes a core; more of them at once would only share it.
_PLACES = threading.BoundedSemaphore(2)
# Started without site-packages: the program needs none of them.
_MODULE = "shared.tasks.output.searching"
_PROGRAM = f"import sys; sys.path.append(sys.argv[1]); from {_MODULE} import main; main()"
_ROOT = str(Path(__file__).resolve().parents[3])


@dataclass(frozen=True)
class Match:
    """One line that matched.

    Args:
        offset: where the line starts in the stream; one over 64 KiB is searched in parts, each with its own.
        line_number: from 1; None where bytes in front of it were dropped.
        text: the line as it is shown, around the match where it is long.
        line_bytes: how long the line, or its part, is, where `text` is not all of it.
    """

    offset: int
    line_number: int | None
    text: str
    line_bytes: int | None = None


@dataclass(frozen=True)
class SearchResult:
    """What was found.

    Args:
        matches: in order, as many as were asked for and fit.
        more: further lines that matched, up to `searched_to`.
        searched_from: where the search began.
        searched_to: up to where it came; less than `total_bytes` when time was up.
        total_bytes: written by the task so far.
        next_offset: where to go on: at the first match not shown, or at what was not searched. None: all is
            said.
        slow: the pattern itself is too slow: it did not get past the line at `searched_to`.
        dropped: (from, to): the first bytes in this part that are not there, so were not searched.
        removed: the task's file was deleted or replaced.
    """

    matches: tuple[Match, ...]
    more: int
    searched_from: int
    searched_to: int
    total_bytes: int
    next_offset: int | None
    slow: bool = False
    dropped: tuple[int, int] | None = None
    removed: bool = False


def search(
    files: StreamFiles,
    pattern: str,
    *,
    offset: int = 0,
    max_matches: int = MATCHES,
    max_bytes: int = MATCH_BYTES,
    seconds: float = SECONDS,
) -> SearchResult:
    """Find the lines, as they are shown, in which `pattern` (Python's `re`) matches.

    Args:
        files: the stream.
        pattern: matched within one line: `^` and `$` are its ends.
        offset: where to start in the stream; negative: so many bytes before its end.
        max_matches: lines that are answered at most; further ones are counted.
        max_bytes: what they take as JSON at most.
        seconds: after this time the answer says how far it came.

    Raises:
        InvalidInput: the pattern, or `offset`, is wrong.
        LimitExceeded: other searches are under way.
        Unavailable: no process can be started.
    """
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise InvalidInput(f"the pattern is longer than {MAX_PATTERN_CHARACTERS} characters")
    with StoredStream(files) as stored:
        total = stored.total_bytes
        if offset > total:
            raise InvalidInput(f"offset {offset} is past the end: the stream has {total} bytes")
        start = max(0, total + offset) if offset < 0 else offset
        request = {
            "pattern": pattern,
            "offset": start,
            "total": total,
            "pieces": [[piece.start, piece.end, piece.fd, piece.shift] for piece in stored.pieces],
            "max_matches": max(1, max_matches),
            "max_bytes": min(max_bytes, MAX_MATCH_BYTES),
            "seconds": seconds,
        }
        if not _PLACES.acquire(timeout=seconds):
            raise LimitExceeded("other searches are under way; try again", details={"retry_after_seconds": 1})
        try:
            answers = list(_ask(request, [piece.fd for piece in stored.pieces]))
        finally:
            _PLACES.release()
        result = _result(answers, start, total)
        return replace(result, dropped=stored.find_hole(start, result.searched_to), removed=stored.removed)


def _ask(request: dict[str, Any], fds: list[int]) -> Iterator[dict[str, Any]]:
    """Start the program, and give what it answers until it ends or is killed."""
    deadline = time.monotonic() + request["seconds"] + _GRACE_SECONDS
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, _ROOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=fds,
            env={},
            cwd="/",
        )
    except OSError as exc:
        raise Unavailable(f"no process can be started for the search: {exc.strerror}") from exc
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        # Less than a pipe holds: it does not wait for the reader.
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.close()
        yield from _read_lines(process.stdout.fileno(), deadline)
    except BrokenPipeError:
        return  # it ended at once; there is no answer then
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def _read_lines(fd: int, deadline: float) -> Iterator[dict[str, Any]]:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    rest, taken = b"", 0
    while taken < _ANSWER_BYTES and (left := deadline - time.monotonic()) > 0:
        if not poll.poll(left * 1000):
            return
        data = os.read(fd, 65536)
        if not data:
            return
        taken += len(data)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield json.loads(line)


def _result(answers: list[dict[str, Any]], start: int, total: int) -> SearchResult:
    if not answers:
        raise Unavailable("the search could not be run: the machine is too busy, or out of memory")
    matches, at, last = [], start, answers[-1]
    for answer in answers:
        if (found := answer.get("match")) is not None:
            matches.append(Match(found["offset"], found["line"], found["text"], found["bytes"]))
        at = answer.get("at", at)
    if "bad" in last:
        where = "" if last["position"] is None else f" at character {last['position'] + 1}"
        raise InvalidInput(f"the pattern is no regular expression{where}: {last['bad']}")
    if "done" in last:
        at, following, slow = last["done"], last["next_offset"], last["slow"]
        more = last["more"]
    else:
        following, slow, more = None, True, 0  # killed: it did not even hear its own alarm
    if following is None and at < total:
        following = at
    return SearchResult(tuple(matches), more, start, at, total, following, slow)
