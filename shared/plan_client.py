"""What a daemon asks of the broker about what its agent plans ahead. `BrokerClient.plans` is one."""

from __future__ import annotations

from shared.runtime.calls import Call
from shared.runtime.link import Link
from shared.wire.approvals import MAX_WAIT_SECONDS, Approval, AskPermission
from shared.wire.loose_ends import BrokerLooseEnds
from shared.wire.model import WireRequest
from shared.wire.reminders import Reminder, RemindRequest, SpillsRequest, SpillsResult
from shared.wire.schedules import CancelSchedule, EditSchedule, RequestSchedule, Schedule, SchedulePage

_UNSURE_PLAN = "it may or may not have been done: look with list_schedules before you repeat it"
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

    async def list_loose_ends(self) -> BrokerLooseEnds:
        """The agent's open threads that the broker knows of."""
        return await self._link.ask(Call("GET", "/v1/agent/loose-ends"), BrokerLooseEnds)

    async def ask_permission(self, request: AskPermission, key: str) -> Approval:
        """Ask the operator whether a tool may be used. A repeat under the same `key` asks nothing twice.

        Raises:
            Forbidden: without the capability `relay_permissions`; then it is denied.
        """
        unsure = "the operator may or may not have been asked"
        return await self._link.ask(Call("POST", "/v1/agent/approvals", request, key, unsure), Approval)

    async def get_approval(self, approval_id: int, *, wait_seconds: int = 0) -> Approval:
        """One that this agent submitted, after its end or the wait (10 s at most), whichever is first.

        Raises:
            NotFound: when there is none by this id.
        """
        query = {"wait_seconds": str(min(wait_seconds, MAX_WAIT_SECONDS, 10))}
        return await self._link.ask(
            Call("GET", f"/v1/agent/approvals/{approval_id:d}", query=query), Approval
        )

    async def cancel_approval(self, approval_id: int) -> Approval:
        """Cancel a pending one, as the root agent.

        Raises:
            Forbidden: for any other agent, or without a group.
            NotFound: when there is none that the agent may cancel.
            Conflict: when it is settled.
        """
        call = Call("DELETE", f"/v1/agent/approvals/{approval_id:d}", unsure=_UNSURE)
        return await self._link.ask(call, Approval)

    async def request_schedule(self, request: RequestSchedule, key: str) -> Schedule:
        """Have the operator asked for a schedule. A repeat under the same `key` asks nothing twice."""
        call = Call("POST", "/v1/agent/schedules", request, key, _UNSURE_PLAN)
        return await self._link.ask(call, Schedule)

    async def edit_schedule(self, schedule_id: int, change: EditSchedule, key: str) -> Schedule:
        """Change some of a schedule of this agent's, or of one below."""
        return await self._steer(schedule_id, "edit", change, key)

    async def cancel_schedule(self, schedule_id: int, request: CancelSchedule, key: str) -> Schedule:
        """End one, or leave targets out."""
        return await self._steer(schedule_id, "cancel", request, key)

    async def fire_schedule(self, schedule_id: int, key: str) -> Schedule:
        """Fire one now. A repeat under the same `key` fires nothing twice."""
        return await self._steer(schedule_id, "fire", None, key)

    async def list_schedules(self) -> SchedulePage:
        """All that this agent may steer, and what ended lately."""
        return await self._link.ask(Call("GET", "/v1/agent/schedules"), SchedulePage)

    async def _steer(self, schedule_id: int, verb: str, body: WireRequest | None, key: str) -> Schedule:
        path = f"/v1/agent/schedules/{schedule_id:d}/{verb}"
        return await self._link.ask(Call("POST", path, body, key, _UNSURE_PLAN), Schedule)
