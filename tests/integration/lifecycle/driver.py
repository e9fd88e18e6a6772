"""A driver without processes: it claims jobs and reports what the test has it see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shared.runtime.ids import new_ulid
from tests.integration.broker.running import Broker


@dataclass
class Driver:
    """One driver of a broker; `reported` is everything it said so far, for saying it again."""

    broker: Broker
    driver_id: str = field(default_factory=new_ulid)
    reported: list[dict[str, Any]] = field(default_factory=list)

    async def claim(self, wait_seconds: int = 0) -> dict[str, Any] | None:
        """The next job."""
        result = await self.broker.operator.get("POST", "/driver/claim", self.claim_request(wait_seconds))
        job: dict[str, Any] | None = result["job"]
        return job

    def claim_request(self, wait_seconds: int = 0) -> dict[str, Any]:
        return {"driver_id": self.driver_id, "wait_seconds": wait_seconds}

    async def report(self, *events: dict[str, Any]) -> None:
        """Report these events in one request."""
        self.reported += events
        await self.broker.operator.get("POST", "/driver/events", self.events_request(*events))

    def events_request(self, *events: dict[str, Any]) -> dict[str, Any]:
        return {"driver_id": self.driver_id, "events": list(events)}

    async def saw(self, agent: str, kind: str, **more: Any) -> None:
        """Report one event of an agent that lives."""
        agent_id = (await self.broker.operator.get("GET", f"/agents/{agent}"))["id"]
        await self.report(event(agent_id, kind, **more))

    async def perform(self, agent: str, kind: str, *saw: str) -> dict[str, Any]:
        """Have the operator ask for a job, claim it, report what was seen and its end; answers the job."""
        asked = await self.broker.operator.get("POST", f"/agents/{agent}/jobs", {"kind": kind})
        job = await self.claim()
        assert job is not None
        assert job["id"] == asked["id"]
        done = event(job["agent_id"], "job_done", job_id=job["id"])
        await self.report(*[event(job["agent_id"], one) for one in saw], done)
        found: dict[str, Any] = await self.broker.operator.get("GET", f"/jobs/{job['id']}")
        return found


def event(agent_id: int, kind: str, *, at: int = 1_800_000_100, **more: Any) -> dict[str, Any]:
    """A driver event with an id of its own."""
    return {"event_id": new_ulid(), "kind": kind, "at": at, "agent_id": agent_id, **more}
