"""Agents: the registry's rows, what they may do, and what others may know of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from shared.permissions import Capability, ToolGroup
from shared.wire.model import Sha256Hex, WireRequest, WireResult
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


class Grants(WireResult):
    """What an agent may do. `version` grows with every change; the latest push wins."""

    groups: list[ToolGroup]
    capabilities: list[Capability]
    allowed_recipients: list[str] = []
    version: int = 0


class CreateAgent(WireRequest):
    """`POST agents`: the caller made the token and keeps it; only its SHA-256 travels."""

    name: AgentName
    token_sha256: Sha256Hex
    parent: AgentName | None = None
    wanted: bool = Field(default=True, description="whether `up` starts it")


class PermissionsChange(WireRequest):
    """`PATCH agents/{name}/permissions`: sets are added and removed, recipients replaced when given."""

    add_groups: Groups = []
    remove_groups: Groups = []
    add_capabilities: Capabilities = []
    remove_capabilities: Capabilities = []
    add_recipients: Recipients = []
    remove_recipients: Recipients = []
    clear_recipients: bool = False


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
