"""A daemon's connection to the supervisor of one task that runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from shared.errors import Unavailable
from shared.tasks.model import End

_LINE_BYTES: Final = 1 << 20
_REPLY_SECONDS: Final = 10.0

Message = dict[str, Any]


class LiveTask:
    """Hears what a supervisor says, and asks it.

    Attributes:
        is_waiting_for_input: as the supervisor last said.
        prompt: how often it has said so.
        refused: why the spawner could not even fork a supervisor, when it could not.
        end: how the task ended, once that was said.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, on_event: Callable[[str], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_event = on_event
        self._replies: deque[asyncio.Future[Message]] = deque()
        self.is_waiting_for_input = False
        self.prompt = 0
        self.refused: str | None = None
        self.end: End | None = None

    @classmethod
    async def open(cls, connection: socket.socket, *, on_event: Callable[[str], None]) -> LiveTask:
        """Take over a connected socket."""
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=_LINE_BYTES)
        return cls(reader, writer, on_event=on_event)

    async def send_launch(self, launch: Message) -> None:
        """Tell a new supervisor what to run. That it is gone shows when it is listened to."""
        with contextlib.suppress(OSError):
            self._write(launch)
            await self._writer.drain()

    async def listen(self) -> None:
        """Hear the supervisor out, until it hangs up or has told the end."""
        try:
            with contextlib.suppress(OSError, ValueError, asyncio.LimitOverrunError):
                while self.end is None and (line := await self._reader.readline()):
                    self._take(json.loads(line))
        finally:
            self.close()

    async def ask(self, command: Message) -> Message:
        """One command, one reply.

        Raises:
            Unavailable: when the supervisor has gone or does not answer.
        """
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        try:
            self._write(command)
            self._replies.append(reply)
            async with asyncio.timeout(_REPLY_SECONDS):
                await self._writer.drain()
                return await reply
        except (OSError, TimeoutError) as exc:
            raise _gone() from exc

    def _write(self, message: Message) -> None:
        """Queue a line.

        Raises:
            ConnectionError: when the connection has closed; uvloop has no error of its own for that.
        """
        if self._writer.is_closing():
            raise ConnectionResetError
        try:
            self._writer.write(json.dumps(message).encode() + b"\n")
        except RuntimeError as exc:
            raise ConnectionResetError from exc

    async def look(self) -> bool:
        """Whether the task waits for input, asked for now.

        Raises:
            Unavailable: when the supervisor has gone or does not answer.
        """
        reply = await self.ask({"cmd": "state"})
        self.note_input(is_waiting=bool(reply.get("waiting_for_input")), prompt=reply.get("prompt"))
        return self.is_waiting_for_input

    def note_input(self, *, is_waiting: bool, prompt: object) -> None:
        """What the supervisor says of it."""
        self.is_waiting_for_input = is_waiting
        if isinstance(prompt, int):
            self.prompt = prompt

    def close(self) -> None:
        """Hang up. The task goes on."""
        self._writer.close()
        while self._replies:
            if not (reply := self._replies.popleft()).done():
                reply.set_exception(_gone())

    def _take(self, message: Message) -> None:
        event = message.get("event")
        if event is None:
            if self._replies:
                reply = self._replies.popleft()
                if not reply.done():
                    reply.set_result(message)
            return
        if event == "waiting_for_input":
            self.note_input(is_waiting=True, prompt=message.get("prompt"))
        elif event == "refused":
            self.refused = str(message["reason"])
        elif event == "ended":
            self.end = message["end"]
        self._on_event(event)


def _gone() -> Unavailable:
    return Unavailable("the task's supervisor does not answer; ask for the task's status")
