"""The supervisor's connection to the broker: the operator's routes that the driver uses, async and typed."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import httpx2
from pydantic import BaseModel, TypeAdapter

from shared.errors import HiveError, OutcomeUnknown, Unavailable, error_from_wire
from shared.runtime.backoff import Backoff
from shared.wire.agents import Agent, HiveInfo
from shared.wire.lifecycle import ClaimRequest, ClaimResult, CreateJob, DriverEvents, Job, JobKind, JobState
from shared.wire.notices import GrantReader, NoticeReader

_ANSWER_SECONDS = 15.0
_CONNECT_SECONDS = 3.0
_JOB_POLL_SECONDS = 5
# How long a broker that is being restarted may be away, and how often it is asked for meanwhile.
_AWAY_SECONDS = 30.0
_FIRST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 2.0
_AGENTS = TypeAdapter(list[Agent])
_JOBS = TypeAdapter(list[Job])

M = TypeVar("M", bound=BaseModel)


class BrokerLink:
    """An async context manager. The token is read anew for each request, because it may be replaced.

    Raises:
        Unavailable: from every method, when the broker is down; nothing was done.
        OutcomeUnknown: when the connection broke before the answer to something that changes things.
        HiveError: any other refusal, in the class that the broker raised.
    """

    def __init__(self, url: str, read_token: Callable[[], str]) -> None:
        self._read_token = read_token
        # Proxies of the caller's environment have no business between us and loopback.
        self._http = httpx2.AsyncClient(
            base_url=url, timeout=httpx2.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS), trust_env=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def get_hive(self) -> HiveInfo:
        return await self._ask(HiveInfo, "GET", "/hive")

    async def list_agents(self) -> list[Agent]:
        response = await self._call("GET", "/agents")
        return _AGENTS.validate_json(response.content)

    async def list_jobs(self) -> list[Job]:
        """The newest 500, in order."""
        response = await self._call("GET", "/jobs")
        return _JOBS.validate_json(response.content)

    async def create_job(self, agent: str, kind: JobKind) -> Job:
        return await self._ask(Job, "POST", f"/agents/{agent}/jobs", CreateJob(kind=kind))

    async def wait_for_job(self, job_id: int) -> Job:
        """The job once it has ended; a restart of the broker is waited out.

        Raises:
            Unavailable: when the broker stays away.
        """
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        away_since: float | None = None
        while True:
            try:
                job = await self._ask(Job, "GET", f"/jobs/{job_id}?wait_seconds={_JOB_POLL_SECONDS}")
                if job.state in {JobState.DONE, JobState.FAILED}:
                    return job
                away_since = None
                backoff.reset()
            except Unavailable:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > _AWAY_SECONDS:
                    raise
                await anyio.sleep(backoff.next())

    async def claim(self, request: ClaimRequest) -> Job | None:
        """The next job, or None when none came within the wait."""
        # Beyond the wait itself, so that a broker that is only slow does not look dead.
        timeout = request.wait_seconds + _ANSWER_SECONDS
        result = await self._ask(ClaimResult, "POST", "/driver/claim", request, timeout_seconds=timeout)
        return result.job

    async def report(self, events: DriverEvents) -> None:
        await self._call("POST", "/driver/events", events)

    async def grant_reader(self, name: str) -> NoticeReader:
        return await self._ask(NoticeReader, "POST", "/notice-readers", GrantReader(name=name))

    async def _ask(
        self,
        model: type[M],
        method: str,
        path: str,
        body: BaseModel | None = None,
        *,
        timeout_seconds: float = _ANSWER_SECONDS,
    ) -> M:
        response = await self._call(method, path, body, timeout_seconds=timeout_seconds)
        return model.model_validate_json(response.content)

    async def _call(
        self,
        method: str,
        path: str,
        body: BaseModel | None = None,
        *,
        timeout_seconds: float = _ANSWER_SECONDS,
    ) -> httpx2.Response:
        try:
            response = await self._http.request(
                method,
                f"/v1/operator{path}",
                json=None if body is None else body.model_dump(mode="json"),
                headers={"Authorization": f"Bearer {self._read_token()}"},
                timeout=httpx2.Timeout(timeout_seconds, connect=_CONNECT_SECONDS),
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as exc:
            raise Unavailable("the broker is down") from exc
        except httpx2.TransportError as exc:
            if method == "GET":
                raise Unavailable(f"the broker went away before it answered GET {path}") from exc
            raise OutcomeUnknown(f"the broker went away before it answered {method} {path}") from exc
        if response.is_success:
            return response
        raise _refusal(response)


def _refusal(response: httpx2.Response) -> HiveError:
    try:
        body: Any = response.json()
    except ValueError:
        body = None
    return error_from_wire(response.status_code, body if isinstance(body, dict) else {})
