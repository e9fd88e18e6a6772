"""Times that callers name: what one may be, by the broker's clock."""

from __future__ import annotations

from typing import Final

from shared.errors import InvalidInput

MAX_AHEAD_SECONDS: Final = 36_525 * 86_400  # a hundred years


def resolve_due(*, delay_seconds: int | None, at_unix_timestamp: int | None, now: int) -> int:
    """When something is due, from exactly one of a delay and a time.

    Raises:
        InvalidInput: saying what is wrong, and what is right.
    """
    if (delay_seconds is None) == (at_unix_timestamp is None):
        raise InvalidInput(
            "give exactly one of delay_seconds (from now) and at_unix_timestamp (a point in time)"
        )
    if at_unix_timestamp is not None:
        return check_future("at_unix_timestamp", at_unix_timestamp, now=now)
    assert delay_seconds is not None
    if delay_seconds < 1:
        raise InvalidInput(f"delay_seconds is {delay_seconds}, and it must be at least 1")
    if delay_seconds > MAX_AHEAD_SECONDS:
        raise InvalidInput(
            f"delay_seconds is {delay_seconds}, and the most is {MAX_AHEAD_SECONDS}, a hundred years; it is "
            "in seconds, not milliseconds"
        )
    return now + delay_seconds


def check_future(name: str, at: int, *, now: int) -> int:
    """A point in time that lies ahead, but no more than a hundred years.

    Raises:
        InvalidInput: with the time that it is now.
    """
    if at <= now:
        raise InvalidInput(f"{name} is {at}, which is past: it is {now} now, in unix seconds")
    if at > now + MAX_AHEAD_SECONDS:
        raise InvalidInput(
            f"{name} is {at}, more than a hundred years ahead: it is {now} now, in unix seconds, not "
            "milliseconds"
        )
    return at
