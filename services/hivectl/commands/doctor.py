"""`hivectl doctor`: the report of the examination."""

from __future__ import annotations

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.doctor.check import Check, Severity
from services.hivectl.doctor.examination import examine
from services.hivectl.exits import ExitCode
from services.hivectl.render import safe
from services.hivectl.session import Session, is_interactive

_MARK = {Severity.INFO: "ok     ", Severity.WARNING: "warning", Severity.ERROR: "ERROR  "}


@click.command(
    cls=HiveCommand,
    examples=(
        ("hivectl doctor", "exits with 1 when it found an error"),
        ("hivectl doctor --json | jq '.checks[] | select(.ok | not)'", ""),
    ),
)
@pass_session
def doctor(session: Session) -> int:
    """Check the machine, files and modes, versions, clocks, broker, NATS, and every running agent end to end.

    Changes nothing. Says of each finding how to mend it. Exits with 1 when one is an error; warnings alone do
    not make it fail.
    """
    if is_interactive() and not session.as_json:
        session.note(f"examining the hive at {session.layout.root}")
    checks = examine(session.layout)
    errors = sum(check.severity is Severity.ERROR for check in checks)
    if session.as_json:
        session.emit_json({"ok": errors == 0, "checks": [check.as_json() for check in checks]})
    else:
        _print(checks)
    return ExitCode.FAILED if errors else ExitCode.OK


def _print(checks: list[Check]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        click.echo(f"{_MARK[check.severity]}  {safe(check.name):<{width}}  {safe(check.detail)}")
        if check.mend:
            click.echo(f"{'':<9}{'':<{width}}  mend: {safe(check.mend)}")
    counts = {kind: sum(check.severity is kind for check in checks) for kind in Severity}
    found = f"{_count(counts[Severity.ERROR], 'error')}, {_count(counts[Severity.WARNING], 'warning')}"
    click.echo(f"\n{len(checks)} checks: {found}")


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
