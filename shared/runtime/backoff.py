"""Pauses between attempts: each about twice the one before, none in step with anybody else's."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """The pauses of one who tries again and again.

    Each is spread evenly over half to one and a half of what it would be: of many who lost the same broker at
    the same moment few come back in the same one, and the next time they are spread further.

    Args:
        first_seconds: the middle of the first pause.
        longest_seconds: what the middle grows to.
        draw: a number from 0 up to 1, anew with each call.
    """

    def __init__(
        self,
        first_seconds: float,
        longest_seconds: float,
        *,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._draw = draw
        self._middle_seconds = first_seconds

    def next(self) -> float:
        """The seconds to pause now; the next ones are longer."""
        middle = self._middle_seconds
        self._middle_seconds = min(middle * 2, self._longest_seconds)
        return middle * (0.5 + self._draw())

    def reset(self) -> None:
        """Begin with short pauses again: it went well."""
        self._middle_seconds = self._first_seconds
