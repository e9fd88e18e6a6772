"""The brokers on one PostgreSQL database: their news for each other, which of them leads, which are there.

One session a broker, in a thread of its own. All of it hangs on that session: the server ends it when the
broker dies or falls silent, and with it go the locks that say "leads" and "is there". For PostgreSQL only.
"""

from __future__ import annotations

import secrets
import select
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

import structlog
from sqlalchemy import Engine

from services.broker.store.address import PgAddress
from services.broker.store.news import EVERYTHING, Item, read_items, write_items
from services.broker.store.postgresql import Error, PgConnection
from services.broker.store.prepared import run_plain
from services.broker.store.streams import MEMBER_LOCK
from shared.errors import HiveError

CHANNEL: Final = "hyperhive"
# First half of the key of the advisory lock that the leader holds.
LEADER_LOCK: Final = 0x6869_766C
BEAT_SECONDS: Final = 1.0
# A session that says nothing for so long is ended by the server: its broker is frozen or cut off.
_SILENT_SECONDS: Final = 8
_ANSWER_SECONDS: Final = 5
_PAYLOAD_BYTES: Final = 7_000  # the server takes 8,000
_MAX_PAUSE_SECONDS: Final = 2.0

_log = structlog.get_logger(__name__)


class Peers:
    """This broker's place among the others.

    Args:
        address: the database.
        on_news: called in the session's thread with what others told, and with everything after a gap.
        on_change: called in the session's thread when `is_there` or `leads` has changed.
    """

    def __init__(
        self,
        address: PgAddress,
        *,
        on_news: Callable[[Sequence[Item]], None],
        on_change: Callable[[], None],
    ) -> None:
        self._address = address
        self._on_news = on_news
        self._on_change = on_change
        self.number: Final = secrets.randbelow(2**31 - 1) + 1
        self.is_there = False
        self.leads = False
        self._told: str | None = None
        self._ours, self._theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._work, name="store-peers", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the session, and with it the lead; blocks."""
        self._ours.close()
        if self._thread.is_alive():
            self._thread.join()
        self._theirs.close()

    def announce(self, engine: Engine, items: Sequence[Item]) -> None:
        """Tell the other brokers; blocks. On another connection than the session's.

        Raises:
            HiveError, SQLAlchemyError: when the database does not answer.
        """
        text = f"{self.number} {write_items(items, max_bytes=_PAYLOAD_BYTES)}"
        with engine.connect() as connection:
            # Nobody waits for this to be durable: after a crash everybody looks anew.
            quick = "SET LOCAL synchronous_commit TO off"
            run_plain(connection, f"BEGIN; {quick}; SELECT pg_notify('{CHANNEL}', '{text}'); COMMIT")

    def _work(self) -> None:
        pause = 0.1
        while True:
            try:
                if self._attend():
                    break
                pause = 0.1
            except (Error, HiveError, OSError) as exc:
                pause = 0.1 if self.is_there else min(pause * 2, _MAX_PAUSE_SECONDS)
                if str(exc) != self._told:
                    _log.warning("database_session_lost", reason=str(exc)[:300])
                self._told = str(exc)
            self._become(is_there=False, leads=False)
            if self._is_ending(pause):
                break
        self._become(is_there=False, leads=False)

    def _attend(self) -> bool:
        """Hold the session until it breaks; True when it was ended from here."""
        settings = {"idle_session_timeout": f"{_SILENT_SECONDS}s", "statement_timeout": f"{_ANSWER_SECONDS}s"}
        connected = self._address.connect(settings=settings, timeout_seconds=_ANSWER_SECONDS)
        with closing(connected) as connection:
            connection.run_plain(f"LISTEN {CHANNEL}; SELECT pg_advisory_lock({MEMBER_LOCK}, {self.number})")
            self._told = None
            _log.info("database_session_opened", broker=self.number)
            self._become(is_there=True, leads=self._try_to_lead(connection))
            # Whatever was told before we listened.
            self._on_news([EVERYTHING])
            while not self._is_ending(BEAT_SECONDS, connection.descriptor):
                leads = self._try_to_lead(connection)
                self._take_news(connection)
                self._become(is_there=True, leads=leads)
        return True

    def _try_to_lead(self, connection: PgConnection) -> bool:
        """Ask the server for the lead, unless we have it; a sign of life in both cases."""
        if self.leads:
            connection.run_plain("SELECT 1")
            return True
        rows = connection.run_plain(f"SELECT pg_try_advisory_lock({LEADER_LOCK}, 0)").rows
        return bool(rows[0][0])

    def _take_news(self, connection: PgConnection) -> None:
        waiting = connection.notifications
        # The driver keeps no more than these, and forgets the oldest.
        items = [EVERYTHING] if len(waiting) == waiting.maxlen else []
        while waiting:
            _, _, payload = waiting.popleft()
            sender, _, text = payload.partition(" ")
            if sender != str(self.number):
                items += read_items(text)
        if items:
            self._on_news(items)

    def _become(self, *, is_there: bool, leads: bool) -> None:
        if (is_there, leads) != (self.is_there, self.leads):
            if leads != self.leads:
                _log.info("lead_changed", broker=self.number, leads=leads)
            self.is_there, self.leads = is_there, leads
            self._on_change()

    def _is_ending(self, seconds: float, *descriptors: int) -> bool:
        """Wait for the server, or that long; says whether `close` was called."""
        ending = self._theirs.fileno()
        readable, _, _ = select.select([ending, *descriptors], [], [], seconds)
        return ending in readable
