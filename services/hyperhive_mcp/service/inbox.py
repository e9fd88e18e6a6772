"""The inbox as the model sees it: sending, receiving, acking, and what the answers say."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

import anyio
import structlog

from services.hyperhive_mcp.service.long_texts import LongTexts
from services.hyperhive_mcp.service.unknown_sends import UnknownSends
from services.hyperhive_mcp.service.wording import render_ack, render_message, render_send
from shared.client import BrokerClient
from shared.errors import HiveError, OutcomeUnknown
from shared.prose import make_nonce
from shared.runtime.ids import new_ulid
from shared.wire.messages import (
    MAX_RECV,
    MAX_RESULT_BYTES,
    AckRequest,
    Message,
    RecvRequest,
    RecvResult,
    ReleaseRequest,
    SendRequest,
)

# What a rendered row needs besides its body: marker, fence, the note on a cut and the last line.
ROW_OVERHEAD_BYTES = 400
MAX_BODY_SHOWN_BYTES = MAX_RESULT_BYTES - ROW_OVERHEAD_BYTES * 2

log = structlog.get_logger(__name__)


class InboxService:
    """Mail of one agent, through the broker."""

    def __init__(
        self,
        broker: BrokerClient,
        texts: LongTexts,
        unknown: UnknownSends,
        *,
        boot: str,
        on_acked: Callable[[], Awaitable[None]],
    ) -> None:
        self._broker = broker
        self._unknown = unknown
        self._texts = texts
        self._boot = boot
        self._on_acked = on_acked
        # Called after each act that may have changed how many messages wait.
        self.on_handled: Callable[[], None] = lambda: None

    async def send(self, request: SendRequest, *, key: str) -> str:
        """Send one message (or one an agent, for `*`) and say how its recipient stands."""
        try:
            return render_send(await self._broker.send(request, key=key))
        except OutcomeUnknown:
            await self._unknown.note(request, key=key)
            raise

    async def recv(self, wanted: int, *, key: str, turn: str | None) -> str:
        """Hand out up to `wanted` rows (5 at most), urgent first, then oldest, in at most 40,000 bytes."""
        request = RecvRequest(
            max=min(wanted, MAX_RECV),
            max_bytes=MAX_RESULT_BYTES - ROW_OVERHEAD_BYTES,
            boot=self._boot,
            turn=turn,
        )
        # The rows are handed out at the broker before we know: a client that goes away meanwhile must not
        # keep them, so the call is finished in any case and the rows are given back.
        try:
            with anyio.CancelScope(shield=True):
                result = await self._broker.recv(request, key=key)
        finally:
            self.on_handled()
        try:
            await anyio.lowlevel.checkpoint()
            return await self._render(result)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._give_back(result.messages)
            raise

    async def ack_until(self, up_to: int) -> str:
        """Ack every own row up to `up_to`; rows that an urgent one overtook unseen stay."""
        try:
            result = await self._broker.ack(AckRequest(up_to=up_to))
        finally:
            self.on_handled()
        answer = render_ack(result, up_to)
        try:
            await self._texts.remove(result.acked_ids)
        except HiveError as exc:
            # The ack stands: an error would say that it does not.
            log.warning("spill_not_removed", reason=exc.message)
            answer += f" A file with a whole text is still there: {exc.message}."
        await self._texts.sweep()
        await self._on_acked()
        return answer

    async def _render(self, result: RecvResult) -> str:
        now = int(time.time())
        nonce = make_nonce(message.body for message in result.messages)
        parts: list[str] = []
        shown = await self._texts.fit(result.messages, MAX_BODY_SHOWN_BYTES)
        for message, (body, note) in zip(result.messages, shown, strict=True):
            parts.append(render_message(message, body=body, nonce=nonce, now=now, note=note))
        if not parts:
            parts.append("Inbox empty.")
        parts.append(f"{result.pending} more pending")
        return "\n\n".join(parts)

    async def _give_back(self, messages: Sequence[Message]) -> None:
        ids = [message.id for message in messages if message.id]
        if ids:
            released = await self._broker.release(ReleaseRequest(ids=ids), key=new_ulid())
            log.info("rows_given_back", rows=released.released)
