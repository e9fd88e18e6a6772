"""`hivectl approvals`: what agents may do only once the operator has said so."""

from __future__ import annotations

import json
from typing import Any, Literal

import click

from services.hivectl.command import HiveGroup, pass_session
from services.hivectl.listing import range_options
from services.hivectl.names import AGENT_NAME, APPROVAL_ID
from services.hivectl.render import format_time, print_fields, print_table, safe_block
from services.hivectl.session import Session
from shared.wire.approvals import MAX_NOTE_CHARS, Approval, ApprovalQuery, Decision
from shared.wire.model import check_content

# What agents wrote stands behind this on every line, so that it cannot pose as ours.
_BAR = "  | "

approvals = HiveGroup(
    name="approvals",
    help="Answer what agents ask before they may act.\n\n"
    "An approval holds what was submitted: what `show` shows is what happens once it is approved. It is "
    "decided once and kept for ever.",
    examples=(
        ("hivectl approvals list", "what waits for you"),
        ("hivectl approvals show 3", "exactly what was submitted"),
        ("hivectl approvals approve 3", ""),
        ('hivectl approvals deny 3 --note "not on weekends"', "the agent is told the note"),
        ("hivectl approvals list --all --json", ""),
    ),
)


def _check_note(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        check_content(value)
    except ValueError as exc:
        raise click.BadParameter(f"the note {exc}") from exc
    if len(value) > MAX_NOTE_CHARS:
        raise click.BadParameter(f"the note has {len(value)} characters, and the limit is {MAX_NOTE_CHARS}")
    return value


_note = click.option("--note", metavar="TEXT", callback=_check_note, help="Told to whoever asked.")


@approvals.command("list", examples=(("hivectl approvals list --agent iris --all", ""),))
@click.option("--all", "decided", is_flag=True, help="Also those that were decided.")
@click.option("--agent", type=AGENT_NAME, metavar="NAME", help="Only what this agent submitted.")
@range_options
@pass_session
def list_(session: Session, decided: bool, agent: str | None, limit: int, before: int | None) -> None:
    """Show what waits for an answer, newest last."""
    query = ApprovalQuery(decided=decided, agent=agent, limit=limit, before=before)
    with session.open_client() as client:
        page = client.list_approvals(query)
    if session.as_json:
        session.emit_json([row.model_dump(mode="json", exclude={"content"}) for row in page.approvals])
        return
    if not page.approvals:
        click.echo("there is no approval" if decided else "nothing waits for an approval")
        return
    if page.more:
        session.note(f"older ones: --before {page.approvals[0].id}")
    print_table(("ID", "ASKED", "AGENT", "KIND", "STATUS", "WHAT"), [_cells(row) for row in page.approvals])


@approvals.command(examples=(("hivectl approvals show 3", ""),))
@click.argument("approval_id", type=APPROVAL_ID, metavar="ID")
@pass_session
def show(session: Session, approval_id: int) -> None:
    """Show one approval with all that was submitted."""
    with session.open_client() as client:
        _print(session, client.get_approval(approval_id))


@approvals.command(examples=(("hivectl approvals approve 3", ""),))
@click.argument("approval_id", type=APPROVAL_ID, metavar="ID")
@_note
@pass_session
def approve(session: Session, approval_id: int, note: str | None) -> None:
    """Let it happen, exactly as it was submitted."""
    _decide(session, approval_id, "approve", note)


@approvals.command(examples=(('hivectl approvals deny 3 --note "not on weekends"', ""),))
@click.argument("approval_id", type=APPROVAL_ID, metavar="ID")
@_note
@pass_session
def deny(session: Session, approval_id: int, note: str | None) -> None:
    """Refuse it."""
    _decide(session, approval_id, "deny", note)


def _decide(session: Session, approval_id: int, verb: Literal["approve", "deny"], note: str | None) -> None:
    with session.open_client() as client:
        approval = client.decide(approval_id, verb, Decision(note=note))
    if session.as_json:
        session.emit_json(approval.model_dump(mode="json"))
        return
    click.echo(f"approval {approval.id} is {approval.status.value}")


def _cells(row: Approval) -> tuple[str, ...]:
    return (
        str(row.id),
        format_time(row.created_at),
        row.agent or "-",
        row.kind,
        row.status.value,
        row.summary,
    )


def _print(session: Session, approval: Approval) -> None:
    if session.as_json:
        session.emit_json(approval.model_dump(mode="json"))
        return
    print_fields(
        (
            ("approval", f"{approval.id}, {approval.kind}, {approval.status.value}"),
            ("agent", approval.agent or "-"),
            ("asked", format_time(approval.created_at)),
            ("deadline", format_time(approval.deadline_at)),
            ("decided", f"{format_time(approval.decided_at)} {approval.decided_by or ''}"),
            ("note", approval.note or "-"),
        )
    )
    for name, value in (approval.content or {}).items():
        click.echo(f"{name}:")
        click.echo(safe_block(_as_text(name, value), indent=_BAR))


def _as_text(name: str, value: Any) -> str:  # noqa: ANN401 (any JSON value)
    if name.endswith("_unix") and isinstance(value, int):
        return format_time(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value)
