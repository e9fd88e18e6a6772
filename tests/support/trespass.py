"""What a reader of notices might try beyond reading, as raw NATS requests.

Names in braces are filled in: `own` and `other` are durables, and users, of the one who tries and of another.
"""

from __future__ import annotations

import json

import nats.errors
from nats.aio.client import Client

from shared.wire.notices import STREAM

Body = dict[str, object]

_CONSUMER: Body = {
    "stream_name": STREAM,
    "config": {"name": "mine", "durable_name": "mine", "ack_policy": "explicit"},
}

# A subject, and a body with which JetStream would do it.
FORBIDDEN: dict[str, tuple[str, Body]] = {
    "publish a notice": ("swarm.notices.hive.ruth.started", {}),
    "publish elsewhere": ("anything.else", {}),
    "write to another's inbox": ("_INBOX_{other}.x", {}),
    "create a stream": ("$JS.API.STREAM.CREATE.MINE", {"name": "MINE", "subjects": ["mine.>"]}),
    "change the stream": (f"$JS.API.STREAM.UPDATE.{STREAM}", {"name": STREAM, "max_msgs": 1}),
    "purge the stream": (f"$JS.API.STREAM.PURGE.{STREAM}", {}),
    "delete the stream": (f"$JS.API.STREAM.DELETE.{STREAM}", {}),
    "delete a notice": (f"$JS.API.STREAM.MSG.DELETE.{STREAM}", {"seq": 1}),
    "read past the direct get": (f"$JS.API.STREAM.MSG.GET.{STREAM}", {"seq": 1}),
    "restore a stream": ("$JS.API.STREAM.RESTORE.MINE", {"config": {"name": "MINE"}}),
    "take a snapshot": (f"$JS.API.STREAM.SNAPSHOT.{STREAM}", {"deliver_subject": "_INBOX_{own}.x"}),
    "create a consumer": (f"$JS.API.CONSUMER.CREATE.{STREAM}.mine", _CONSUMER),
    "create a consumer the old way": (
        f"$JS.API.CONSUMER.CREATE.{STREAM}",
        {"stream_name": STREAM, "config": {"deliver_subject": "anything.else"}},
    ),
    "create a durable": (f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.mine", _CONSUMER),
    "change another's durable": (
        f"$JS.API.CONSUMER.CREATE.{STREAM}.{{other}}",
        {"stream_name": STREAM, "config": {"durable_name": "{other}", "ack_policy": "none"}},
    ),
    "delete its durable": (f"$JS.API.CONSUMER.DELETE.{STREAM}.{{own}}", {}),
    "delete another's durable": (f"$JS.API.CONSUMER.DELETE.{STREAM}.{{other}}", {}),
    "pause another's durable": (
        f"$JS.API.CONSUMER.PAUSE.{STREAM}.{{other}}",
        {"pause_until": "2999-01-01T00:00:00Z"},
    ),
    "look at another's durable": (f"$JS.API.CONSUMER.INFO.{STREAM}.{{other}}", {}),
    "list durables": (f"$JS.API.CONSUMER.NAMES.{STREAM}", {}),
    "take another's notices": (
        f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{{other}}",
        {"batch": 100, "no_wait": True},
    ),
    "ack another's notice": (f"$JS.ACK.{STREAM}.{{other}}.1.1.1.1.0", {}),
    "ask the server": ("$SYS.REQ.SERVER.PING", {}),
}

# Requests that a reader may make; the reply subject is its own to choose.
ALLOWED: dict[str, tuple[str, Body]] = {
    "direct get": (f"$JS.API.DIRECT.GET.{STREAM}", {"seq": 1}),
    "a batch": (f"$JS.API.DIRECT.GET.{STREAM}", {"seq": 1, "batch": 9, "next_by_subj": "swarm.notices.>"}),
    "next of its durable": (f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{{own}}", {"batch": 1, "no_wait": True}),
    "look at its durable": (f"$JS.API.CONSUMER.INFO.{STREAM}.{{own}}", {}),
    "look at the stream": (f"$JS.API.STREAM.INFO.{STREAM}", {}),
    "names of streams": ("$JS.API.STREAM.NAMES", {}),
}

# Where no answer to them may go.
REPLY_TARGETS: dict[str, str] = {
    "a notice": "swarm.notices.hive.ruth.forged",
    "another's inbox": "_INBOX_{other}.stolen",
    "the broker's inbox": "_INBOX_broker.x",
    "the removal of another's durable": f"$JS.API.CONSUMER.DELETE.{STREAM}.{{other}}",
    "a purge": f"$JS.API.STREAM.PURGE.{STREAM}",
    "another's acks": f"$JS.ACK.{STREAM}.{{other}}.1.1.1.1.0",
}

# What it may not listen to.
UNHEARD: tuple[str, ...] = (
    ">",
    "_INBOX.>",
    "_INBOX_broker.>",
    "_INBOX_{other}.>",
    "$SYS.>",
    "$JS.>",
    "swarm.>",
)


async def attempt(
    client: Client, what: str, *, own: str, other: str = "nobody", seconds: float = 0.3
) -> None:
    """Try one of `FORBIDDEN`; fails when somebody answers that it was done."""
    subject, body = fill(FORBIDDEN[what], own=own, other=other)
    try:
        answer = await client.request(subject, body, timeout=seconds)
    except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
        return
    assert "error" in json.loads(answer.data), (what, answer.data)


def fill(request: tuple[str, Body], *, own: str, other: str) -> tuple[str, bytes]:
    """The request with the names in their places."""
    subject, body = request
    text = json.dumps(body).replace("{own}", own).replace("{other}", other)
    return subject.format(own=own, other=other), text.encode()
