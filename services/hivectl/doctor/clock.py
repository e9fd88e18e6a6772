"""Clocks: do broker, NATS and this program agree on the time, and does none lie behind what is stored."""

from __future__ import annotations

from services.hivectl.doctor.check import Check, error, passed, warning

# Whole seconds are compared, and the answer takes a while.
TOLERATED_SECONDS = 5
# Tokens that retire, and limits a minute, would be wrong by more than they are long.
WRONG_SECONDS = 60
_SYNC = "have both machines keep time by NTP: `timedatectl` says whether they do"


def check_difference(name: str, whose: str, told_at: float | None, asked: tuple[float, float]) -> Check:
    """Compare a clock with ours.

    Args:
        name: of the check.
        whose: clock it is.
        told_at: what it said; None where it does not say.
        asked: by our clock, when it was asked and when it had answered.
    """
    if told_at is None:
        return passed(name, f"{whose} does not say what time it has")
    begun, ended = asked
    seconds = max(begun - told_at, told_at - ended, 0)
    if seconds <= TOLERATED_SECONDS:
        return passed(name, f"{whose} has the time that this machine has")
    way = "behind" if told_at < begun else "ahead"
    detail = f"the clock of {whose} is {seconds:.0f} s {way}"
    return (error if seconds > WRONG_SECONDS else warning)(name, detail, _SYNC)


def check_newest(name: str, stored: dict[str, float | None], now: float) -> Check:
    """Whether what was stored last lies in the future: then the clock was set back since.

    Args:
        name: of the check.
        stored: what was stored last of each kind, and when.
        now: the time by our clock.
    """
    times = {what: at for what, at in stored.items() if at is not None}
    if not times:
        return passed(name, "nothing is stored yet")
    what, newest_at = max(times.items(), key=lambda pair: pair[1])
    ahead = newest_at - now
    if ahead <= TOLERATED_SECONDS:
        return passed(name, "nothing that is stored lies in the future")
    return warning(
        name,
        f"the newest {what} is from a time {ahead:.0f} s ahead: the clock was set back",
        "set it right (`timedatectl`); nothing is lost, but ages and times are wrong until it has caught up",
    )
