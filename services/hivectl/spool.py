"""What the driver saw and the broker may not know yet: an ordered, durable queue in a small SQLite file.

An event is on disk before anything else is done about it, and goes only after the broker has confirmed it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import structlog
from pydantic import ValidationError

from shared.errors import HiveError, Misconfigured
from shared.layout import HiveLayout
from shared.runtime.ids import new_ulid
from shared.wire.lifecycle import DriverEvent, DriverEventKind, ExitStatus

MAX_ERROR_CHARACTERS = 2000

_log = structlog.get_logger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    content TEXT NOT NULL
)
"""


@dataclass(frozen=True)
class SpooledEvent:
    """An event and its place in the queue; one that is not on disk yet has none."""

    seq: int | None
    event: DriverEvent


class EventSpool:
    """The queue. One process writes it, which is what the supervisor's lock is for.

    Calls wait for the disk, on purpose: the order of facts is the order of calls.
    """

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        """Open the file, or make it.

        Raises:
            Misconfigured: when it is no database or cannot be written.
        """
        self._now = now
        self._unsaved: list[DriverEvent] = []
        self.on_append: Callable[[], None] = lambda: None
        try:
            path.touch(mode=0o600)
            with ExitStack() as on_failure:
                self._db = sqlite3.connect(path, isolation_level=None)
                on_failure.callback(self._db.close)
                self._db.execute("PRAGMA journal_mode = WAL")
                # FULL: in WAL mode anything less may lose the last commits with the machine
                # (sqlite.org/pragma).
                self._db.execute("PRAGMA synchronous = FULL")
                self._db.execute(_SCHEMA)
                _check(self._db)
                on_failure.pop_all()
        except (sqlite3.Error, OSError) as exc:
            raise Misconfigured(
                f"{path} cannot be used ({exc}); if it is damaged, move it away: it holds only what the "
                "broker has not been told yet"
            ) from exc

    def append(
        self,
        kind: DriverEventKind,
        agent_id: int,
        *,
        job_id: int | None = None,
        exit_: ExitStatus | None = None,
        error: str | None = None,
    ) -> DriverEvent:
        """Put a fact at the end; durable on return.

        While the disk is full it waits in memory: an agent must not end because of that.
        """
        event = DriverEvent(
            event_id=new_ulid(),
            kind=kind,
            at=int(self._now()),
            agent_id=agent_id,
            job_id=job_id,
            exit_code=exit_.code if exit_ else None,
            exit_signal=exit_.signal if exit_ else None,
            error=None if error is None else error[-MAX_ERROR_CHARACTERS:],
        )
        self._unsaved.append(event)
        self._save()
        self.on_append()
        return event

    def list_oldest(self, limit: int) -> list[SpooledEvent]:
        """The next ones to send, in order.

        Raises:
            HiveError: `storage_failed`, when the file cannot be read.
        """
        self._save()
        with _explain():
            rows = self._db.execute(
                "SELECT seq, content FROM event ORDER BY seq LIMIT ?", (limit,)
            ).fetchall()
            found = [event for seq, content in rows if (event := self._decode(seq, content)) is not None]
        if rows and not found:
            return self.list_oldest(limit)
        return found + [SpooledEvent(None, event) for event in self._unsaved[: limit - len(found)]]

    def remove(self, events: Sequence[SpooledEvent]) -> None:
        """Forget what the broker has confirmed.

        Raises:
            HiveError: `storage_failed`, when the file cannot be written; they are sent again then.
        """
        saved = [(one.seq,) for one in events if one.seq is not None]
        if len(saved) < len(events):
            sent = {one.event.event_id for one in events}
            self._unsaved = [event for event in self._unsaved if event.event_id not in sent]
        if saved:
            with _explain():
                self._db.executemany("DELETE FROM event WHERE seq = ?", saved)

    def count(self) -> int:
        """How many wait."""
        with _explain():
            row: tuple[int] = self._db.execute("SELECT count(*) FROM event").fetchone()
        return row[0] + len(self._unsaved)

    def _decode(self, seq: int, content: object) -> SpooledEvent | None:
        """The event of a row; a damaged one is dropped, for it would hold up all that follows."""
        try:
            return SpooledEvent(seq, DriverEvent.model_validate_json(str(content)))
        except ValidationError:
            _log.error("driver_event_damaged", seq=seq)
            self._db.execute("DELETE FROM event WHERE seq = ?", (seq,))
            return None

    def _save(self) -> None:
        while self._unsaved:
            content = self._unsaved[0].model_dump_json()
            try:
                self._db.execute("INSERT INTO event (content) VALUES (?)", (content,))
            except sqlite3.Error as exc:
                _log.error("driver_event_not_durable", waiting=len(self._unsaved), reason=str(exc))
                return
            del self._unsaved[0]

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _check(db: sqlite3.Connection) -> None:
    """Find damage before anything is entrusted to the file; it is small.

    Raises:
        sqlite3.Error: saying what is wrong.
    """
    found = [str(row[0]) for row in db.execute("PRAGMA quick_check(1)")]
    if found != ["ok"]:
        raise sqlite3.DatabaseError("; ".join(found))
    db.execute("SELECT seq, content FROM event LIMIT 1").fetchall()


def spool_path(layout: HiveLayout) -> Path:
    """Where a hive's spool is."""
    return layout.database.with_name("driver-spool.sqlite")


def inspect_spool(path: Path) -> tuple[int, int | None]:
    """How many events wait in a spool that somebody else may be using, and when the oldest one happened.

    Raises:
        HiveError: `storage_failed`, when it is damaged or cannot be read.
    """
    if not path.exists():
        return 0, None
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with (
        _explain(f"{path} is damaged or cannot be read"),
        contextlib.closing(sqlite3.connect(uri, uri=True)) as db,
    ):
        _check(db)
        query = "SELECT count(*), (SELECT content FROM event ORDER BY seq LIMIT 1) FROM event"
        row: tuple[int, str | None] = db.execute(query).fetchone()
    try:
        return row[0], None if row[1] is None else DriverEvent.model_validate_json(row[1]).at
    except ValidationError as exc:
        raise HiveError(f"{path} holds what is no event", code="storage_failed") from exc


def sqlite_version() -> str:
    """Of the library that this Python is linked with, as are the units that it runs."""
    return sqlite3.sqlite_version


def sqlite_has_fts5() -> bool:
    """Whether that library can index words."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        query = "SELECT count(*) FROM pragma_module_list WHERE name = 'fts5'"
        return bool(db.execute(query).fetchone()[0])


@contextlib.contextmanager
def _explain(what: str = "the driver's spool cannot be used") -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        raise HiveError(f"{what}: {exc}", code="storage_failed") from exc
