"""Loaded by schemathesis: keeps a run from waiting, and from sawing off the branch it sits on."""

from __future__ import annotations

import os
from typing import Any

import schemathesis

_WAITS = {str(seconds) for seconds in range(31)}
DECOYS = 12
# The row of one of them.
DECOY = 2
RECIPIENT = "iris"
REQUIRED_OF_A_SCHEDULE = 3


@schemathesis.hook
def before_call(
    _context: schemathesis.HookContext, case: schemathesis.Case[Any], _kwargs: dict[str, Any]
) -> None:
    """No long polls; driver events hit those agents that are there for it; some messages reach somebody."""
    body = case.body if isinstance(case.body, dict) else {}
    if case.operation.path.endswith("/claim"):
        body.setdefault("wait_seconds", 0)
    for place in (case.query, body):
        if isinstance(place, dict) and str(place.get("wait_seconds")) in _WAITS:
            place["wait_seconds"] = 0
    if case.operation.path.endswith("/reminders") and "at_unix_timestamp" not in body:
        body.setdefault("delay_seconds", 86_400)
    if case.operation.path.endswith("/schedules") and len(body) == REQUIRED_OF_A_SCHEDULE:
        body.update(targets=["ruth"], first_fire_at_unix=4_000_000_000)
    to = body.get("to")
    if isinstance(to, str) and len(to) == 1:
        body["to"] = RECIPIENT
    spared = [int(number) for number in os.environ["SPARED_AGENTS"].split(",")]
    events = body.get("events")
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and event.get("agent_id") in spared:
            event["agent_id"] = DECOY
