"""A connection to NATS with a reader's credential, which may neither publish nor create consumers.

Reads by direct get. The one module of hivectl that imports nats.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.errors import HiveError, Misconfigured, Unavailable
from shared.wire.notices import STREAM, SUBJECT_ROOT

BATCH = 256
REQUEST_TIMEOUT_SECONDS = 5.0

_DIRECT_GET = f"$JS.API.DIRECT.GET.{STREAM}"
_STREAM_INFO = f"$JS.API.STREAM.INFO.{STREAM}"
# RFC 3339 with nanoseconds, of which `fromisoformat` takes six digits at most.
_NANOSECONDS = re.compile(r"(\.\d{6})\d+")


@dataclass(frozen=True)
class ReaderLogin:
    """What a reader of notices connects with; and what helps when that fails, for people."""

    url: str
    user: str
    password: str = field(repr=False)
    inbox_prefix: str
    when_away: str = "start the hive with `hivectl up`"
    when_refused: str = "restart the hive with `hivectl down` and `hivectl up`"


@dataclass(frozen=True)
class StoredNotice:
    """A notice, as it is stored: a CloudEvent, of this or a later version; `stored_at` by NATS' clock."""

    sequence: int
    event: dict[str, Any]
    stored_at: float | None = None


def subject_filter(agent: str | None) -> str:
    """Notices of all agents of all hives on the stream, or those of one name."""
    return f"{SUBJECT_ROOT}.*.{agent}.*" if agent else f"{SUBJECT_ROOT}.>"


class NoticeBus:
    """One connection; use it as an async context manager.

    Raises:
        Unavailable: when NATS cannot be reached, or goes away, or has no notices stream yet.
        Misconfigured: when it refuses the credential, or the credential may not read.
    """

    def __init__(self, login: ReaderLogin) -> None:
        self._login = login
        self._connection = Client()
        self._woken = asyncio.Event()
        self._refusal: str | None = None

    async def __aenter__(self) -> Self:
        login = self._login
        try:
            # Bounded, unlike the default: without this a server that is down holds `connect` for two minutes.
            await self._connection.connect(
                login.url,
                user=login.user,
                password=login.password,
                inbox_prefix=login.inbox_prefix,
                name="hivectl",
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=3,
                error_cb=self._on_error,
            )
        except (nats.errors.Error, OSError, TimeoutError) as exc:
            await self._close()
            if "authorization" in str(exc).lower():
                what = f"NATS at {login.url} refuses the reader {login.user!r}"
                raise Misconfigured(
                    f"{what}; {login.when_refused}",
                    code="nats_refused",
                    details={"what": what, "mend": login.when_refused},
                ) from exc
            what = f"NATS cannot be reached at {login.url}"
            raise Unavailable(
                f"{what}; {login.when_away}",
                code="not_running",
                details={"what": what, "mend": login.when_away},
            ) from exc
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        try:
            await self._connection.close()
        except (nats.errors.Error, OSError):
            # Closing after the server closed raises; there is nothing left to close.
            return

    @property
    def server_version(self) -> tuple[int, int, int]:
        """Major, minor and patch of the server."""
        version = self._connection.connected_server_version
        return version.major, version.minor, version.patch

    async def _on_error(self, error: Exception) -> None:
        if "permissions violation" in str(error).lower():
            self._refusal = str(error)

    async def watch(self, subject: str) -> None:
        """Subscribe, so that `wait_for_news` returns as soon as there may be a new notice."""

        async def wake(_msg: Msg) -> None:
            self._woken.set()

        await self._connection.subscribe(subject, cb=wake)
        await self._flush()

    async def wait_for_news(self, timeout_seconds: float) -> bool:
        """Whether a live notice came within the time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    async def find_last(self) -> StoredNotice | None:
        """The newest notice."""
        rows = await self._ask({"last_by_subj": subject_filter(None)}, single=True)
        if not rows:
            return None
        stored_at = _parse_time((rows[0].headers or {}).get("Nats-Time-Stamp"))
        return StoredNotice(_sequence(rows[0]), _parse(rows[0]) or {}, stored_at)

    async def find_clock(self) -> float | None:
        """The server's clock, unix seconds; None where it does not say (before 2.10)."""
        try:
            answer = await self._connection.request(_STREAM_INFO, timeout=REQUEST_TIMEOUT_SECONDS)
        except (nats.errors.Error, OSError, TimeoutError) as exc:
            raise self._explain() from exc
        return _parse_time((_parse(answer) or {}).get("ts"))

    async def read(self, subject: str, *, first: int) -> list[StoredNotice]:
        """Up to `BATCH` notices from sequence `first` on; what is no JSON object is left out."""
        rows = await self._ask({"seq": first, "batch": BATCH, "next_by_subj": subject}, single=False)
        return [StoredNotice(_sequence(row), event) for row in rows if (event := _parse(row)) is not None]

    async def _ask(self, question: dict[str, Any], *, single: bool) -> list[Msg]:
        inbox = self._connection.new_inbox()
        rows: list[Msg] = []
        try:
            subscription = await self._connection.subscribe(inbox)
            await self._connection.publish(_DIRECT_GET, json.dumps(question).encode(), reply=inbox)
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                while True:
                    row = await subscription.next_msg(timeout=REQUEST_TIMEOUT_SECONDS)
                    status = (row.headers or {}).get("Status")
                    if status is None:
                        rows.append(row)
                    if status == "503":
                        raise Unavailable(
                            f"NATS has no stream {STREAM} yet; the broker makes it when it is up",
                            code="no_stream",
                        )
                    if status is not None or single:
                        break
            await subscription.unsubscribe()
        except (nats.errors.Error, OSError, TimeoutError) as exc:
            raise self._explain() from exc
        return rows

    async def _flush(self) -> None:
        try:
            await self._connection.flush(timeout=int(REQUEST_TIMEOUT_SECONDS))
        except (nats.errors.Error, OSError, TimeoutError) as exc:
            raise self._explain() from exc

    def _explain(self) -> HiveError:
        if self._refusal:
            what = f"the reader {self._login.user!r} may not read notices: {self._refusal}"
            return Misconfigured(what, details={"what": what, "mend": self._login.when_refused})
        what = f"NATS at {self._login.url} does not answer"
        return Unavailable(what, details={"what": what, "mend": self._login.when_away})


def _sequence(row: Msg) -> int:
    return int((row.headers or {})["Nats-Sequence"])


def _parse_time(word: object) -> float | None:
    try:
        return datetime.fromisoformat(_NANOSECONDS.sub(r"\1", str(word))).timestamp()
    except (ValueError, OverflowError):
        return None


def _parse(row: Msg) -> dict[str, Any] | None:
    try:
        event = json.loads(row.data)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
