"""What brokers on one database tell each other after a commit: a topic and an id, never content.

News may be late or lost; then `EVERYTHING` is told, and a listener must assume that anything has changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class Topic(StrEnum):
    """What other brokers may have to act on."""

    JOBS = "jobs"  # a job was queued or ended
    OUTBOX = "outbox"  # a notice waits
    GRANTS = "grants"  # of an agent
    CUT = "cut"  # an agent's streams may have been opened with a credential that is dead
    APPROVALS = "approvals"  # one was submitted or settled
    DUE = "due"  # something may fall due earlier than was known
    INBOXES = "inboxes"  # what waits for an agent has changed
    KILLS = "kills"  # a task of an agent is to be ended, or a surface has answered
    STREAMS = "streams"  # a daemon came, went, or confirmed grants


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of news; without a topic, everything; without an id, all of the topic."""

    topic: Topic | None
    subject: int | None = None

    def __str__(self) -> str:
        return "*" if self.topic is None else f"{self.topic}:{self.subject or 0}"


EVERYTHING = Item(None)
Listener = Callable[[int | None], None]
_ITEM = re.compile("([a-z]+):([0-9]{1,19})")


class Bulletin:
    """Who listens to what. For the event loop only."""

    def __init__(self) -> None:
        self._listeners: list[tuple[Topic, Listener]] = []

    def subscribe(self, topic: Topic, listener: Listener) -> None:
        """Have `listener` called with the id that the news is about, or None."""
        self._listeners.append((topic, listener))

    def tell(self, items: Iterable[Item]) -> None:
        """Call those whom the news concerns."""
        for item in items:
            for topic, listener in self._listeners:
                if item.topic in {None, topic}:
                    listener(item.subject)


def write_items(items: Iterable[Item], *, max_bytes: int) -> str:
    """News as text; everything, where it would be longer than that."""
    text = " ".join(dict.fromkeys(str(item) for item in items))
    return text if len(text) <= max_bytes else str(EVERYTHING)


def read_items(text: str) -> list[Item]:
    """The reverse. What cannot be read is of a later version: then anything may have changed."""
    items = []
    for word in text.split():
        found = _ITEM.fullmatch(word)
        if found is None or found[1] not in set(Topic):
            return [EVERYTHING]
        items.append(Item(Topic(found[1]), int(found[2]) or None))
    return items
