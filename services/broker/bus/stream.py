"""The stream of notices and readers' consumers on it: made where absent, never shrunk, never made anew.

Several hives may share the stream, so what is there and larger is left alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from nats.js import api

from services.broker.bus.link import Link
from shared.errors import Misconfigured, NotFound
from shared.wire.notices import STREAM, SUBJECT_ROOT

SUBJECTS = f"{SUBJECT_ROOT}.>"
DUPLICATE_WINDOW_SECONDS = 3600
MAX_AGE_SECONDS = 7 * 24 * 3600
MAX_BYTES = 1 << 30
MAX_MESSAGE_BYTES = 64 * 1024

N = TypeVar("N", int, float)

WANTED = api.StreamConfig(
    name=STREAM,
    description="what happens to agents; see hyperhive, docs/notices.md",
    subjects=[SUBJECTS],
    storage=api.StorageType.FILE,
    retention=api.RetentionPolicy.LIMITS,
    discard=api.DiscardPolicy.OLD,
    max_age=MAX_AGE_SECONDS,
    max_bytes=MAX_BYTES,
    max_msg_size=MAX_MESSAGE_BYTES,
    duplicate_window=DUPLICATE_WINDOW_SECONDS,
    num_replicas=1,
    deny_delete=True,
    deny_purge=True,
    allow_direct=True,
    compression=api.StoreCompression.S2,
)


async def ensure_stream(link: Link) -> bool:
    """Make the stream, or raise limits that are below ours; says whether it was made.

    Raises:
        Misconfigured: when there is a stream of that name that could lose notices.
        HiveError: when NATS does not answer or refuses.
    """
    try:
        found = (await link.ask(link.stream.stream_info(STREAM), what="look at the stream")).config
    except NotFound:
        await link.ask(link.stream.add_stream(WANTED), what="create the stream")
        return True
    if found.storage != api.StorageType.FILE or found.retention != api.RetentionPolicy.LIMITS:
        raise Misconfigured(f"the stream {STREAM} exists and is not kept in files by limits; remove it")
    grown = _grow(found)
    if grown != found:
        await link.ask(link.stream.update_stream(grown), what="raise the stream's limits")
    return False


async def ensure_consumer(link: Link, durable: str, *, subjects: str) -> bool:
    """Make a reader's durable pull consumer unless it is there: its position must survive.

    Returns:
        Whether it was made.

    Raises:
        HiveError: when NATS does not answer or refuses.
    """
    try:
        await link.ask(link.stream.consumer_info(STREAM, durable), what=f"look at consumer {durable}")
    except NotFound:
        config = api.ConsumerConfig(
            name=durable,
            durable_name=durable,
            deliver_policy=api.DeliverPolicy.ALL,
            ack_policy=api.AckPolicy.EXPLICIT,
            filter_subject=subjects,
        )
        await link.ask(link.stream.add_consumer(STREAM, config), what=f"create consumer {durable}")
        return True
    return False


async def remove_consumer(link: Link, durable: str) -> bool:
    """Remove a reader's consumer, with its position.

    Returns:
        Whether there was one.

    Raises:
        HiveError: when NATS does not answer or refuses.
    """
    try:
        await link.ask(link.stream.delete_consumer(STREAM, durable), what=f"remove consumer {durable}")
    except NotFound:
        return False
    return True


def _grow(found: api.StreamConfig) -> api.StreamConfig:
    subjects = list(found.subjects or [])
    return replace(
        found,
        subjects=subjects if SUBJECTS in subjects else [*subjects, SUBJECTS],
        max_age=_larger(found.max_age, MAX_AGE_SECONDS),
        max_bytes=_larger(found.max_bytes, MAX_BYTES),
        max_msg_size=_larger(found.max_msg_size, MAX_MESSAGE_BYTES),
        duplicate_window=max(found.duplicate_window or 0, DUPLICATE_WINDOW_SECONDS),
        allow_direct=True,
    )


def _larger(found: N | None, wanted: N) -> N | None:
    """The larger limit; none, zero and below mean no limit."""
    return found if found is None or found <= 0 else max(found, wanted)
