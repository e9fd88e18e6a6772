"""Starts of an agent's hyperhive daemon: a later one takes over, and what the earlier held comes back."""

from __future__ import annotations

from typing import Final

from services.broker.store import Tx
from services.broker.store.agents import AgentRow
from shared.errors import Conflict

_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_DIGITS: Final = 10


def find_started_at(boot: str) -> int:
    """When a daemon started, in unix seconds, as its ULID has it: the first ten digits are milliseconds."""
    milliseconds = 0
    for digit in boot[:_TIME_DIGITS]:
        milliseconds = milliseconds * len(_DIGITS) + _DIGITS.index(digit)
    return milliseconds // 1_000


def check_boot(agent: AgentRow, boot: str) -> None:
    """Refuse a daemon that a later start has replaced; ULIDs sort by time.

    Raises:
        Conflict: saying so.
    """
    if agent.boot is not None and boot < agent.boot:
        raise Conflict(
            f"a later start of {agent.name}'s daemon has taken over; this one must not go on",
            code="boot_superseded",
        )


def adopt_boot(tx: Tx, agent: AgentRow, boot: str, *, alone: bool = False) -> bool:
    """Take note of a daemon's start; on a new one all delivered rows return to pending.

    Args:
        tx: the transaction.
        agent: whose daemon it is.
        boot: ULID of the start.
        alone: no other daemon of the agent is connected. Then also a start that sorts before the last one
            is taken: the clock was set back, and the daemon must not be locked out until it has caught up.

    Returns:
        Whether it was new.

    Raises:
        Conflict: when a later start has taken over.
    """
    if not alone:
        check_boot(agent, boot)
    if boot == agent.boot:
        return False
    tx.inbox.release(agent.id)
    tx.agents.set_boot(agent.id, boot)
    return True
