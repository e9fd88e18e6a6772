"""Who takes part when processes are killed under load: senders, receivers, agents that start and end."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.audit import check_acked, check_held, check_notices, check_stored_once, rows_of
from tests.support.notices import Notice
from tests.support.traffic import Ledger, Traffic
from tests.support.units import Units

# Nothing but the kills stops the traffic.
LIMITS = {
    "HIVE_BROKER_MAX_PENDING": "100000",
    "HIVE_BROKER_PAIR_PER_MINUTE": "0",
    "HIVE_LOG_LEVEL": "warning",
}


@dataclass(frozen=True)
class Cast:
    """How many there are of each, and how much must be answered between two kills: none hits a standstill."""

    senders: int
    acking: int
    shared: int
    living: int
    sends_between: int
    transitions_between: int

    @property
    def sending_names(self) -> list[str]:
        return [f"sender-{number}" for number in range(self.senders)]

    @property
    def acking_names(self) -> list[str]:
        """One receiver each, which acks."""
        return [f"acking-{number}" for number in range(self.acking)]

    @property
    def shared_names(self) -> list[str]:
        """Two receivers each, which keep or give back."""
        return [f"shared-{number}" for number in range(self.shared)]

    @property
    def living_names(self) -> list[str]:
        """No receivers; their processes start and end, as the broker is told."""
        return [f"living-{number}" for number in range(self.living)]

    @property
    def names(self) -> list[str]:
        """All of them, below the root agent."""
        return [*self.sending_names, *self.acking_names, *self.shared_names, *self.living_names]

    def addressed_by(self, number: int) -> list[str]:
        """Whom a sender writes to in turn; each begins with another."""
        to = [*self.acking_names, *self.shared_names]
        start = number % len(to)
        return to[start:] + to[:start]

    async def advance(self, ledger: Ledger) -> None:
        """Wait until enough was answered for another kill."""
        await ledger.advance(sends=self.sends_between, transitions=self.transitions_between)

    def check(self, traffic: Traffic, units: Units, notices: list[Notice]) -> None:
        """The ledger of the answers against what is stored, and what the stream holds."""
        check_notices(traffic, notices)
        stored = {
            name: rows_of(units, units.agents[name]) for name in (*self.acking_names, *self.shared_names)
        }
        check_stored_once(traffic, stored)
        for name in self.acking_names:
            check_acked(traffic, name, stored[name])
        for name in self.shared_names:
            check_held(traffic, stored[name])
