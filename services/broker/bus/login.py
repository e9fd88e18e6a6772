"""Who the broker is at NATS, and where that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from shared.errors import Misconfigured


@dataclass(frozen=True)
class Credential:
    """A NATS user. The password is read anew for each connection, because it may be replaced."""

    user: str
    read_password: Callable[[], str] = field(repr=False)


@dataclass(frozen=True)
class BusLogin:
    """Where NATS is, the broker's user there, and one of the system account that may ask for settings.

    `url` may be several, separated by commas. Without a user the connection is anonymous.
    """

    url: str
    user: Credential | None = None
    sys: Credential | None = None


def build_login(
    url: str | None,
    *,
    user: str | None,
    password_file: Path | None,
    sys_user: str | None,
    sys_password_file: Path | None,
) -> BusLogin | None:
    """Put settings together; None without a URL. Reads no file yet.

    Raises:
        Misconfigured: when a user has no password file, or the other way round.
    """
    if url is None:
        return None
    return BusLogin(
        url,
        _build_credential("HIVE_BROKER_NATS", user, password_file),
        _build_credential("HIVE_BROKER_NATS_SYS", sys_user, sys_password_file),
    )


def _build_credential(prefix: str, user: str | None, password_file: Path | None) -> Credential | None:
    if user is None and password_file is None:
        return None
    if user is None or password_file is None:
        raise Misconfigured(f"{prefix}_USER and {prefix}_PASSWORD_FILE go together; set both or neither")

    def read_password() -> str:
        try:
            return password_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as exc:
            raise Misconfigured(f"{prefix}_PASSWORD_FILE, {password_file}, cannot be read") from exc

    return Credential(user, read_password)
