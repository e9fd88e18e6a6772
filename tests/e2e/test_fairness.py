"""An agent that sends as fast as it can: others get their turn, counted in its sends and not in seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import anyio
import httpx2
import pytest

from tests.support.access import AgentAccess
from tests.support.units import Units, running_units

SENDS = 2_000
CONNECTIONS = 32
# One round is an answer to each of the flooding connections; alone, a call takes less than one.
MAX_ROUNDS = 8
FLOOD_SECONDS = 120


@pytest.fixture(params=["0", "60"], ids=["stored", "refused"])
def units(request: pytest.FixtureRequest) -> Iterator[Units]:
    """A broker with ruth, iris and milo, that stores all of a flood, or refuses most of it."""
    limits = {"HIVE_BROKER_PAIR_PER_MINUTE": request.param, "HIVE_BROKER_MAX_PENDING": str(2 * SENDS)}
    with running_units(**limits) as running:
        for name, parent in (("ruth", None), ("iris", "ruth"), ("milo", "ruth")):
            running.enlist(name, parent=parent)
        yield running


class Flood:
    """Sends on many connections at once, and how many of them were answered so far."""

    def __init__(self, sender: AgentAccess) -> None:
        self.sender = sender
        self.left = SENDS
        self.statuses: Counter[int] = Counter()
        self.began = anyio.Event()

    @property
    def answered(self) -> int:
        return self.statuses.total()

    async def run(self, http: httpx2.AsyncClient) -> None:
        headers = {"Authorization": f"Bearer {self.sender.token}"}
        while self.left:
            self.left -= 1
            answer = await http.post(
                "/v1/agent/messages", headers=headers, json={"to": "iris", "body": "flood"}
            )
            self.statuses[answer.status_code] += 1
            if self.answered >= CONNECTIONS:
                self.began.set()


@pytest.mark.anyio
@pytest.mark.requirement("delivery.storm")
async def test_a_flood_of_sends_delays_no_other_agent(units: Units, request: pytest.FixtureRequest) -> None:
    milo = units.agents["milo"]
    waiting = [units.operator.send("milo", f"message {number}") for number in range(20)]
    flood = Flood(units.agents["ruth"])
    delays: list[int] = []
    received: list[int] = []

    limits = httpx2.Limits(max_connections=CONNECTIONS + 1)
    async with httpx2.AsyncClient(
        base_url=units.broker.url, timeout=60, trust_env=False, limits=limits
    ) as http:
        with anyio.fail_after(FLOOD_SECONDS):
            async with anyio.create_task_group() as tasks:
                for _ in range(CONNECTIONS):
                    tasks.start_soon(flood.run, http)
                await flood.began.wait()
                while flood.left:
                    before = flood.answered
                    answer = await http.post(
                        "/v1/agent/inbox/recv", headers={"Authorization": f"Bearer {milo.token}"}, json={}
                    )
                    delays.append(flood.answered - before)
                    received += [row["id"] for row in answer.json()["messages"]]

    assert max(delays) <= MAX_ROUNDS * CONNECTIONS, delays
    assert received == waiting[: len(received)]
    assert len(delays) >= SENDS // (MAX_ROUNDS * CONNECTIONS)
    assert flood.answered == SENDS
    assert (flood.statuses[201] == SENDS) == ("stored" in request.node.name), flood.statuses
    assert set(flood.statuses) <= {201, 429}, flood.statuses
