"""Bodies that do not fit an answer: cut, the whole text in a file of the state directory until their ack.

That directory is the agent's, so writing there may fail at any time. A message is shown all the same: it must
not stand in the way of those after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio
import structlog

from services.hyperhive_mcp.spill import SpillDirectory
from shared.client import BrokerClient
from shared.errors import HiveError
from shared.prose import cut_quoted, one_line, quote
from shared.wire.messages import Message, MessageState, StatesRequest

MAX_SWEPT = 1_000
SWEEP_SECONDS = 2.0
# What could not be written is kept to try again; at most 64 KiB each.
MAX_MISSING = 10
# Part of what a row needs besides its body; a longer note takes from the body.
NOTE_BYTES = 300
MAX_REASON_CHARS = 300

log = structlog.get_logger(__name__)


class LongTexts:
    """The files of one agent's long messages."""

    def __init__(self, broker: BrokerClient, spill: SpillDirectory) -> None:
        self._broker = broker
        self._spill = spill
        self._missing: dict[int, str] = {}

    async def fit(self, messages: Sequence[Message], max_bytes: int) -> list[tuple[str, str | None]]:
        """What to show of each body, and a note where that is not all of it. Never fails."""
        await self._write_missing()
        # Where long texts come in, those that nobody needs any more go: the directory cannot grow for ever.
        if any(_shown_size(message) > max_bytes for message in messages):
            await self.sweep()
        return [await self._fit(message, max_bytes) for message in messages]

    async def remove(self, message_ids: Sequence[int]) -> None:
        """Remove the texts of messages that were acked.

        Raises:
            HiveError: when a file is there and cannot be removed.
        """
        for number in message_ids:
            self._missing.pop(number, None)
        await anyio.to_thread.run_sync(partial(self._spill.remove, message_ids))

    async def sweep(self) -> None:
        """Remove texts of messages that were acked otherwise, such as by the operator.

        Never fails and never takes long: what is left is found the next time.
        """
        try:
            with anyio.fail_after(SWEEP_SECONDS):
                ids = await anyio.to_thread.run_sync(partial(self._spill.list_ids, limit=MAX_SWEPT))
                if ids:
                    states = (await self._broker.get_states(StatesRequest(ids=ids))).states
                    await self.remove([number for number in ids if states.get(number) is MessageState.ACKED])
        except (HiveError, TimeoutError) as exc:
            log.warning("spills_not_swept", reason=str(exc))

    async def _fit(self, message: Message, max_bytes: int) -> tuple[str, str | None]:
        if _shown_size(message) <= max_bytes:
            return message.body, None
        where = await self._keep(message)
        body = cut_quoted(message.body, max_bytes - max(0, len(where.encode()) - NOTE_BYTES))
        shown, whole = len(body.encode()), len(message.body.encode())
        return body, f"[cut: {shown} of {whole} bytes; {where}]"

    async def _keep(self, message: Message) -> str:
        """Write the whole text; says where it is, or why it is nowhere and what helps."""
        try:
            path = await self._write(message.id, message.body)
        except HiveError as exc:
            log.warning("spill_not_written", message=message.id, size=len(message.body), reason=exc.message)
            while len(self._missing) >= MAX_MISSING:
                self._missing.pop(next(iter(self._missing)))
            self._missing[message.id] = message.body
            reason = one_line(exc.message, limit=MAX_REASON_CHARS)
            return (
                f"the whole text could not be written to {self._spill.path_of(message.id)}: {reason}. Mend "
                "that and call recv, which writes it before it answers; or ask "
                f"{one_line(message.sender, limit=64)} for the rest in shorter messages"
            )
        return f"the whole text is in {path}"

    async def _write_missing(self) -> None:
        for number, body in list(self._missing.items()):
            try:
                await self._write(number, body)
            except HiveError:
                return
            self._missing.pop(number, None)
            log.info("spill_written_late", message=number)

    async def _write(self, number: int, body: str) -> str:
        return str(await anyio.to_thread.run_sync(partial(self._spill.write, number, body)))


def _shown_size(message: Message) -> int:
    return len(quote(message.body).encode())
