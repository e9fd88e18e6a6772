"""The embedded NATS server's files under `nats/`: passwords (0600), the configuration, its store.

Also what the broker is told about NATS, and what `hive.json` says of it; for a server elsewhere that is all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from services.hivectl.hive_file import NatsPart, read_secret
from services.hivectl.nats_config import BROKER_USER, PASSWORD, SYS_USER, render_config
from services.hivectl.provision.owned import make_owned_dir, write_owned
from services.hivectl.provision.reader_files import list_readers, reader_file, readers_dir
from services.hivectl.provision.root import ForeignNats, HiveSettings
from shared.errors import Misconfigured
from shared.layout import HiveLayout
from shared.runtime.credential import new_token
from shared.wire.notices import inbox_prefix_of, reader_identity

DEFAULT_READER = "default"


@dataclass(frozen=True)
class NatsFiles:
    """What follows from them. `config` is None when the server is not ours."""

    url: str
    config: Path | None
    broker_settings: Mapping[str, str]
    part: NatsPart | None


def ensure_embedded_nats(layout: HiveLayout, settings: HiveSettings) -> NatsFiles:
    """Write the configuration of our own server; passwords are made once and kept. Under the hive's lock."""
    nats_dir = layout.nats_dir
    for path in (nats_dir, nats_dir / "store", readers_dir(layout)):
        make_owned_dir(path)
    broker_file = nats_dir / "broker.password"
    sys_file = nats_dir / "sys.password"
    for path in (broker_file, sys_file, reader_file(layout, DEFAULT_READER)):
        if not path.exists():
            write_owned(path, new_token().encode() + b"\n")
    config = nats_dir / "nats.conf"
    text = render_config(
        port=settings.ports.nats,
        http=None,
        store_dir=nats_dir / "store",
        server_name=f"hyperhive-{settings.hive_name}",
        hive=settings.hive_name,
        broker_password=read_secret(broker_file, form=PASSWORD),
        sys_password=read_secret(sys_file, form=PASSWORD),
        readers={
            name: read_secret(reader_file(layout, name), form=PASSWORD) for name in list_readers(layout)
        },
    )
    write_owned(config, text.encode())
    url = embedded_url(settings)
    broker_settings = {
        "HIVE_BROKER_NATS_URL": url,
        "HIVE_BROKER_NATS_USER": BROKER_USER,
        "HIVE_BROKER_NATS_PASSWORD_FILE": str(broker_file),
        "HIVE_BROKER_NATS_SYS_USER": SYS_USER,
        "HIVE_BROKER_NATS_SYS_PASSWORD_FILE": str(sys_file),
    }
    return NatsFiles(url, config, broker_settings, _describe_reader(layout, settings, url))


def embedded_url(settings: HiveSettings) -> str:
    """Where our own server listens."""
    return f"nats://127.0.0.1:{settings.ports.nats}"


def describe_foreign_nats(layout: HiveLayout, settings: HiveSettings, server: ForeignNats) -> NatsFiles:
    """A server that somebody else runs.

    Whoever has a reader there puts its password where ours would be; else `hive.json` names none.
    """
    known = reader_file(layout, DEFAULT_READER).exists()
    part = _describe_reader(layout, settings, server.url) if known else None
    return NatsFiles(server.url, None, server.broker_settings(), part)


def check_nats_url(url: str, *, what: str) -> None:
    """Refuse what is no address, or holds a password: it is shown in process lists and kept in files.

    Args:
        url: the address.
        what: the option or the setting that it comes from.

    Raises:
        Misconfigured: saying how it must look, and not what it was.
    """
    try:
        ForeignNats(url=url)
    except ValidationError as exc:
        # Not what pydantic says: that would repeat a password.
        raise Misconfigured(
            f"{what} must look like nats://HOST:PORT, without credentials: give those by "
            "HIVE_BROKER_NATS_USER and HIVE_BROKER_NATS_PASSWORD_FILE; `--nats-url embedded` means the "
            "hive's own server"
        ) from exc


def describe_nats(layout: HiveLayout, settings: HiveSettings, foreign_url: str | None) -> NatsPart | None:
    """What `hive.json` says of a server that runs already, our own or one elsewhere."""
    if foreign_url is not None:
        return describe_foreign_nats(layout, settings, ForeignNats(url=foreign_url)).part
    return _describe_reader(layout, settings, embedded_url(settings))


def _describe_reader(layout: HiveLayout, settings: HiveSettings, url: str) -> NatsPart:
    identity = reader_identity(settings.hive_name, DEFAULT_READER)
    return NatsPart(
        url=url,
        reader_user=identity,
        reader_password_file=reader_file(layout, DEFAULT_READER),
        inbox_prefix=inbox_prefix_of(identity),
        durable=identity,
    )
