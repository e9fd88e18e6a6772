"""`hivectl notices grant|readers|revoke`: who may read notices. No password is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from services.hivectl.command import HiveCommand, pass_session
from services.hivectl.names import READER_NAME
from services.hivectl.render import print_fields, print_table
from services.hivectl.session import Session

if TYPE_CHECKING:
    from services.hivectl.readers import Reader

# The name is the contract's, as is `provision.DEFAULT_READER`, which is slow to import.
_DEFAULT = "default"


@click.command(
    cls=HiveCommand,
    examples=(
        ("hivectl notices grant pager", "a credential, a durable and an inbox prefix for one program"),
        ("hivectl notices grant pager --json | jq -r .password_file", "the same again, for a script"),
    ),
)
@click.argument("name", type=READER_NAME)
@pass_session
def grant(session: Session, name: str) -> None:
    """Let a program read notices: with a user of its own, which may do nothing else.

    It works at once, and everybody who reads already reads on. Repeated, it says the same again. The password
    is in a file of mode 0600. docs/notices.md has a program that uses them.
    """
    from services.hivectl.readers import grant_reader  # noqa: PLC0415 (anyio and httpx are slow to import)

    with session.open_client() as client:
        reader = grant_reader(session.layout, client, name, note=session.note)
    if session.as_json:
        session.emit_json(reader.as_json())
        return
    click.echo(f"{name} may read notices" if reader.ready else f"{name} is granted, and not ready")
    print_fields(_fields(reader))


@click.command(
    cls=HiveCommand,
    examples=(("hivectl notices readers", ""), ("hivectl notices readers --json | jq -r '.[].name'", "")),
)
@pass_session
def readers(session: Session) -> None:
    """Who may read notices, and where each one's password is.

    `default` is the one of hive.json, which `up` makes and `notices tail` uses.
    """
    from services.hivectl.readers import show_readers  # noqa: PLC0415

    with session.open_client() as client:
        found = show_readers(session.layout, client)
    if session.as_json:
        session.emit_json([reader.as_json() for reader in found])
        return
    rows = [
        (one.name, "yes" if one.ready else "no", one.user, str(one.password_file or "no credential"))
        for one in found
    ]
    print_table(("READER", "READY", "USER AND DURABLE", "PASSWORD FILE"), rows)


@click.command(
    cls=HiveCommand,
    examples=(("hivectl notices revoke pager", "its connections end, and its place in the stream is gone"),),
)
@click.argument("name", type=READER_NAME)
@pass_session
def revoke(session: Session, name: str) -> None:
    """End a reader's credential and connections, and remove its durable.

    A later `grant` of that name makes another password, and begins with the oldest notice that is kept.
    """
    from services.hivectl.readers import revoke_reader  # noqa: PLC0415

    if name == _DEFAULT:
        raise click.UsageError(f"{_DEFAULT} is the reader of hive.json, without which hivectl reads nothing")
    with session.open_client() as client:
        revoke_reader(session.layout, client, name, note=session.note)
    if session.as_json:
        session.emit_json({"name": name, "revoked": True})
        return
    click.echo(f"{name} may read notices no more; its durable is gone")


def _fields(reader: Reader) -> list[tuple[str, str]]:
    return [
        ("URL", reader.url or "-"),
        ("user", reader.user),
        ("password file", str(reader.password_file)),
        ("inbox prefix", reader.inbox_prefix),
        ("durable", reader.durable),
    ]
