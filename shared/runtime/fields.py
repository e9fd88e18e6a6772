"""Field types for settings: the variables that all units share, and checks that say what was expected."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from shared.permissions import ToolGroup
from shared.runtime.log import LogLevel
from shared.wire.names import AgentName


@dataclass(frozen=True)
class FromEnv:
    """Marks a field that is read from exactly this variable, whatever the class's prefix."""

    variable: str


def check_broker_url(value: str) -> str:
    """`http://host:port` or `https://host[:port]`, returned without a trailing slash.

    Raises:
        ValueError: saying what was expected; the URL itself is not repeated, it may carry a password.
    """
    expected = "must be http://HOST:PORT or https://HOST[:PORT], without path, query or credentials"
    try:
        parts = urlsplit(value.strip())
        port = parts.port
    except ValueError:
        raise ValueError(expected) from None
    plain = parts.path in ("", "/") and not (parts.query or parts.fragment or "@" in parts.netloc)
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain or port == 0:
        raise ValueError(expected)
    return value.strip().rstrip("/")


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _resolved(path: Path) -> Path:
    # Files are never written through a symbolic link, so a linked root is followed once, here.
    return path.expanduser().resolve()


def _split_groups(value: object) -> object:
    if not isinstance(value, str):
        return value
    names = [part.strip() for part in value.split(",") if part.strip()]
    valid = [group.value for group in ToolGroup]
    if unknown := sorted(set(names) - set(valid)):
        raise ValueError(f"unknown group {', '.join(unknown)}; the groups are {', '.join(valid)}")
    return frozenset(names)


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
Port = Annotated[int, Field(ge=0, le=65_535)]

# For a unit's own `Settings`; a field without a default is required there.
HiveRoot = Annotated[Path, AfterValidator(_resolved), FromEnv("HIVE_ROOT")]
HiveUrl = Annotated[str, AfterValidator(check_broker_url), FromEnv("HIVE_URL")]
HiveLabel = Annotated[AgentName, FromEnv("HIVE_LABEL")]
HiveTokenFile = Annotated[AbsolutePath, FromEnv("HIVE_TOKEN_FILE")]
HiveStateDir = Annotated[AbsolutePath, FromEnv("HIVE_STATE_DIR")]
HiveAgentSocket = Annotated[AbsolutePath | None, FromEnv("HIVE_AGENT_SOCKET")]
HiveCoreSocket = Annotated[AbsolutePath | None, FromEnv("HIVE_CORE_SOCKET")]
HiveToolGroups = Annotated[
    frozenset[ToolGroup] | None, BeforeValidator(_split_groups), FromEnv("HIVE_TOOL_GROUPS")
]
HiveLogLevel = Annotated[LogLevel, FromEnv("HIVE_LOG_LEVEL")]
