"""Reminders as the model sets them: short ones go to the broker whole, of a long one the path of its file."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import anyio
import structlog

from services.hyperhive_mcp.spill import ReminderDirectory
from shared.client import BrokerClient
from shared.errors import HiveError, InvalidInput, OutcomeUnknown
from shared.prose import cut_utf8
from shared.wire.model import check_body
from shared.wire.reminders import (
    MAX_REMINDER_BYTES,
    MAX_SPILLS,
    Reminder,
    RemindRequest,
    SpillsRequest,
)

SWEEP_SECONDS = 2.0
# A file that the broker knows nothing of may be one of a request that is still under way.
UNKNOWN_KEPT_SECONDS = 3_600.0
BEGINNING_BYTES = 400

log = structlog.get_logger(__name__)


class ReminderService:
    """Reminders of one agent, through the broker, and their files."""

    def __init__(self, broker: BrokerClient, files: ReminderDirectory) -> None:
        self._broker = broker
        self._files = files

    async def remind(
        self, message: str, *, delay_seconds: int | None, at_unix_timestamp: int | None, key: str
    ) -> str:
        """Set a reminder and say when it comes.

        Raises:
            HiveError: when it could not be set, or its file not be written; then nothing is left of it.
        """
        if len(message.encode()) <= MAX_REMINDER_BYTES:
            body, spill = message, None
        else:
            body, spill = await self._spill(message, key), key
        request = RemindRequest(
            body=body, delay_seconds=delay_seconds, at_unix_timestamp=at_unix_timestamp, spill=spill
        )
        try:
            reminder = await self._broker.plans.remind(request, key)
        except HiveError as exc:
            # Where it may have been stored after all, the file is needed: a sweep finds out.
            if spill is not None and not isinstance(exc, OutcomeUnknown):
                await self.drop_file(spill)
            raise
        at = datetime.fromtimestamp(reminder.due_at, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"Reminder #{reminder.id} is set for {at} (unix {reminder.due_at})."

    async def cancel(self, reminder_id: int) -> Reminder:
        """Delete one of the agent's own, and its file.

        Raises:
            NotFound: when there is none.
        """
        reminder = await self._broker.plans.cancel_reminder(reminder_id)
        if reminder.spill is not None:
            await self.drop_file(reminder.spill)
        return reminder

    async def drop_file(self, key: str) -> None:
        """Remove a text that nobody needs; what cannot be removed now is found by a later sweep."""
        try:
            await anyio.to_thread.run_sync(partial(self._files.remove, [key]))
        except HiveError as exc:
            log.warning("reminder_file_not_removed", reason=exc.message)

    async def sweep(self) -> None:
        """Remove the files of reminders that were acked or never set. Never fails and never takes long."""
        try:
            with anyio.fail_after(SWEEP_SECONDS):
                ages = await anyio.to_thread.run_sync(partial(self._files.list_ages, limit=MAX_SPILLS))
                if not ages:
                    return
                states = (await self._broker.plans.get_spills(SpillsRequest(spills=list(ages)))).states
                done = [
                    key
                    for key, age in ages.items()
                    if states.get(key) == "acked" or (key not in states and age > UNKNOWN_KEPT_SECONDS)
                ]
                await anyio.to_thread.run_sync(partial(self._files.remove, done))
        except (HiveError, TimeoutError) as exc:
            log.warning("reminder_files_not_swept", reason=str(exc))

    async def _spill(self, message: str, key: str) -> str:
        """Write a long text; answers what the reminder says instead."""
        try:
            check_body(message)
        except ValueError as exc:
            raise InvalidInput(f"message: {exc}") from exc
        try:
            path = await anyio.to_thread.run_sync(partial(self._files.write, key, message))
        except HiveError as exc:
            raise HiveError(
                f"the message is over {MAX_REMINDER_BYTES} bytes and its file could not be written: "
                f"{exc.message}. Nothing was set; mend that, or shorten the message",
                code=exc.code,
            ) from exc
        size, beginning = len(message.encode()), cut_utf8(message, BEGINNING_BYTES)
        return (
            f"The whole text ({size} bytes) is in {path} until you ack this message. It begins:\n{beginning}…"
        )
