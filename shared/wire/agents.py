"""Agents: the registry's rows, what they may do, and what others may know of them."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from shared.permissions import Capability, ToolGroup
from shared.wire.model import Sha256Hex, WireRequest, WireResult, check_text
from shared.wire.names import AgentName

# FastAPI validates parsed JSON, where strict mode would refuse a string for an enum.
GroupName = Annotated[ToolGroup, Field(strict=False)]
CapabilityName = Annotated[Capability, Field(strict=False)]
# Far more than there are, so that naming one twice is no error.
MAX_NAMED = 100
Groups = Annotated[list[GroupName], Field(max_length=MAX_NAMED)]
Capabilities = Annotated[list[CapabilityName], Field(max_length=MAX_NAMED)]
Recipients = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=200)]], Field(max_length=200)
]


PathMode = Literal["ro", "rw"]
MAX_PATHS = 100
# PATH_MAX of Linux, with its terminating NUL.
MAX_PATH_BYTES = 4_095


def check_path(value: str) -> str:
    """An absolute path in its shortest form, which is the one that is compared.

    Raises:
        ValueError: saying the rule.
    """
    check_text(value)
    if not value.startswith("/"):
        raise ValueError("must be an absolute path")
    if len(value.encode()) > MAX_PATH_BYTES:
        raise ValueError(f"must be {MAX_PATH_BYTES} bytes at most")
    if any(unicodedata.category(char) == "Cc" for char in value):
        raise ValueError("must not hold control characters")
    parts = [part for part in value.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError("must not hold `..`; name the place itself")
    return "/" + "/".join(parts)


PathText = Annotated[str, StringConstraints(max_length=MAX_PATH_BYTES), AfterValidator(check_path)]


class GrantedPath(WireResult):
    """A path, with all below it, that is open to an agent's tasks and turns: to read, or also to write."""

    path: PathText
    mode: PathMode = "ro"


class AddPath(WireRequest):
    """A path to open; one that is open already changes its mode."""

    path: PathText
    mode: PathMode = "ro"


class Grants(WireResult):
    """What an agent may do. `version` grows with every change; the latest push wins."""

    groups: list[ToolGroup]
    capabilities: list[Capability]
    allowed_recipients: list[str] = []
    paths: list[GrantedPath] = []
    version: int = 0


class CreateAgent(WireRequest):
    """`POST agents`: the caller made the token and keeps it; only its SHA-256 travels."""

    name: AgentName
    token_sha256: Sha256Hex
    parent: AgentName | None = None
    wanted: bool = Field(default=True, description="whether `up` starts it")


class PermissionsChange(WireRequest):
    """`PATCH agents/{name}/permissions`: each list is added to what there is, or taken from it."""

    add_groups: Groups = []
    remove_groups: Groups = []
    add_capabilities: Capabilities = []
    remove_capabilities: Capabilities = []
    add_recipients: Recipients = []
    remove_recipients: Recipients = []
    clear_recipients: bool = False
    add_paths: Annotated[list[AddPath], Field(max_length=MAX_PATHS)] = []
    remove_paths: Annotated[list[PathText], Field(max_length=MAX_PATHS)] = []


class PermissionsResult(WireResult):
    """The grants now in force, and whether every connected daemon has confirmed them."""

    grants: Grants
    confirmed: bool


class RotateToken(WireRequest):
    """`POST agents/{name}/token`: accept a new token; the old one stays valid for `grace_seconds`."""

    token_sha256: Sha256Hex
    grace_seconds: Annotated[int, Field(ge=0, le=600)] = 600


class Agent(WireResult):
    """A registry row as the operator sees it."""

    id: int
    name: str
    parent: str | None = None
    port_block: int
    running: bool
    wanted: bool = Field(description="whether `up` starts it: false after stop and kill until the next start")
    destroyed: bool = False
    created_at: int
    grants: Grants
    revision: str | None = None
    status_text: str = ""
    status_set_at: int | None = None
    turn_state: str | None = None
    turn_state_since: int | None = None
    pending: int = 0
    connected_units: list[str] = []


class AgentSelf(WireResult):
    """`GET self`: who the credential is, and in which hive."""

    id: int
    name: str
    hive_name: str
    swarm_name: str | None = None
    broker_revision: str
    grants: Grants


class MatrixAccount(WireResult):
    """A matrix identity that an agent can act as."""

    name: str
    homeserver: str
    user_id: str | None = None


class AgentMeta(WireResult):
    """What any agent with group `meta` may know of another; absent keys are omitted on the wire."""

    name: str
    hyperhive_rev: str | None = None
    running: bool
    status_text: str = ""
    status_set_at: int | None = None
    turn_state: str | None = None
    hive_name: str | None = None
    swarm_name: str | None = None
    matrix_accounts: list[MatrixAccount] | None = None


class HiveInfo(WireResult):
    """`GET hive`: the hive as a whole, for the operator."""

    hive_name: str
    swarm_name: str | None = None
    domain: str | None = None
    revision: str
    agents: int
    nats_connected: bool
    nats_sync_always: bool | None = Field(default=None, description="None where the server does not say")
    notices_waiting: int = Field(description="rows of the outbox not yet acked by JetStream")
    notices_oldest_at: int | None = Field(default=None, description="when the oldest of these was made")
    messages_parked: int = Field(default=0, description="in all inboxes, after five failed turns each")
    driver_connected: bool
    clock_at: int | None = Field(default=None, description="the broker's clock")
    newest_at: int | None = Field(
        default=None, description="when the newest message or job was stored, by the clock of then"
    )
