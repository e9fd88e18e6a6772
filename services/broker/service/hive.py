"""The hive as a whole, for the operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from services.broker.service.clock import Clock
from services.broker.service.identity import HiveIdentity
from services.broker.store import Store, Tx
from shared.wire.agents import HiveInfo


class NatsStatus(Protocol):
    """What the link to NATS says of itself."""

    @property
    def connected(self) -> bool: ...

    @property
    def sync_always(self) -> bool | None: ...


class DriverStatus(Protocol):
    """What is known of the driver."""

    def is_driver_connected(self, seen_at: int | None) -> bool: ...


class HiveService:
    """Puts the facts together."""

    def __init__(
        self,
        store: Store,
        *,
        identity: HiveIdentity,
        nats: NatsStatus,
        driver: DriverStatus,
        clock: Clock,
    ) -> None:
        self._store = store
        self._clock = clock
        self._identity = identity
        self._nats = nats
        self._driver = driver

    async def get_info(self) -> HiveInfo:
        counts = await self._store.read(_count)
        return HiveInfo(
            hive_name=self._identity.hive_name,
            swarm_name=self._identity.swarm_name,
            domain=self._identity.domain,
            revision=self._identity.revision,
            agents=counts.agents,
            nats_connected=self._nats.connected,
            nats_sync_always=self._nats.sync_always,
            notices_waiting=counts.waiting,
            notices_oldest_at=counts.oldest_notice_at,
            messages_parked=counts.parked,
            driver_connected=self._driver.is_driver_connected(counts.driver_seen_at),
            clock_at=self._clock(),
            newest_at=counts.newest_at,
        )


@dataclass(frozen=True, slots=True)
class _Counts:
    agents: int
    waiting: int
    oldest_notice_at: int | None
    parked: int
    driver_seen_at: int | None
    newest_at: int | None


def _count(tx: Tx) -> _Counts:
    return _Counts(
        agents=len(tx.agents.list_names()),
        waiting=tx.outbox.count(),
        oldest_notice_at=tx.ages.find_oldest_notice_at(),
        parked=tx.parked.count(),
        driver_seen_at=tx.drivers.find_last_seen(),
        newest_at=tx.ages.find_newest_at(),
    )
