"""Pauses grow, stay within bounds, and scatter those who lost the same thing at the same moment."""

from __future__ import annotations

import random

import pytest

from shared.runtime.backoff import Backoff

FIRST, LONGEST = 0.1, 5.0
MANY, ROUNDS = 200, 8


@pytest.mark.parametrize(("drawn", "factor"), [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5)])
def test_a_pause_doubles_up_to_the_longest_within_half_of_it(drawn: float, factor: float) -> None:
    backoff = Backoff(FIRST, LONGEST, draw=lambda: drawn)
    middles = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert [backoff.next() for _ in middles] == pytest.approx([middle * factor for middle in middles])


def test_after_a_success_pauses_are_short_again() -> None:
    backoff = Backoff(FIRST, LONGEST, draw=lambda: 0.5)
    for _ in range(5):
        backoff.next()
    backoff.reset()
    assert backoff.next() == FIRST


@pytest.mark.requirement("restart.herd")
def test_many_who_lost_the_same_broker_do_not_come_back_together() -> None:
    dice = random.Random(7)
    herd = [Backoff(FIRST, LONGEST, draw=dice.random) for _ in range(MANY)]
    times = [0.0] * MANY
    for _ in range(ROUNDS):
        pauses = [one.next() for one in herd]
        times = [before + pause for before, pause in zip(times, pauses, strict=True)]
        # The attempts of this round, in tenths of the time over which its pauses reach.
        reach = max(pauses) - min(pauses)
        crowd = [sum(at <= other < at + reach / 10 for other in times) for at in times]
        assert max(crowd) < MANY / 5


def test_nobody_asks_a_broker_that_stays_away_again_and_again() -> None:
    backoff = Backoff(FIRST, LONGEST, draw=lambda: 0.0)
    waited, attempts = 0.0, 0
    while waited < 60:
        waited += backoff.next()
        attempts += 1
    assert attempts <= 30
