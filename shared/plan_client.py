"""What a daemon asks of the broker about what its agent plans ahead. `BrokerClient.plans` is one."""

from __future__ import annotations

from shared.runtime.calls import Call
from shared.runtime.link import Link
from shared.wire.reminders import Reminder, RemindRequest, SpillsRequest, SpillsResult

_UNSURE = "it may or may not have been done: look with get_loose_ends before you repeat it"


class PlanClient:
    """Calls over a link that somebody else opens and closes; errors are those of `BrokerClient`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def remind(self, request: RemindRequest, key: str) -> Reminder:
        """Set a reminder. A repeat under the same `key` sets nothing twice.

        Raises:
            InvalidInput: for a time that cannot be.
            LimitExceeded: when too many are pending.
        """
        unsure = "the reminder may or may not have been set: look with get_loose_ends before you repeat it"
        return await self._link.ask(Call("POST", "/v1/agent/reminders", request, key, unsure), Reminder)

    async def cancel_reminder(self, reminder_id: int) -> Reminder:
        """Delete one of the agent's own; answers what it was.

        Raises:
            NotFound: when there is none by this id, also where an earlier attempt has deleted it.
        """
        call = Call("DELETE", f"/v1/agent/reminders/{reminder_id:d}", unsure=_UNSURE)
        return await self._link.ask(call, Reminder)

    async def get_spills(self, request: SpillsRequest) -> SpillsResult:
        """Which files of long reminders are still needed; what is not this agent's is left out."""
        return await self._link.ask(Call("POST", "/v1/agent/reminder-spills", request), SpillsResult)
