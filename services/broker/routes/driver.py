"""`/v1/operator`: jobs on agents, the driver that performs them, and readers of notices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Query, status

from services.broker.routes.callers import IdInPath, NameInPath
from services.broker.routes.failures import declare
from services.broker.routes.trees import operator_router
from services.broker.service.lifecycle import LifecycleService
from services.broker.service.readers import ReaderService
from shared.wire.lifecycle import ClaimRequest, ClaimResult, CreateJob, DriverEvents, Job
from shared.wire.names import HiveName
from shared.wire.notices import GrantReader, NoticeReader

WaitSeconds = Annotated[int, Query(ge=0, le=30, description="how long to wait for the job's end")]
ReaderInPath = Annotated[HiveName, Path(description="a reader's name")]


@dataclass(frozen=True)
class DriverRoutes:
    """The services behind jobs, driver and readers."""

    lifecycle: LifecycleService
    readers: ReaderService

    def build(self) -> APIRouter:
        router = operator_router("lifecycle")
        self._add_jobs(router)
        self._add_driver(router)
        self._add_readers(router)
        return router

    def _add_jobs(self, router: APIRouter) -> None:
        @router.post(
            "/agents/{name}/jobs",
            status_code=status.HTTP_201_CREATED,
            responses=declare(404, 409, body=True),
        )
        async def create_job(name: NameInPath, request: CreateJob) -> Job:
            """Queue a job, or join the one of the same kind that is under way."""
            return await self.lifecycle.create(name, request)

        @router.get("/jobs/{job_id}", responses=declare(404))
        async def get_job(job_id: IdInPath, *, wait_seconds: WaitSeconds = 0) -> Job:
            """A job; waits for its end."""
            return await self.lifecycle.get(job_id, wait_seconds=wait_seconds)

        @router.get("/jobs", responses=declare())
        async def list_jobs() -> list[Job]:
            """The newest 500 jobs, in order."""
            return await self.lifecycle.list_jobs()

    def _add_driver(self, router: APIRouter) -> None:
        @router.post("/driver/claim", responses=declare(409, body=True))
        async def claim(request: ClaimRequest) -> ClaimResult:
            """The next job, for this driver alone; waits for one."""
            return await self.lifecycle.claim(request)

        @router.post(
            "/driver/events", status_code=status.HTTP_204_NO_CONTENT, responses=declare(409, body=True)
        )
        async def apply_events(events: DriverEvents) -> None:
            """Apply what a driver saw, in order; an event that was applied before is skipped."""
            await self.lifecycle.apply(events)

    def _add_readers(self, router: APIRouter) -> None:
        @router.get("/notice-readers", responses=declare())
        async def list_readers() -> list[NoticeReader]:
            """Who is granted to read notices."""
            return await self.readers.list_readers()

        @router.post(
            "/notice-readers",
            status_code=status.HTTP_201_CREATED,
            responses=declare(body=True),
        )
        async def grant_reader(request: GrantReader) -> NoticeReader:
            """Keep a durable consumer for a reader; repeating it changes nothing."""
            return await self.readers.grant(request)

        @router.delete(
            "/notice-readers/{name}", status_code=status.HTTP_204_NO_CONTENT, responses=declare(404)
        )
        async def revoke_reader(name: ReaderInPath) -> None:
            """Forget a reader and remove its durable; ending its credential is the server's business."""
            await self.readers.revoke(name)
