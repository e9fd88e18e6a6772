"""Renders docs/permissions.md from the table in `shared.permissions`."""

from __future__ import annotations

from collections.abc import Iterable

from shared.permissions import (
    AGENT_DEFAULT,
    ALLOWED_BUILTIN_TOOLS,
    ALWAYS_ON_TOOLS,
    CAPABILITIES,
    CAPABILITY_DEFAULT,
    DENIED_BUILTIN_TOOLS,
    GROUPS,
    MANAGED_DENY,
    GroupRow,
)

_INTRO = """\
# Permissions

<!-- Made from shared/permissions.py by `make generate`; edit that. -->

What an agent may do is two sets that the operator keeps: **tool groups** decide which tools exist for it,
**capabilities** what it may do with them.

```console
$ hivectl agent permissions NAME                                  # show
$ hivectl agent permissions NAME --add-group scheduling --add-capability urgent
```

A change takes effect on the next call of a running session. The broker checks it on its routes, the
surface on its tools. A tool that was taken away answers with an error that names the group.
`HIVE_TOOL_GROUPS`, set on a daemon, narrows what the operator gave and never widens it. The table also names
tools that are still to come (CHANGELOG.md says which exist): what gates them is settled.
"""


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _gates(row: GroupRow) -> str:
    parts = [_codes(sorted(row.tools))] if row.tools else []
    if row.builtin_tools:
        parts.append(f"Claude's built-in {_codes(row.builtin_tools)}")
    if row.note:
        parts.append(row.note)
    return "; ".join(parts)


def render_permissions_page() -> str:
    """The page, as it must stand in docs/."""
    lines = [_INTRO, "## Tool groups", "", "| group | by default | gates |", "|---|---|---|"]
    for group, row in GROUPS.items():
        lines.append(f"| `{group}` | {'yes' if group in AGENT_DEFAULT else 'no'} | {_gates(row)} |")
    lines += ["", f"In no group, always on: {_codes(sorted(ALWAYS_ON_TOOLS))}.", ""]
    lines += ["## Capabilities", "", "| capability | by default | effect |", "|---|---|---|"]
    for capability, effect in CAPABILITIES.items():
        lines.append(f"| `{capability}` | {'yes' if capability in CAPABILITY_DEFAULT else 'no'} | {effect} |")
    lines += [
        "",
        "## Claude's built-in tools",
        "",
        f"The value of `--tools`: {_codes(ALLOWED_BUILTIN_TOOLS)}, and what the groups above add.",
        f"Absent from it, and so from a turn: {_codes(DENIED_BUILTIN_TOOLS)}.",
        f"Denied by managed settings to every session of a machine: {_codes(MANAGED_DENY)}.",
        "`Bash` deliberately is not: an operator's own session keeps it.",
    ]
    return "\n".join(lines) + "\n"
