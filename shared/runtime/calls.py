"""One call to the broker: what it is, and what is known of how far its attempts got. Opens nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from shared.errors import HiveError


@dataclass(frozen=True)
class Call:
    """A request that is safe to repeat, by its nature or by its key.

    `unsure` is set on changes: what to tell the caller when it may have taken effect unseen.
    """

    method: str
    path: str
    body: BaseModel | None = None
    key: str | None = None
    unsure: str | None = None
    query: Mapping[str, str] = field(default_factory=dict)


class TryAgain(Exception):
    """An attempt failed in a way that the next one may not; `answer` is the broker's, if it gave one."""

    def __init__(self, reason: str, answer: HiveError | None = None) -> None:
        super().__init__(reason)
        self.answer = answer


class Attempts:
    """Whether any attempt of one call may have been acted on without our knowing."""

    def __init__(self) -> None:
        self._has_left = False
        self._lost = False

    def left(self) -> None:
        """Note that a request's first byte leaves: from now on the broker may act on it."""
        self._has_left = True

    def begin(self) -> None:
        """Note that a request is made; one before it that got no answer stays lost."""
        self._lost = self.unsure
        self._has_left = False

    def nothing_done(self) -> None:
        """Note an answer which says that this request had no effect."""
        self._has_left = False

    @property
    def unsure(self) -> bool:
        return self._lost or self._has_left
