"""`agent permissions`: what an agent may do, shown or changed; it holds from the agent's next call on."""

from __future__ import annotations

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.names import AGENT_NAME, GRANTED_PATH, PATH, RECIPIENT
from services.hivectl.render import print_fields
from services.hivectl.session import Session
from shared.permissions import CAPABILITIES, GROUPS, Capability, ToolGroup
from shared.wire.agents import AddPath, Grants, PermissionsChange
from shared.wire.names import OPERATOR

_GROUPS = [group.value for group in ToolGroup]
_CAPABILITIES = [capability.value for capability in Capability]
_GROUP = click.Choice(_GROUPS)
_PATH_MODES = {"ro": "its tasks and turns may read it", "rw": "its tasks and turns may read and write it"}
_CAPABILITY = click.Choice(_CAPABILITIES)


@click.command(
    cls=HiveCommand,
    examples=(
        ("hivectl agent permissions iris", "shows them"),
        ("hivectl agent permissions iris --remove-group messaging", "iris can neither send nor receive"),
        ("hivectl agent permissions iris --add-capability broadcast --add-capability urgent", ""),
        (
            "hivectl agent permissions iris --allow-recipient ruth",
            "iris may write to ruth and the operator only",
        ),
        ("hivectl agent permissions iris --any-recipient", "lifts that again"),
        ("hivectl agent permissions iris --path /srv/builds:rw", "its tasks and turns may write there"),
        ("hivectl agent permissions iris --remove-path /srv/builds", ""),
    ),
)
@click.argument("name", type=AGENT_NAME)
@click.option(
    "--add-group",
    multiple=True,
    type=_GROUP,
    metavar="GROUP",
    help=f"Give a tool group: {', '.join(_GROUPS)}.",
)
@click.option("--remove-group", multiple=True, type=_GROUP, metavar="GROUP", help="Take a tool group.")
@click.option(
    "--add-capability",
    multiple=True,
    type=_CAPABILITY,
    metavar="CAPABILITY",
    help=f"Give a capability: {', '.join(_CAPABILITIES)}.",
)
@click.option(
    "--remove-capability", multiple=True, type=_CAPABILITY, metavar="CAPABILITY", help="Take a capability."
)
@click.option(
    "--allow-recipient", multiple=True, type=RECIPIENT, metavar="NAME", help="Limit `send` to these."
)
@click.option(
    "--disallow-recipient", multiple=True, type=RECIPIENT, metavar="NAME", help="Strike from the limit."
)
@click.option("--any-recipient", is_flag=True, help="Drop the limit: it may write to everybody.")
@click.option(
    "--path",
    "add_path",
    multiple=True,
    type=GRANTED_PATH,
    metavar="PATH[:MODE]",
    help="Open an absolute path, and all below it, to its tasks and turns: to read (ro, if nothing is said), "
    "or to write as well (rw).",
)
@click.option("--remove-path", multiple=True, type=PATH, metavar="PATH", help="Open it no longer.")
@pass_session
def permissions(
    session: Session,
    *,
    name: str,
    add_group: tuple[str, ...],
    remove_group: tuple[str, ...],
    add_capability: tuple[str, ...],
    remove_capability: tuple[str, ...],
    allow_recipient: tuple[str, ...],
    disallow_recipient: tuple[str, ...],
    any_recipient: bool,
    add_path: tuple[AddPath, ...],
    remove_path: tuple[str, ...],
) -> None:
    """Show what an agent may do, or change it. Options may be repeated.

    A change holds from the agent's next call on, without a restart (built-in web tools: from its next turn;
    paths: from its next task on). A path can neither lie in HIVE_ROOT nor hold it.
    """
    change = PermissionsChange(
        add_groups=[ToolGroup(value) for value in add_group],
        remove_groups=[ToolGroup(value) for value in remove_group],
        add_capabilities=[Capability(value) for value in add_capability],
        remove_capabilities=[Capability(value) for value in remove_capability],
        add_recipients=list(allow_recipient),
        remove_recipients=list(disallow_recipient),
        clear_recipients=any_recipient,
        add_paths=list(add_path),
        remove_paths=list(remove_path),
    )
    changes = change != PermissionsChange()
    with session.open_client() as client:
        if changes:
            result = client.change_permissions(name, change)
            grants, confirmed = result.grants, result.confirmed
        else:
            grants, confirmed = client.get_agent(name).grants, True
    if session.as_json:
        shown = grants.model_dump(mode="json")
        session.emit_json({**shown, "confirmed": confirmed} if changes else shown)
        return
    _print(grants)
    if not confirmed:
        session.note(
            "stored; a daemon of this agent has not confirmed it yet and does so when it is connected again"
        )


def _print(grants: Grants) -> None:
    limit = ", ".join([OPERATOR, *grants.allowed_recipients]) if grants.allowed_recipients else "everybody"
    off = [group for group in ToolGroup if group not in grants.groups]
    print_fields(
        [
            *((f"group {group}", _describe(group)) for group in grants.groups),
            *((f"capability {item}", CAPABILITIES[item]) for item in grants.capabilities),
            ("recipients", limit),
            *((f"path {granted.path}", _PATH_MODES[granted.mode]) for granted in grants.paths),
            ("not given", ", ".join([*off, *(c for c in Capability if c not in grants.capabilities)])),
        ]
    )


def _describe(group: ToolGroup) -> str:
    row = GROUPS[group]
    return ", ".join([*sorted(row.tools), *row.builtin_tools]) or row.note
