"""The control path: one NDJSON stream down per daemon, reports up. The broker never dials an agent."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from shared.wire.agents import Grants, Groups
from shared.wire.messages import BootId, Recipient
from shared.wire.model import MAX_ID, OneLine, OpaqueId, UnixSeconds, WireRequest, WireResult
from shared.wire.tasks import MAX_KILLS, KillAnswer, TaskMirror
from shared.wire.todos import TodoMirror

Unit = Literal["hyperhive", "bash", "matrix", "subagent"]
MAX_UNKNOWN_SENDS = 20
TurnState = Literal["Idle", "Thinking", "Compacting"]


class Hello(WireRequest):
    """`POST control` opens the stream: which daemon this is, and what it asks for at most.

    The first `hyperhive` hello of a later boot returns all delivered rows of the agent to pending.
    """

    unit: Unit
    boot: BootId
    # It goes into notices, which all subscribers read.
    revision: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.+_-]{1,64}$")]
    tool_groups: Groups | None = None


class GrantsPush(WireResult):
    """The agent's grants, already narrowed by the daemon's own `tool_groups`."""

    type: Literal["grants"] = "grants"
    grants: Grants


class InboxPush(WireResult):
    """How many messages wait for the agent: at connect, and when that changes. To `hyperhive` alone."""

    type: Literal["inbox"] = "inbox"
    pending: int


class KillTaskPush(WireResult):
    """The operator wants a task of this surface ended; the answer goes up as a report."""

    type: Literal["kill_task"] = "kill_task"
    id: str


class Ping(WireResult):
    """Sent every 10 s; a daemon that hears nothing for 30 s dials again."""

    type: Literal["ping"] = "ping"


ControlEvent = Annotated[GrantsPush | InboxPush | KillTaskPush | Ping, Field(discriminator="type")]


class UnknownSend(WireRequest):
    """A send of which the agent was told that nobody knows whether it was stored."""

    key: OpaqueId
    to: Recipient
    size: Annotated[int, Field(ge=0, le=MAX_ID, description="bytes of its body")]
    at: UnixSeconds


class Report(WireRequest):
    """`POST reports`: what changed in the daemon; absent fields did not.

    `unknown_sends` are kept for the operator's eyes, with what the broker knows of them by their keys.
    """

    unit: Unit
    boot: BootId
    grants_version: Annotated[int, Field(ge=0, le=MAX_ID)] | None = None
    status_text: OneLine | None = None
    status_set_at: UnixSeconds | None = None
    turn_state: TurnState | None = None
    turn_state_since: UnixSeconds | None = None
    todos: TodoMirror | None = None
    tasks: TaskMirror | None = None
    kills: Annotated[list[KillAnswer], Field(max_length=MAX_KILLS)] | None = None
    unknown_sends: Annotated[list[UnknownSend], Field(max_length=MAX_UNKNOWN_SENDS)] | None = None
