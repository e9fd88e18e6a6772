"""Tool groups, capabilities and the built-in tools of Claude: one table from which everything is derived.

`tools/list`, the broker's checks, the generated claude flags and the docs page all read this module.
Imports nothing but pydantic and the standard library; decides, never enforces.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class ToolGroup(StrEnum):
    """A switch an operator sets per agent. The values are contract."""

    MESSAGING = "messaging"
    META = "meta"
    INBOX = "inbox"
    EXECUTION = "execution"
    LIFECYCLE = "lifecycle"
    APPROVALS = "approvals"
    SCHEDULING = "scheduling"
    FORGE = "forge"
    WEB_TOOLS = "web_tools"


class Capability(StrEnum):
    """A right that is orthogonal to tool groups and registers no tool."""

    BROADCAST = "broadcast"
    URGENT = "urgent"
    SUBAGENTS = "subagents"
    SUBAGENTS_NESTED = "subagents_nested"
    RELAY_PERMISSIONS = "relay_permissions"


@dataclass(frozen=True)
class GroupRow:
    """What one group gates: MCP tools of the `hyperhive` surface, and Claude's built-in tools."""

    tools: frozenset[str] = frozenset()
    builtin_tools: tuple[str, ...] = ()
    note: str = ""


GROUPS: dict[ToolGroup, GroupRow] = {
    ToolGroup.MESSAGING: GroupRow(frozenset({"send", "recv", "ack_until"})),
    ToolGroup.INBOX: GroupRow(frozenset({"get_loose_ends", "cancel_loose_end", "remind"})),
    ToolGroup.META: GroupRow(frozenset({"get_agent_meta"})),
    ToolGroup.SCHEDULING: GroupRow(
        frozenset(
            {
                "request_schedule_prompt",
                "edit_schedule",
                "cancel_schedule",
                "fire_schedule_now",
                "list_schedules",
            }
        )
    ),
    ToolGroup.APPROVALS: GroupRow(note="the approval arm of cancel_loose_end"),
    ToolGroup.WEB_TOOLS: GroupRow(builtin_tools=("WebFetch", "WebSearch")),
    ToolGroup.EXECUTION: GroupRow(note="nothing: bash is registered on its own"),
    ToolGroup.LIFECYCLE: GroupRow(note="nothing: kept for configuration files"),
    ToolGroup.FORGE: GroupRow(note="nothing: kept for configuration files"),
}

ALWAYS_ON_TOOLS: frozenset[str] = frozenset({"set_status", "compact", "mark_todos_done"})

AGENT_DEFAULT: frozenset[ToolGroup] = frozenset(
    {ToolGroup.MESSAGING, ToolGroup.META, ToolGroup.INBOX, ToolGroup.EXECUTION}
)

CAPABILITIES: dict[Capability, str] = {
    Capability.BROADCAST: "may send to *",
    Capability.URGENT: "may mark a message urgent",
    Capability.SUBAGENTS: "may start children",
    Capability.SUBAGENTS_NESTED: "its children may start children",
    Capability.RELAY_PERMISSIONS: "permission questions go to the operator's approvals, else are denied",
}
CAPABILITY_DEFAULT: frozenset[Capability] = frozenset({Capability.SUBAGENTS})

ALLOWED_BUILTIN_TOOLS: tuple[str, ...] = ("Edit", "Glob", "Grep", "Read", "Skill", "Write")
DENIED_BUILTIN_TOOLS: tuple[str, ...] = ("Bash", "Task", "NotebookEdit", "TodoWrite")
MANAGED_DENY: tuple[str, ...] = ("Task", "TodoWrite")

_GROUP_OF_TOOL: dict[str, ToolGroup] = {tool: group for group, row in GROUPS.items() for tool in row.tools}


def find_group_of(tool: str) -> ToolGroup | None:
    """The group that gates an MCP tool, or None when it is always on."""
    return _GROUP_OF_TOOL.get(tool)


def is_tool_allowed(tool: str, groups: Iterable[ToolGroup]) -> bool:
    """Whether an agent that holds `groups` may call `tool`; a tool in no group is always on."""
    group = find_group_of(tool)
    return group is None or group in frozenset(groups)


def resolve_builtin_tools(groups: Iterable[ToolGroup]) -> tuple[str, ...]:
    """The value of `--tools`: the built-in tools that exist in a turn of an agent with `groups`."""
    held = frozenset(groups)
    extra = (t for group, row in GROUPS.items() if group in held for t in row.builtin_tools)
    return (*ALLOWED_BUILTIN_TOOLS, *extra)


def narrow_groups(held: Iterable[ToolGroup], requested: Iterable[ToolGroup] | None) -> frozenset[ToolGroup]:
    """Intersect what the operator gave with what `HIVE_TOOL_GROUPS` asks for: it narrows, never widens."""
    given = frozenset(held)
    return given if requested is None else given & frozenset(requested)


def explain_missing_tool(tool: str, requested: Iterable[ToolGroup] | None = None) -> str:
    """Why an agent may not call `tool`, and what would help; `requested` as for `narrow_groups`."""
    group = find_group_of(tool)
    if group is None:
        return f"{tool} is not available to this agent"
    needed = f"{tool} needs tool group `{group}`"
    if requested is None or group in frozenset(requested):
        return f"{needed}, which this agent does not hold; the operator can give it"
    return (
        f"{needed}, which the setting HIVE_TOOL_GROUPS of this surface leaves out, whatever the agent "
        "was given; the operator can add it there and start the surface anew"
    )
