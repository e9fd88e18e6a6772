"""Heads and bodies in one piece, and nothing that is kept for longer than a turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from shared.runtime.joined import JoinedTransport


class Recorder(asyncio.Transport):
    """Keeps what it is given, call by call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []
        self._closed = False

    def write(self, data: Any) -> None:
        assert not self._closed
        self.calls.append(bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self._closed = True

    def is_closing(self) -> bool:
        return self._closed


@pytest.fixture
async def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def joined(recorder: Recorder) -> JoinedTransport:
    return JoinedTransport(recorder, asyncio.get_running_loop())


async def test_head_and_body_leave_together(joined: JoinedTransport, recorder: Recorder) -> None:
    joined.write(b"head ")
    joined.write(b"body")
    assert recorder.calls == [b"head body"]
    await asyncio.sleep(0)
    assert recorder.calls == [b"head body"]


async def test_a_head_waits_for_no_body_that_comes_later(joined: JoinedTransport, recorder: Recorder) -> None:
    joined.write(b"head")
    await asyncio.sleep(0)
    assert recorder.calls == [b"head"]


async def test_a_close_writes_what_is_kept(joined: JoinedTransport, recorder: Recorder) -> None:
    joined.write(b"head")
    joined.close()
    assert (recorder.calls, recorder.is_closing()) == ([b"head"], True)


async def test_nothing_is_written_to_a_caller_who_has_left(
    joined: JoinedTransport, recorder: Recorder
) -> None:
    joined.write(b"head")
    recorder.close()
    joined.write(b"body")
    joined.write(b"more")
    await asyncio.sleep(0)
    assert recorder.calls == []
