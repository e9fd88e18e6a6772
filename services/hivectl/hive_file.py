"""Reads `hive.json` and the secrets it names. Nothing here prints or keeps a secret."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

from services.hivectl.reading import parse_json, read_regular
from shared.errors import Misconfigured
from shared.layout import HiveLayout

# A line's end or a control character would end up in a header, or in a command of NATS.
_SECRET = re.compile("[ -~]+")


def _check_url(url: str) -> str:
    """`urlsplit` raises ValueError for brackets and ports that are none."""
    parts = urlsplit(url)
    if not parts.hostname or parts.port == 0:
        raise ValueError("names no host and port")
    return url


def _check_path(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError("is no path")
    return path


HttpUrl = Annotated[
    str, StringConstraints(pattern=r"^https?://[A-Za-z0-9.:\[\]-]+$"), AfterValidator(_check_url)
]
NatsUrl = Annotated[str, StringConstraints(pattern=r"^(nats|tls)://[^\s/@]+$"), AfterValidator(_check_url)]
FilePath = Annotated[Path, AfterValidator(_check_path)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class BrokerPart(_Part):
    """Where the broker is, and which file holds the operator's credential."""

    url: HttpUrl
    operator_token_file: FilePath


class NatsPart(_Part):
    """Where notices are, and the credential that may read them."""

    url: NatsUrl
    reader_user: str
    reader_password_file: FilePath
    inbox_prefix: str
    durable: str


class AgentPart(_Part):
    """Where an agent's files are."""

    mcp_config: FilePath
    state_dir: FilePath
    token_file: FilePath
    agent_socket: FilePath
    core_socket: FilePath


class HiveFile(_Part):
    """`hive.json`: for scripts, and for every command but `up`."""

    broker: BrokerPart
    nats: NatsPart | None = None
    agents: dict[str, AgentPart] = {}


def read_hive_file(layout: HiveLayout) -> HiveFile:
    """Read and check `hive.json`.

    Raises:
        Misconfigured: when it is missing, unreadable or not what `up` writes; the text says what to do.
    """
    path = layout.hive_json
    try:
        raw = read_regular(path)
    except FileNotFoundError as exc:
        raise Misconfigured(
            f"no hive at {layout.root} ({path.name} is missing); make one with `hivectl up`, "
            "or name another directory with --root or HIVE_ROOT",
            code="no_hive",
        ) from exc
    except OSError as exc:
        raise Misconfigured(f"{path} cannot be read: {exc.strerror}; run hivectl as the hive's user") from exc
    try:
        return HiveFile.model_validate(parse_json(raw))
    except ValueError as exc:
        where = "not JSON"
        if isinstance(exc, ValidationError):
            first = exc.errors(include_input=False, include_url=False)[0]
            where = f"{'.'.join(map(str, first['loc'])) or 'the document'}: {first['msg']}"
        raise Misconfigured(f"{path} is wrong ({where}); `hivectl up` writes it anew") from exc


def read_secret(path: Path, *, form: re.Pattern[str] = _SECRET) -> str:
    """The secret in a file, without the line's end.

    Args:
        path: the file.
        form: what it must look like.

    Raises:
        Misconfigured: when the file is missing, unreadable, empty or damaged.
    """
    try:
        secret = read_regular(path).decode("ascii", "replace").strip()
    except OSError as exc:
        raise Misconfigured(f"{path} cannot be read: {exc.strerror}; `hivectl doctor` says more") from exc
    if not form.fullmatch(secret):
        what = "is damaged" if secret else "is empty"
        raise Misconfigured(
            f"{path} {what}; remove it, then `hivectl down` and `hivectl up` make what is missing"
        )
    return secret
