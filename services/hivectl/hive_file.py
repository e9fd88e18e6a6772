"""Reads `hive.json` and the secrets it names. Nothing here prints or keeps a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from shared.errors import Misconfigured
from shared.layout import HiveLayout


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class BrokerPart(_Part):
    """Where the broker is, and which file holds the operator's credential."""

    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/@]+$")]
    operator_token_file: Path


class NatsPart(_Part):
    """Where notices are, and the credential that may read them."""

    url: Annotated[str, StringConstraints(pattern=r"^(nats|tls)://[^\s/@]+$")]
    reader_user: str
    reader_password_file: Path
    inbox_prefix: str
    durable: str


class AgentPart(_Part):
    """Where an agent's files are."""

    mcp_config: Path
    state_dir: Path
    token_file: Path
    agent_socket: Path
    core_socket: Path


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
        raw = path.read_bytes()
    except FileNotFoundError as exc:
        raise Misconfigured(
            f"no hive at {layout.root} ({path.name} is missing); make one with `hivectl up`, "
            "or name another directory with --root or HIVE_ROOT",
            code="no_hive",
        ) from exc
    except OSError as exc:
        raise Misconfigured(f"{path} cannot be read: {exc.strerror}; run hivectl as the hive's user") from exc
    try:
        return HiveFile.model_validate(json.loads(raw))
    except ValueError as exc:
        where = "not JSON"
        if isinstance(exc, ValidationError):
            first = exc.errors(include_input=False, include_url=False)[0]
            where = f"{'.'.join(map(str, first['loc'])) or 'the document'}: {first['msg']}"
        raise Misconfigured(f"{path} is wrong ({where}); `hivectl up` writes it anew") from exc


def read_secret(path: Path) -> str:
    """The secret in a file, without the line's end.

    Raises:
        Misconfigured: when the file is missing, unreadable or empty.
    """
    try:
        secret = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not text"
        raise Misconfigured(f"{path} cannot be read: {reason}; `hivectl doctor` says more") from exc
    if not secret:
        raise Misconfigured(f"{path} is empty; `hivectl doctor` says more")
    return secret
