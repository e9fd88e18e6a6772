"""The hive as a whole, for the operator."""

from __future__ import annotations

from typing import Protocol

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
        self, store: Store, *, identity: HiveIdentity, nats: NatsStatus, driver: DriverStatus
    ) -> None:
        self._store = store
        self._identity = identity
        self._nats = nats
        self._driver = driver

    async def get_info(self) -> HiveInfo:
        agents, waiting, parked, seen_at = await self._store.read(_count)
        return HiveInfo(
            hive_name=self._identity.hive_name,
            swarm_name=self._identity.swarm_name,
            domain=self._identity.domain,
            revision=self._identity.revision,
            agents=agents,
            nats_connected=self._nats.connected,
            nats_sync_always=self._nats.sync_always,
            notices_waiting=waiting,
            messages_parked=parked,
            driver_connected=self._driver.is_driver_connected(seen_at),
        )


def _count(tx: Tx) -> tuple[int, int, int, int | None]:
    names = tx.agents.list_names()
    return len(names), tx.outbox.count(), tx.parked.count(), tx.drivers.find_last_seen()
