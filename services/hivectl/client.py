"""The operator's HTTP client of the broker: sync, typed, one method a route; decides and prints nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import httpx2
from pydantic import BaseModel, TypeAdapter

from shared.errors import HiveError, OutcomeUnknown, Unavailable, error_from_wire
from shared.runtime.ids import new_ulid
from shared.wire.agents import Agent, CreateAgent, HiveInfo, PermissionsChange, PermissionsResult, RotateToken
from shared.wire.approvals import Approval, ApprovalPage, ApprovalQuery, Decision
from shared.wire.lifecycle import CreateJob, Job, JobKind
from shared.wire.messages import (
    AckResult,
    InboxQuery,
    MarkReadRequest,
    Message,
    MessagePage,
    ParkedPage,
    SendRequest,
    SendResult,
    Sent,
    SentMessage,
    SentPage,
)
from shared.wire.notices import GrantReader, NoticeReader
from shared.wire.refusals import RefusalPage, RefusalQuery
from shared.wire.reminders import Reminder, ReminderPage
from shared.wire.schedules import Schedule, SchedulePage
from shared.wire.search import SearchPage, SearchQuery
from shared.wire.tasks import TaskKill, TaskPage
from shared.wire.todos import TodoPage
from shared.wire.wakes import WakeRequest

CONNECT_TIMEOUT_SECONDS = 3.0
ANSWER_TIMEOUT_SECONDS = 20.0

_AGENTS = TypeAdapter(list[Agent])
_JOBS = TypeAdapter(list[Job])
_READERS = TypeAdapter(list[NoticeReader])

M = TypeVar("M", bound=BaseModel)


class OperatorClient:
    """A connection to the broker under the operator's credential.

    Raises:
        Unavailable: from every method, when the broker cannot be reached; nothing was changed.
        OutcomeUnknown: from methods that change something, when the connection broke before the answer.
        HiveError: any other refusal, in the class that the broker raised.
    """

    def __init__(self, url: str, token: str, *, timeout_seconds: float = ANSWER_TIMEOUT_SECONDS) -> None:
        self.url = url.rstrip("/")
        # Proxies and .netrc of the caller's environment have no business between us and loopback.
        self._http = httpx2.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(timeout_seconds, connect=CONNECT_TIMEOUT_SECONDS),
            trust_env=False,
            follow_redirects=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get_hive(self) -> HiveInfo:
        return self._parse(HiveInfo, self._call("GET", "/hive"))

    def list_agents(self, *, destroyed: bool = False) -> list[Agent]:
        params = {"destroyed": "true"} if destroyed else {}
        return self._parse_list(_AGENTS, self._call("GET", "/agents", params=params))

    def get_agent(self, name: str) -> Agent:
        return self._parse(Agent, self._call("GET", f"/agents/{name}"))

    def create_agent(self, request: CreateAgent) -> Agent:
        return self._parse(Agent, self._call("POST", "/agents", request))

    def change_permissions(self, name: str, change: PermissionsChange) -> PermissionsResult:
        return self._parse(PermissionsResult, self._call("PATCH", f"/agents/{name}/permissions", change))

    def rotate_token(self, name: str, request: RotateToken) -> None:
        self._call("POST", f"/agents/{name}/token", request)

    def drop_retiring_token(self, name: str) -> None:
        self._call("DELETE", f"/agents/{name}/token/retiring")

    def create_job(self, name: str, kind: JobKind) -> Job:
        return self._parse(Job, self._call("POST", f"/agents/{name}/jobs", CreateJob(kind=kind)))

    def get_job(self, job_id: int, *, wait_seconds: int = 0) -> Job:
        """The job, as soon as it has ended or after `wait_seconds`."""
        return self._parse(Job, self._call("GET", f"/jobs/{job_id}", params={"wait_seconds": wait_seconds}))

    def list_jobs(self) -> list[Job]:
        return self._parse_list(_JOBS, self._call("GET", "/jobs"))

    def send(self, request: SendRequest) -> SendResult:
        """Send as the operator; a broken connection is retried once under the same idempotency key."""
        headers = {"Idempotency-Key": new_ulid()}
        try:
            answer = self._call("POST", "/messages", request, headers=headers)
        except OutcomeUnknown:
            answer = self._call("POST", "/messages", request, headers=headers)
        return self._parse(SendResult, answer)

    def wake(self, name: str, request: WakeRequest) -> Sent:
        """Wake an agent; a broken connection is retried once under the same idempotency key."""
        headers = {"Idempotency-Key": new_ulid()}
        try:
            answer = self._call("POST", f"/agents/{name}/wake", request, headers=headers)
        except OutcomeUnknown:
            answer = self._call("POST", f"/agents/{name}/wake", request, headers=headers)
        return self._parse(Sent, answer)

    def get_todos(self, name: str) -> TodoPage:
        return self._parse(TodoPage, self._call("GET", f"/agents/{name}/todos"))

    def list_tasks(self, name: str | None, *, include_ended: bool, limit: int) -> TaskPage:
        """Background tasks of an agent, or of all."""
        path = "/tasks" if name is None else f"/agents/{name}/tasks"
        params = {"include_ended": include_ended, "limit": limit}
        return self._parse(TaskPage, self._call("GET", path, params=params))

    def kill_task(self, name: str, task_id: str) -> TaskKill:
        """Have an agent's surface end a task; waits a few seconds for its answer."""
        return self._parse(TaskKill, self._call("POST", f"/agents/{name}/tasks/{task_id}/kill"))

    def get_inbox(self, query: InboxQuery) -> MessagePage:
        return self._parse(MessagePage, self._call("GET", "/inbox", params=_params(query)))

    def mark_read(self, request: MarkReadRequest, *, agent: str | None = None) -> AckResult:
        """Ack the operator's own rows, or those of an agent's inbox."""
        path = "/inbox/ack" if agent is None else f"/agents/{agent}/inbox/ack"
        return self._parse(AckResult, self._call("POST", path, request))

    def list_parked(self, *, limit: int, before: int | None) -> ParkedPage:
        params = {"limit": limit} if before is None else {"limit": limit, "before": before}
        return self._parse(ParkedPage, self._call("GET", "/parked", params=params))

    def list_sent(self, agent: str | None, *, limit: int, before: int | None) -> SentPage:
        path = "/sent" if agent is None else f"/agents/{agent}/sent"
        params = {"limit": limit} if before is None else {"limit": limit, "before": before}
        return self._parse(SentPage, self._call("GET", path, params=params))

    def get_message(self, message_id: int) -> SentMessage:
        return self._parse(SentMessage, self._call("GET", f"/messages/{message_id}"))

    def search(self, query: SearchQuery) -> SearchPage:
        return self._parse(SearchPage, self._call("GET", "/messages/search", params=_params(query)))

    def release_parked(self, message_id: int) -> Message:
        return self._parse(Message, self._call("POST", f"/messages/{message_id}/release"))

    def list_refusals(self, query: RefusalQuery) -> RefusalPage:
        return self._parse(RefusalPage, self._call("GET", "/refusals", params=_params(query)))

    def list_reminders(self, *, agent: str | None, limit: int) -> ReminderPage:
        params = {"limit": limit} if agent is None else {"limit": limit, "agent": agent}
        return self._parse(ReminderPage, self._call("GET", "/reminders", params=params))

    def cancel_reminder(self, reminder_id: int) -> Reminder:
        return self._parse(Reminder, self._call("DELETE", f"/reminders/{reminder_id}"))

    def cancel_schedule(self, schedule_id: int) -> Schedule:
        return self._parse(Schedule, self._call("POST", f"/schedules/{schedule_id}/cancel"))

    def list_schedules(self, *, agent: str | None, ended: bool, limit: int) -> SchedulePage:
        params = {"limit": str(limit), "ended": str(ended).lower()} | (
            {} if agent is None else {"agent": agent}
        )
        return self._parse(SchedulePage, self._call("GET", "/schedules", params=params))

    def list_approvals(self, query: ApprovalQuery) -> ApprovalPage:
        return self._parse(ApprovalPage, self._call("GET", "/approvals", params=_params(query)))

    def get_approval(self, approval_id: int) -> Approval:
        return self._parse(Approval, self._call("GET", f"/approvals/{approval_id}"))

    def decide(self, approval_id: int, verb: Literal["approve", "deny"], decision: Decision) -> Approval:
        return self._parse(Approval, self._call("POST", f"/approvals/{approval_id}/{verb}", decision))

    def get_agent_inbox(self, name: str, query: InboxQuery) -> MessagePage:
        return self._parse(MessagePage, self._call("GET", f"/agents/{name}/inbox", params=_params(query)))

    def grant_reader(self, name: str) -> NoticeReader:
        return self._parse(NoticeReader, self._call("POST", "/notice-readers", GrantReader(name=name)))

    def revoke_reader(self, name: str) -> None:
        self._call("DELETE", f"/notice-readers/{name}")

    def list_notice_readers(self) -> list[NoticeReader]:
        return self._parse_list(_READERS, self._call("GET", "/notice-readers"))

    def is_ready(self) -> bool:
        """Whether the broker says it is ready; needs no credential."""
        return self._request("GET", "/readyz").status_code == httpx2.codes.OK

    def _call(
        self,
        method: str,
        path: str,
        body: BaseModel | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        payload = None if body is None else body.model_dump(mode="json")
        response = self._request(
            method,
            f"/v1/operator{path}",
            payload=payload,
            params=params,
            headers=headers,
        )
        if response.is_success:
            return response
        try:
            content = response.json()
        except ValueError as exc:
            raise self._stranger() from exc
        if not isinstance(content, dict) or "code" not in content:
            raise self._stranger()
        raise error_from_wire(response.status_code, content)

    def _request(
        self,
        method: str,
        path: str,
        *,
        payload: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        try:
            return self._http.request(method, path, json=payload, params=params, headers=headers)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as exc:
            raise Unavailable(
                f"the hive is not running at {self.url}; start it with `hivectl up`", code="not_running"
            ) from exc
        except httpx2.TransportError as exc:
            if method == "GET":
                raise Unavailable(f"the broker at {self.url} did not answer in time; try again") from exc
            raise OutcomeUnknown(
                f"the connection to the broker at {self.url} broke; look whether it was done"
            ) from exc

    def _stranger(self) -> HiveError:
        return Unavailable(
            f"what answers at {self.url} is no hive broker; `hivectl doctor` finds out what it is",
            code="not_a_broker",
        )

    def _parse(self, model: type[M], response: httpx2.Response) -> M:
        try:
            return model.model_validate_json(response.content)
        except ValueError as exc:
            raise self._stranger() from exc

    def _parse_list(self, adapter: TypeAdapter[list[M]], response: httpx2.Response) -> list[M]:
        try:
            return adapter.validate_json(response.content)
        except ValueError as exc:
            raise self._stranger() from exc


def _params(query: ApprovalQuery | InboxQuery | RefusalQuery | SearchQuery) -> dict[str, str]:
    dumped = query.model_dump(mode="json", exclude_none=True)
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in dumped.items()
    }
