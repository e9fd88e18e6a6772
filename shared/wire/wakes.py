"""Waking an agent by a message from something that is no agent, under a label."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from shared.wire.model import Body, OpaqueId, WireRequest
from shared.wire.names import Label


class WakeRequest(WireRequest):
    """`POST agents/{name}/wake`, and what `mcp.sock` takes: a message `from` a label.

    A label that is an agent's name, or looks like one, is refused.
    """

    model_config = ConfigDict(serialize_by_alias=True)

    label: Label = Field(alias="from")
    body: Body


class SocketWake(WakeRequest):
    """`wake` at `mcp.sock`; a repeat under the same key within 24 hours stores nothing twice."""

    idempotency_key: OpaqueId | None = None
