"""The daemon's connection to a supervisor, when that has gone: a clear error, on either event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from shared.errors import Unavailable
from shared.tasks.live import LiveTask


async def _ask_after_the_end() -> None:
    ours, theirs = socket.socketpair()
    live = await LiveTask.open(ours, on_event=lambda _: None)
    theirs.close()
    await live.listen()
    # The transport is gone for good with the next turn of the loop.
    await asyncio.sleep(0)
    await live.send_launch({})
    with pytest.raises(Unavailable, match="does not answer"):
        await live.ask({"cmd": "state"})


@pytest.mark.requirement("bash.daemon-killed")
@pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_asking_a_supervisor_that_has_gone_is_an_error_to_expect(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_ask_after_the_end())
