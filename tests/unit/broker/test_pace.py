"""How often daemons may connect, and that those that crash at each start still get in."""

from __future__ import annotations

import itertools

import pytest

from services.broker.service.control import CONNECT_SECONDS, CONNECTS_AT_ONCE
from services.broker.service.pace import Pace


class Clock:
    """Seconds that pass when the test says so; more than whole ones, for pauses that are short."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> int:
        return int(self.seconds)


def build(clock: Clock, at_once: int = 3, seconds_each: float = 2.0) -> Pace:
    return Pace(at_once=at_once, seconds_each=seconds_each, clock=clock)


def test_so_many_at_once_then_one_after_the_other() -> None:
    clock = Clock()
    pace = build(clock)
    assert [pace.take("iris") for _ in range(5)] == [0, 0, 0, 2, 2]
    clock.seconds += 1
    assert pace.take("iris") == 1
    clock.seconds += 1
    assert [pace.take("iris"), pace.take("iris")] == [0, 2]


def test_what_was_saved_up_is_bounded() -> None:
    clock = Clock()
    pace = build(clock)
    assert pace.take("iris") == 0
    clock.seconds += 10_000
    assert [pace.take("iris") for _ in range(4)] == [0, 0, 0, 2]


def test_each_has_its_own() -> None:
    pace = build(Clock(), at_once=1)
    assert [pace.take(("iris", "bash")), pace.take(("iris", "matrix")), pace.take(("iris", "bash"))] == [
        0,
        0,
        2,
    ]


def test_a_clock_that_is_set_back_locks_nobody_out() -> None:
    clock = Clock()
    pace = build(clock, at_once=1)
    assert pace.take("iris") == 0
    clock.seconds -= 900
    assert pace.take("iris") == 2
    clock.seconds += 2
    assert pace.take("iris") == 0


@pytest.mark.requirement("limits.connects")
@pytest.mark.parametrize("lives_seconds", [0.0, 0.3, 2.0, 10.0])
def test_a_daemon_that_crashes_at_each_start_is_never_told_to_wait(lives_seconds: float) -> None:
    clock = Clock()
    pace = build(clock, CONNECTS_AT_ONCE, CONNECT_SECONDS)
    growing = itertools.chain((0.2, 0.4, 0.8, 1.6, 3.2), itertools.repeat(5.0))
    # After ten seconds of life the supervisor begins with the shortest pause again.
    pauses = itertools.repeat(0.2) if lives_seconds >= 10 else growing
    for pause in itertools.islice(pauses, 1_000):
        assert pace.take("iris") == 0
        clock.seconds += pause + lives_seconds
