"""The broker's standing with NATS: connects in the background for ever, publishes while it is connected."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import structlog
from nats.js.api import Header

from services.broker.bus.history import list_ids
from services.broker.bus.link import Link, connect
from services.broker.bus.login import BusLogin
from services.broker.bus.stream import ensure_consumer, ensure_stream, remove_consumer
from shared.errors import Conflict, HiveError, NotFound, Unavailable
from shared.wire.notices import CONTENT_TYPE, STREAM, SUBJECT_ROOT

_FIRST_PAUSE_SECONDS = 0.2
_MAX_PAUSE_SECONDS = 5.0
_VARZ = "$SYS.REQ.SERVER.PING.VARZ"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StoredNotice:
    """The newest notice of a subject, as the stream has it."""

    sequence: int
    event_id: str | None


class NoticeBus:
    """Run `run` in a task; everything else may be called at any time.

    Args:
        login: where NATS is; None for a broker without, which then never connects.
        hive: whose notices it publishes.
    """

    def __init__(self, login: BusLogin | None, *, hive: str) -> None:
        self._login = login
        self._subjects = f"{SUBJECT_ROOT}.{hive}.>"
        self._link: Link | None = None
        self._came = anyio.Event()
        self._trouble: str | None = None
        self._told_unknown = False
        self.sync_always: bool | None = None
        self.on_connected: list[Callable[[], None]] = []

    @property
    def connected(self) -> bool:
        """Whether the stream is there and can be published to."""
        return self._link is not None and not self._link.closed.is_set()

    async def wait_connected(self) -> None:
        """Wait until `connected`."""
        while not self.connected:
            # Only a waiter renews the event, and only a used one: nobody is left waiting on an old one.
            if self._came.is_set():
                self._came = anyio.Event()
            await self._came.wait()

    async def run(self) -> None:
        """Connect and connect again until cancelled; says in the log when it changes, and only then."""
        if self._login is None:
            _log.warning("nats_not_configured", effect="notices wait in the outbox")
            return
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                async with connect(self._login.url, self._login.user) as link:
                    await self._settle(link, self._login)
                    pause = _FIRST_PAUSE_SECONDS
                    await link.wait_closed()
                self._note_trouble("connection lost")
            except HiveError as exc:
                self._note_trouble(exc.message)
            finally:
                self._link = None
            await anyio.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)

    async def publish(
        self,
        *,
        event_id: str,
        subject: str,
        payload: bytes,
        request_id: str | None,
        after_sequence: int | None = None,
    ) -> int:
        """Publish a notice and wait for JetStream's ack; returns its sequence in the stream.

        Args:
            event_id: the CloudEvent's; within the stream's duplicate window a second copy is dropped.
            subject: below the hive's.
            payload: the CloudEvent.
            request_id: of the request that caused it.
            after_sequence: store it only if the subject's newest notice has this sequence (0: has none).

        Raises:
            Conflict: `wrong_last_sequence`, when the subject's newest notice is another one.
            OutcomeUnknown: when it may have been stored.
            HiveError: when it was not.
        """
        headers = {Header.MSG_ID: event_id, "Content-Type": CONTENT_TYPE, Header.EXPECTED_STREAM: STREAM}
        if request_id is not None:
            headers["X-Request-Id"] = request_id
        if after_sequence is not None:
            headers[Header.EXPECTED_LAST_SUBJECT_SEQUENCE] = str(after_sequence)
        link = self._get_link()
        try:
            ack = await link.ask(
                link.stream.publish(subject, payload, headers=headers), what=f"publish to {subject}"
            )
        except Conflict:
            raise
        except HiveError:
            # Half open, or the stream was removed: a new connection begins by looking after all that.
            link.end()
            raise
        return int(ack.seq)

    async def find_last(self, subject: str) -> StoredNotice | None:
        """The newest stored notice of a subject.

        Raises:
            HiveError: when NATS does not answer.
        """
        link = self._get_link()
        try:
            row = await link.ask(
                link.stream.get_msg(STREAM, subject=subject, direct=True), what=f"read {subject}"
            )
        except NotFound:
            return None
        return StoredNotice(int(row.seq or 0), (row.headers or {}).get(Header.MSG_ID))

    async def list_ids(self, subject: str) -> list[str]:
        """The ids of all stored notices of a subject, the oldest first.

        Raises:
            HiveError: when NATS does not answer.
        """
        return await list_ids(self._get_link(), subject)

    async def ensure_reader(self, durable: str) -> None:
        """Have a durable pull consumer of this hive's notices, from the first one on.

        Raises:
            HiveError: when NATS does not answer or refuses.
        """
        if await ensure_consumer(self._get_link(), durable, subjects=self._subjects):
            _log.info("reader_consumer_created", durable=durable)

    async def remove_reader(self, durable: str) -> bool:
        """Remove a reader's consumer; says whether there was one.

        Raises:
            HiveError: when NATS does not answer or refuses.
        """
        removed = await remove_consumer(self._get_link(), durable)
        if removed:
            _log.info("reader_consumer_removed", durable=durable)
        return removed

    def _get_link(self) -> Link:
        if self._link is None or self._link.closed.is_set():
            raise Unavailable("NATS is not connected")
        return self._link

    async def _settle(self, link: Link, login: BusLogin) -> None:
        created = await ensure_stream(link)
        durable = await _find_sync_always(login)
        self._link, self._trouble = link, None
        _log.info("nats_connected", stream_created=created, sync_always=durable)
        self._note_durability(durable)
        self._came.set()
        for listener in self.on_connected:
            listener()

    def _note_durability(self, found: bool | None) -> None:
        if found is False:
            _log.error(
                "nats_not_durable", effect="a power cut loses notices", expected="sync_interval: always"
            )
        if found is None and not self._told_unknown:
            _log.warning(
                "nats_durability_unknown", expected="HIVE_BROKER_NATS_SYS_USER that may ask the server"
            )
            self._told_unknown = True
        self.sync_always = found

    def _note_trouble(self, reason: str) -> None:
        if reason != self._trouble:
            _log.warning("nats_unavailable", reason=reason)
        self._trouble = reason


async def _find_sync_always(login: BusLogin) -> bool | None:
    """Whether the server syncs each notice to disk before it acks; None where it cannot be asked."""
    if login.sys is None:
        return None
    try:
        async with connect(login.url, login.sys) as link:
            answer = await link.ask(link.client.request(_VARZ, b"", timeout=5), what="ask for settings")
        varz = json.loads(answer.data)["data"]
        return bool(varz["jetstream"]["config"].get("sync_always", False))
    except (HiveError, KeyError, TypeError, ValueError) as exc:
        _log.warning("nats_not_asked", reason=str(exc))
        return None
