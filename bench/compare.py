"""Measurements that are to be compared, taken in turns: what else the machine does then hits all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from bench.load import MakeRequest, Sample, Target, measure

Figure = Literal["per_second", "p50_ms"]
Rounds = Sequence[Sample]
Result = dict[str, Any]


@dataclass(frozen=True)
class Bounds:
    """How much is measured: the first two end a measurement, `rounds` is how often each is taken."""

    requests: int = 600
    seconds: float = 1.5
    rounds: int = 5
    stored: int = 1_000_000
    agents: int = 10


async def _nothing() -> None:
    """Nothing to prepare."""


@dataclass(frozen=True)
class Case:
    """One of the things compared: requests to a target, and what must be there before they are sent."""

    name: str
    target: Target
    make: MakeRequest
    prepare: Callable[[], Awaitable[None]] = _nothing


async def alternate(cases: Sequence[Case], *, connections: int, bounds: Bounds) -> dict[str, list[Sample]]:
    """Measure all cases, one after the other, forwards and backwards, after a short warm-up of each."""
    found: dict[str, list[Sample]] = {case.name: [] for case in cases}
    for number in range(bounds.rounds + 1):
        is_warm_up = number == 0
        for case in cases if number % 2 else reversed(cases):
            await case.prepare()
            sample = await measure(
                case.target,
                case.make,
                connections=connections,
                max_requests=max(bounds.requests // 5, connections) if is_warm_up else bounds.requests,
                max_seconds=bounds.seconds,
            )
            if not is_warm_up:
                found[case.name].append(sample)
    return found


def summary(rounds: Rounds) -> dict[str, float]:
    """The middle round of each figure."""
    return {
        "requests": sum(sample.requests for sample in rounds),
        "per_second": round(median(sample.per_second for sample in rounds), 1),
        "p50_ms": round(median(sample.p50_ms for sample in rounds), 3),
        "p99_ms": round(median(sample.p99_ms for sample in rounds), 3),
    }


def summaries(found: Mapping[str, Rounds]) -> dict[str, dict[str, float]]:
    """The same of every case."""
    return {name: summary(rounds) for name, rounds in found.items()}


def ratio(rounds: Rounds, to: Rounds, figure: Figure) -> float:
    """One case as a multiple of another: the median over the rounds of each round's own ratio."""
    pairs = zip(rounds, to, strict=True)
    found: float = median(getattr(one, figure) / getattr(other, figure) for one, other in pairs)
    return round(found, 3)
