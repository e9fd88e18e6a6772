"""Finding agents by name; an unknown one is answered with near names, else with those that exist."""

from __future__ import annotations

from collections.abc import Collection

from services.broker.store import Tx
from services.broker.store.agents import AgentRow
from shared.errors import NotFound
from shared.wire.names import check_agent_name, find_near_names

MAX_LISTED = 20


def find_agent(tx: Tx, name: str) -> AgentRow | None:
    """The live agent of that name; what cannot be a name at all is not looked for."""
    try:
        check_agent_name(name)
    except ValueError:
        return None
    return tx.agents.find_by_name(name)


def get_agent(tx: Tx, name: str, *, lock: bool = False) -> AgentRow:
    """The live agent of that name; with `lock`, other brokers wait with theirs until this commits.

    Raises:
        NotFound: with near names, else those that exist.
    """
    row = find_agent(tx, name)
    if row is not None and lock:
        row = tx.agents.find_live(row.id, lock=True)
    if row is None:
        raise unknown_agent(name, tx.agents.list_names())
    return row


def require_name(tx: Tx, name: str | None) -> None:
    """Refuse a name of which nothing can be found, not even of an agent that is no more; None is none.

    Raises:
        NotFound: with near names, else those that exist.
    """
    if name is not None and not tx.agents.has_ever_lived(name):
        raise unknown_agent(name, tx.agents.list_names())


def unknown_agent(name: str, known: Collection[str], *, instead: str = "there are") -> NotFound:
    """The error for a name that is no agent's; `known` are the names to suggest from."""
    # repr, for the name may hold anything at all.
    shown = repr(name if len(name) <= 40 else f"{name[:40]}…")
    near = find_near_names(name, known)
    if near:
        return NotFound(f"no agent is named {shown}; did you mean {' or '.join(near)}?")
    if not known:
        return NotFound(f"no agent is named {shown}, and there is no other")
    listed = ", ".join(sorted(known)[:MAX_LISTED])
    more = f" and {len(known) - MAX_LISTED} more" if len(known) > MAX_LISTED else ""
    return NotFound(f"no agent is named {shown}; {instead}: {listed}{more}")
