"""Senders, receivers and a driver that go on through kills, and a ledger of what they were answered.

All of them are what agents' daemons and the supervisor use themselves: `BrokerClient`, `EventSpool`,
`EventSender`. Whatever they are answered is checked as it comes and at the end against what is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count, cycle

import anyio

from services.hivectl.spool import EventSpool
from services.hivectl.supervisor.broker_link import BrokerLink
from services.hivectl.supervisor.sender import EventSender
from shared.client import BrokerClient
from shared.runtime.credential import TokenFile
from shared.runtime.ids import new_ulid
from shared.wire.lifecycle import DriverEventKind as Kind
from shared.wire.messages import AckRequest, Message, RecvRequest, ReleaseRequest, SendRequest
from shared.wire.notices import NoticeEvent
from tests.support.access import AgentAccess
from tests.support.units import Units

# Each pair is one life of an agent's processes: how it begins and how it ends.
LIVES = ((Kind.STARTED, Kind.STOPPED), (Kind.STARTED, Kind.KILLED), (Kind.STARTED, Kind.CRASHED))


@dataclass
class Ledger:
    """What was answered so far."""

    sent: dict[str, int] = field(default_factory=dict)  # body to id
    taken: dict[str, list[int]] = field(default_factory=dict)  # recipient to ids, as they came
    acked: set[int] = field(default_factory=set)
    hands: dict[int, str] = field(default_factory=dict)  # of what is held without an ack
    returned: Counter[int] = field(default_factory=Counter)
    told: dict[str, list[tuple[str, int]]] = field(default_factory=dict)  # agent to notice and time
    news: anyio.Event = field(default_factory=anyio.Event)  # set, and replaced, with all progress

    @property
    def transitions(self) -> int:
        return sum(len(events) for events in self.told.values())

    def note(self) -> None:
        """Wake those who wait for progress."""
        self.news.set()
        self.news = anyio.Event()

    async def advance(self, *, sends: int, transitions: int) -> None:
        """Wait until so many more were answered."""
        sends, transitions = sends + len(self.sent), transitions + self.transitions
        while len(self.sent) < sends or self.transitions < transitions:
            await self.news.wait()


@dataclass
class Traffic:
    """Messages between many, and lives of agents, until `stop`; then what is left is taken and acked."""

    units: Units
    ledger: Ledger = field(default_factory=Ledger)
    stopping: anyio.Event = field(default_factory=anyio.Event)
    senders: int = 0

    @asynccontextmanager
    async def client(self, agent: AgentAccess) -> AsyncIterator[BrokerClient]:
        token = TokenFile(agent.token_file)
        async with BrokerClient(agent.broker_url, token, unit="hyperhive", boot=new_ulid()) as client:
            yield client

    def stop(self) -> None:
        """Send no more; what is under way is finished."""
        self.stopping.set()
        self.ledger.note()

    async def send(self, agent: AgentAccess, to: list[str]) -> None:
        """Send one message after the other, to one recipient after the other."""
        self.senders += 1
        async with self.client(agent) as client:
            for number, recipient in enumerate(cycle(to)):
                if self.stopping.is_set():
                    break
                body = f"{agent.name}: {number}"
                result = await client.send(SendRequest(to=recipient, body=body), new_ulid())
                self.ledger.sent[body] = result.sent[0].id
                self.ledger.note()
        self.senders -= 1
        self.ledger.note()

    async def receive_and_ack(self, agent: AgentAccess) -> None:
        """Take what comes, the only one who does, and ack it; an acked row must not come again."""
        taken = self.ledger.taken.setdefault(agent.name, [])
        async with self.client(agent) as client:
            async for rows in self._rows(client):
                for row in rows:
                    assert row.id not in self.ledger.acked, f"#{row.id} was acked and came again"
                    taken.append(row.id)
                await client.ack(AckRequest(up_to=rows[-1].id))
                self.ledger.acked.update(row.id for row in rows)

    async def receive_and_keep(self, agent: AgentAccess, who: str) -> None:
        """Take what comes, one of several who do; give a third of it back once, keep the rest un-acked."""
        hands, returned = self.ledger.hands, self.ledger.returned
        async with self.client(agent) as client:
            async for rows in self._rows(client):
                for row in rows:
                    assert row.id not in hands, f"#{row.id} is in the hands of {hands[row.id]} and {who}"
                    hands[row.id] = who
                back = [row.id for row in rows if row.id % 3 == 0 and not returned[row.id]]
                if back:
                    # Out of hand before the broker hears of it: it may give them to another at once.
                    for number in back:
                        del hands[number]
                    returned.update(back)
                    await client.release(ReleaseRequest(ids=back), new_ulid())

    async def live(self, agents: list[str]) -> None:
        """Have agents start and end, one after the other, and the broker told as the supervisor would."""
        ids = {name: self.units.operator.json("GET", f"/agents/{name}")["id"] for name in agents}
        clock = count(1_800_000_000)
        async with AsyncExitStack() as stack:
            spool = EventSpool(self.units.layout.root / "spool.sqlite", now=lambda: next(clock))
            stack.callback(spool.close)
            token = self.units.operator.token
            link = await stack.enter_async_context(BrokerLink(self.units.broker.url, lambda: token))
            sender = EventSender(spool, link, driver_id=new_ulid())
            tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(sender.run)
            for name, life in zip(cycle(agents), cycle(LIVES), strict=False):
                if self.stopping.is_set():
                    break
                events = [spool.append(kind, ids[name]) for kind in life]
                await sender.wait_empty()
                told = self.ledger.told.setdefault(name, [])
                told += [(NoticeEvent(event.kind.value), event.at) for event in events]
                self.ledger.note()
            tasks.cancel_scope.cancel()

    async def _rows(self, client: BrokerClient) -> AsyncIterator[list[Message]]:
        """What comes, until nobody sends any more and nothing is left."""
        while True:
            is_last = self.stopping.is_set() and self.senders == 0
            # Taken before: what is sent while we ask must wake us.
            news = self.ledger.news
            result = await client.recv(RecvRequest(max=5), new_ulid())
            if result.messages:
                yield result.messages
                self.ledger.note()
            elif is_last:
                return
            else:
                await news.wait()
