"""Readers of notices come and go while the hive runs: their password files and the server's configuration.

All of it under the hive's lock, as whatever else writes that configuration. That the server reads it is the
caller's to see to.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from services.hivectl.hive_file import read_hive_file, read_secret
from services.hivectl.provision.nats import embedded_url, ensure_embedded_nats
from services.hivectl.provision.owned import make_owned_dir, write_owned
from services.hivectl.provision.reader_files import reader_file, readers_dir, revoked_file
from services.hivectl.provision.root import HiveSettings, find_settings, hive_lock
from shared.errors import Conflict
from shared.layout import HiveLayout
from shared.runtime.credential import new_token
from shared.runtime.files import remove_private
from shared.wire.notices import reader_identity


@dataclass(frozen=True)
class NatsPlace:
    """The hive's NATS server: where it is, and whether its configuration is ours to write."""

    url: str | None
    is_embedded: bool
    hive_name: str
    port: int


def find_nats(layout: HiveLayout) -> NatsPlace:
    """What the last `up` wrote down of it. Without a URL it is somebody else's, and no reader was given.

    Raises:
        Misconfigured: when the hive's files are missing or wrong.
    """
    settings = find_settings(layout) or HiveSettings()
    part = read_hive_file(layout).nats
    url = part.url if part else None
    is_embedded = settings.nats is None and url == embedded_url(settings)
    return NatsPlace(url, is_embedded, settings.hive_name, settings.ports.nats)


def add_reader(layout: HiveLayout, name: str) -> Path:
    """Make a reader's password, unless there is one, and write it into the server's configuration.

    On a server that is not ours both are its operator's to do.

    Returns:
        The file with the password.

    Raises:
        Conflict: `foreign_nats`, when it is not ours and nobody has put a password there; says what to do.
    """
    path = reader_file(layout, name)
    with hive_lock(layout):
        place = find_nats(layout)
        if not place.is_embedded:
            if place.url is None or not path.exists():
                raise Conflict(_say_what_to_do(layout, place, name), code="foreign_nats")
            return path
        make_owned_dir(readers_dir(layout))
        if not path.exists():
            write_owned(path, new_token().encode() + b"\n")
        remove_private(revoked_file(layout, name))
        _render(layout)
    return path


def withdraw_reader(layout: HiveLayout, name: str) -> str | None:
    """Strike a reader from the server's configuration; its password is kept aside until `forget_reader`.

    Returns:
        The password, with which nobody may be let in any more; None when it had none.
    """
    path, aside = reader_file(layout, name), revoked_file(layout, name)
    with hive_lock(layout):
        if path.exists():
            write_owned(aside, read_secret(path).encode() + b"\n")
            remove_private(path)
        if find_nats(layout).is_embedded:
            _render(layout)
        return read_secret(aside) if aside.exists() else None


def forget_reader(layout: HiveLayout, name: str) -> None:
    """Remove what `withdraw_reader` has kept."""
    if readers_dir(layout).exists():
        remove_private(revoked_file(layout, name))


def _render(layout: HiveLayout) -> None:
    ensure_embedded_nats(layout, find_settings(layout) or HiveSettings())


def _say_what_to_do(layout: HiveLayout, place: NatsPlace, name: str) -> str:
    identity = reader_identity(place.hive_name, name)
    text = (
        "this hive's NATS server is run by somebody else, who must make the account and the user "
        f"{identity} there (docs/adr/0006-one-credential-and-one-durable-per-reader.md has the layout); "
        f"then put its password into {reader_file(layout, name)}, mode 0600, and repeat this"
    )
    if place.url is None:
        text += "; do the same for the reader `default` first, and start the hive anew"
    return text
