"""What an agent may do, and the refusals: each names what is missing and how the operator adds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from services.broker.store.agents import AgentRow
from shared.errors import Forbidden, InvalidInput
from shared.permissions import CAPABILITIES, Capability, ToolGroup, find_group_of, narrow_groups
from shared.wire.agents import MAX_PATHS, GrantedPath, Grants, PathMode, PermissionsChange
from shared.wire.names import OPERATOR, check_agent_name

MAX_RECIPIENTS = 200


def require_tool(agent: AgentRow, tool: str) -> None:
    """Refuse unless the agent holds the group that gates `tool`.

    Raises:
        Forbidden: naming the group.
    """
    if (group := find_group_of(tool)) is not None:
        require_group(agent, group, f"`{tool}`", tool=tool)


def require_group(agent: AgentRow, group: ToolGroup, what: str, *, tool: str | None = None) -> None:
    """Refuse unless the agent holds `group`, which `what` needs.

    Raises:
        Forbidden: naming it.
    """
    if group in agent.grants.groups:
        return
    raise Forbidden(
        f"{what} needs the tool group `{group}`, which {agent.name} does not have. The operator can add "
        f"it: hivectl agent permissions {agent.name} --add-group {group}",
        code="group_missing",
        details={"group": str(group)} if tool is None else {"tool": tool, "group": str(group)},
    )


def require_capability(agent: AgentRow, capability: Capability) -> None:
    """Refuse unless the agent holds `capability`.

    Raises:
        Forbidden: naming it and what it is for.
    """
    if capability in agent.grants.capabilities:
        return
    raise Forbidden(
        f"this needs the capability `{capability}` ({CAPABILITIES[capability]}), which {agent.name} does not "
        f"have. The operator can add it: hivectl agent permissions {agent.name} --add-capability "
        f"{capability}",
        code="capability_missing",
        details={"capability": str(capability)},
    )


def may_reach(agent: AgentRow, recipient: str) -> bool:
    """Whether `allowed_recipients` admits `recipient`; the operator is always reachable."""
    allowed = agent.grants.allowed_recipients
    return not allowed or recipient == OPERATOR or recipient in allowed


def narrow(grants: Grants, requested: frozenset[ToolGroup] | None) -> Grants:
    """The grants as a daemon gets them that asked for fewer groups."""
    return grants.model_copy(update={"groups": sorted(narrow_groups(grants.groups, requested))})


def apply_change(
    grants: Grants, change: PermissionsChange, *, check: Callable[[str], str | None] = lambda _: None
) -> Grants:
    """The grants after `change`; the same object when nothing changes, else with the next version.

    `check` says how a path meets the hive's own files, which no agent may be given.

    Raises:
        InvalidInput: when the change contradicts itself, or would lift a restriction by the way.
    """
    _refuse_overlap("group", change.add_groups, change.remove_groups)
    _refuse_overlap("capability", change.add_capabilities, change.remove_capabilities)
    _refuse_overlap("recipient", change.add_recipients, change.remove_recipients)
    _refuse_overlap("path", [one.path for one in change.add_paths], change.remove_paths)
    groups = (set(grants.groups) | set(change.add_groups)) - set(change.remove_groups)
    capabilities = (set(grants.capabilities) | set(change.add_capabilities)) - set(change.remove_capabilities)
    recipients = _change_recipients(grants.allowed_recipients, change)
    paths = _change_paths(grants.paths, change, check)
    after = Grants(
        groups=sorted(groups),
        capabilities=sorted(capabilities),
        allowed_recipients=recipients,
        paths=paths,
        version=grants.version + 1,
    )
    unchanged = after.model_copy(update={"version": grants.version}) == grants
    return grants if unchanged else after


def _change_recipients(before: list[str], change: PermissionsChange) -> list[str]:
    for name in change.add_recipients:
        if name != OPERATOR:
            try:
                check_agent_name(name)
            except ValueError as exc:
                raise InvalidInput(f"add_recipients: {name[:40]!r} {exc}") from exc
    kept = set() if change.clear_recipients else set(before) - set(change.remove_recipients)
    after = kept | set(change.add_recipients)
    if before and not after and not change.clear_recipients:
        raise InvalidInput(
            "this would leave the list of recipients empty, and empty means no restriction at all. If that "
            "is wanted, use clear_recipients (hivectl: --any-recipient); to leave nobody but the operator, "
            f"add the recipient `{OPERATOR}`"
        )
    if len(after) > MAX_RECIPIENTS:
        raise InvalidInput(f"an agent may have {MAX_RECIPIENTS} allowed recipients, this makes {len(after)}")
    return sorted(after)


def _change_paths(
    before: list[GrantedPath], change: PermissionsChange, check: Callable[[str], str | None]
) -> list[GrantedPath]:
    for added in change.add_paths:
        if (how := check(added.path)) is not None:
            raise InvalidInput(
                f"path {added.path[:200]} {how} HIVE_ROOT, where credentials and other agents' files are; "
                "name a place outside"
            )
    named = [one.path for one in change.add_paths]
    if twice := sorted({path for path in named if named.count(path) > 1}):
        raise InvalidInput(f"path {twice[0][:200]} is given twice; give it once")
    modes: dict[str, PathMode] = {one.path: one.mode for one in before}
    modes |= {one.path: one.mode for one in change.add_paths}
    after = {path: mode for path, mode in modes.items() if path not in change.remove_paths}
    if len(after) > MAX_PATHS:
        raise InvalidInput(f"an agent may have {MAX_PATHS} paths, this makes {len(after)}")
    return [GrantedPath(path=path, mode=mode) for path, mode in sorted(after.items())]


def _refuse_overlap(what: str, added: Iterable[str], removed: Iterable[str]) -> None:
    if both := sorted(set(added) & set(removed)):
        raise InvalidInput(f"{what} {', '.join(both)[:200]} is both added and removed; do one of the two")
