"""Notices: structured CloudEvents on JetStream (source: CloudEvents 1.0.2)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from shared.wire.model import WireRequest, WireResult
from shared.wire.names import HiveName

STREAM = "SWARM_NOTICES"
SUBJECT_ROOT = "swarm.notices"
CONTENT_TYPE = "application/cloudevents+json"


class NoticeEvent(StrEnum):
    """What a notice can say of an agent."""

    STARTED = "started"
    STOPPED = "stopped"
    KILLED = "killed"
    DESTROYED = "destroyed"
    CRASHED = "crashed"
    REVISION_CHANGED = "revision_changed"
    LOGGED_IN = "logged_in"
    LOGGED_OUT = "logged_out"


class CloudEvent(BaseModel):
    """The body of a notice. `id` is also the `Nats-Msg-Id`: consumers drop what they have seen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    specversion: Literal["1.0"] = "1.0"
    id: str
    source: str
    type: str
    subject: str
    time: str
    datacontenttype: Literal["application/json"] = "application/json"
    data: dict[str, Any]


def notice_subject(hive: str, agent: str, event: NoticeEvent) -> str:
    """`swarm.notices.<hive>.<agent>.<event>`, five tokens; names are validated before they get here."""
    return f"{SUBJECT_ROOT}.{hive}.{agent}.{event}"


def notice_type(event: NoticeEvent) -> str:
    """The CloudEvents type, `hyperhive.agent.<event>.v1`."""
    return f"hyperhive.agent.{event}.v1"


def reader_identity(hive: str, reader: str) -> str:
    """The NATS user, account and durable pull consumer of a reader: one word for the three.

    Several hives may share a server, so the hive is part of it. Names have no capitals: no two pairs give
    the same word, and none is the broker's user.
    """
    return f"{hive}-READER-{reader}"


def inbox_prefix_of(user: str) -> str:
    """Where a NATS user gets its answers; the server lets it subscribe to no other inbox."""
    return f"_INBOX_{user}"


class NoticeReader(WireResult):
    """A subscriber: its user, its durable pull consumer and its inbox prefix all follow from its name.

    `durable` is its `reader_identity` and so its user too. `ready` says whether the consumer exists.
    """

    name: str
    durable: str
    inbox_prefix: str
    ready: bool


class GrantReader(WireRequest):
    """`POST notice-readers`: have the broker keep a durable consumer for this reader."""

    name: HiveName
