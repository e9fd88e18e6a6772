"""The hive's own files under its root: directories, the operator's token, what `up` was told, the lock."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.hivectl.hive_file import NatsUrl
from services.hivectl.provision.owned import make_owned_dir, write_owned
from services.hivectl.reading import parse_json, read_regular
from shared.errors import HiveError, Misconfigured
from shared.layout import DEFAULT_PORT_BASE, HiveLayout, PortPlan
from shared.runtime.credential import new_token
from shared.runtime.files import make_private_dir
from shared.wire.names import HiveName

DEFAULT_HIVE_NAME = "hive"
NATS_PREFIX = "HIVE_BROKER_NATS_"
# The last agent of a hive with ten of them must still fit below 65536.
MAX_PORT_BASE = 65_300


class ForeignNats(BaseModel):
    """A NATS server that somebody else runs, and whom the broker is there. Files are named, never read."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    url: NatsUrl
    user: str | None = None
    password_file: str | None = None
    sys_user: str | None = None
    sys_password_file: str | None = None

    def broker_settings(self) -> dict[str, str]:
        """The broker's variables, without those of which nothing is known."""
        return {
            f"{NATS_PREFIX}{name.upper()}": value
            for name, value in self.model_dump(exclude_none=True).items()
        }


class HiveSettings(BaseModel):
    """What `up` keeps, so that the next one need not be told again. Without `nats` the server is our own."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    port_base: int = Field(default=DEFAULT_PORT_BASE, ge=1, le=MAX_PORT_BASE)
    hive_name: HiveName = DEFAULT_HIVE_NAME
    nats: ForeignNats | None = None

    @property
    def ports(self) -> PortPlan:
        return PortPlan(self.port_base)


def ensure_hive_files(layout: HiveLayout) -> None:
    """Make what every hive has: directories (0700), and the operator's token (0600).

    Raises:
        Misconfigured: when the root cannot be written, with the reason.
    """
    try:
        make_private_dir(layout.root)
        for part in ("agents", "db", "logs", "nats", "operator", "run", "run/agents"):
            make_owned_dir(layout.root / part)
        if not layout.operator_token_file.exists():
            write_owned(layout.operator_token_file, new_token().encode() + b"\n")
    except HiveError as exc:
        raise Misconfigured(
            f"{exc.message}; name another root with --root or HIVE_ROOT, or run as its owner"
        ) from exc


@contextmanager
def hive_lock(layout: HiveLayout) -> Iterator[None]:
    """Hold off everybody else who changes files of this hive. Waits; not re-entrant.

    Raises:
        Misconfigured: when the lock's file cannot be opened.
    """
    path = _lock_path(layout)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as exc:
        raise Misconfigured(
            f"{path} cannot be opened: {exc.strerror}; remove what is in its place, or run hivectl as the "
            "hive's user"
        ) from exc
    try:
        if os.geteuid() == 0:
            owner = layout.run_dir.stat()
            os.fchown(fd, owner.st_uid, owner.st_gid)
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def find_settings(layout: HiveLayout) -> HiveSettings | None:
    """What the last `up` was told; None in a fresh root.

    Raises:
        Misconfigured: when the file is damaged.
    """
    path = _settings_path(layout)
    try:
        return HiveSettings.model_validate(parse_json(read_regular(path)))
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise Misconfigured(f"{path} cannot be read: {exc.strerror}; run hivectl as the hive's user") from exc
    except ValueError as exc:
        where = "not JSON"
        if isinstance(exc, ValidationError):
            first = exc.errors(include_input=False, include_url=False)[0]
            where = f"{'.'.join(map(str, first['loc'])) or 'the document'}: {first['msg']}"
        raise Misconfigured(f"{path} is wrong ({where}); mend it, or remove it for defaults") from exc


def save_settings(layout: HiveLayout, settings: HiveSettings) -> None:
    """Keep them for the next `up`."""
    write_owned(_settings_path(layout), settings.model_dump_json(indent=2).encode() + b"\n")


def _settings_path(layout: HiveLayout) -> Path:
    return layout.root / "settings.json"


def _lock_path(layout: HiveLayout) -> Path:
    return layout.run_dir / "files.lock"
