"""From the `to` of a message to the inboxes it goes to, or an error that says what is right."""

from __future__ import annotations

from services.broker.service.naming import find_agent, unknown_agent
from services.broker.service.rights import may_reach, require_capability
from services.broker.store import Tx
from services.broker.store.agents import AgentRow
from shared.errors import Forbidden, InvalidInput, NotFound
from shared.permissions import Capability
from shared.wire.names import EVERYBODY, OPERATOR, RESERVED_AGENT_NAMES

# Where a message goes: an agent's inbox, or None for the operator's.
Target = AgentRow | None


def resolve(tx: Tx, sender: AgentRow | None, to: str) -> list[Target]:
    """The inboxes that `to` names for this sender (None: the operator).

    Raises:
        NotFound: for a name that is no agent's, with near names, else the reachable ones.
        Forbidden: when `allowed_recipients` or a missing capability is in the way.
        InvalidInput: for oneself and for reserved names.
    """
    if to == EVERYBODY:
        return _resolve_everybody(tx, sender)
    if to == OPERATOR:
        if sender is None:
            raise InvalidInput("this would go to yourself; name an agent")
        return [None]
    if sender is not None and to == sender.name:
        raise InvalidInput(f"{to} is you; a message goes to another agent, or to `{OPERATOR}`")
    if to in RESERVED_AGENT_NAMES:
        raise InvalidInput(
            f"`{to}` is a reserved name and receives nothing; name an agent, `{OPERATOR}`, or `{EVERYBODY}` "
            "for all agents"
        )
    target = find_agent(tx, to)
    if target is None:
        raise unknown_agent(to, list_reachable(tx, sender), instead="you can reach")
    if sender is not None and not may_reach(sender, to):
        allowed = ", ".join(sorted({*sender.grants.allowed_recipients, OPERATOR})[:20])
        raise Forbidden(
            f"{sender.name} may not write to {to}, only to: {allowed}. The operator can add it: "
            f"hivectl agent permissions {sender.name} --allow-recipient {to}",
            code="recipient_not_allowed",
            details={"recipient": to},
        )
    return [target]


def list_reachable(tx: Tx, sender: AgentRow | None) -> list[str]:
    """Whom a sender can write to by name."""
    names = tx.agents.list_names()
    if sender is None:
        return names
    return [*(name for name in names if name != sender.name and may_reach(sender, name)), OPERATOR]


def _resolve_everybody(tx: Tx, sender: AgentRow | None) -> list[Target]:
    if sender is not None:
        require_capability(sender, Capability.BROADCAST)
    targets: list[Target] = [
        agent
        for agent in tx.agents.list_live()
        if sender is None or (agent.id != sender.id and may_reach(sender, agent.name))
    ]
    if not targets:
        raise NotFound("there is no agent that this could go to")
    return targets
