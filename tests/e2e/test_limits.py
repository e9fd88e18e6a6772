"""What keeps messages from flooding: each limit is an error to the sender that says why and what to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.access import AgentAccess
from tests.support.units import Units, running_units

pytestmark = pytest.mark.requirement("delivery.limits")

PENDING, HOPS, PAIR = 4, 3, 6


@pytest.fixture(scope="module")
def strict() -> Iterator[Units]:
    """A broker with small limits, and no surface: what it refuses a surface passes on."""
    limits = {
        "HIVE_BROKER_MAX_PENDING": str(PENDING),
        "HIVE_BROKER_MAX_HOPS": str(HOPS),
        "HIVE_BROKER_PAIR_PER_MINUTE": str(PAIR),
    }
    with running_units(**limits) as running:
        yield running


def enlist(strict: Units, *names: str) -> list[AgentAccess]:
    return [strict.enlist(name) for name in names]


def send(agent: AgentAccess, to: str) -> tuple[int, str]:
    """The status, and the message of a refusal."""
    response = agent.http("POST", "/messages", {"to": to, "body": "again"})
    return response.status_code, response.json().get("message", "")


def test_a_full_inbox_refuses_until_something_was_read(strict: Units) -> None:
    sender, full = enlist(strict, "anna", "bert")
    for _ in range(PENDING):
        strict.operator.send("bert", "more")
    status, why = send(sender, "bert")
    assert (status, "full" in why) == (429, True)
    refused = strict.operator.http("POST", "/messages", {"to": "bert", "body": "more"})
    assert refused.status_code == 429
    full.drain()
    assert send(sender, "bert")[0] == 201


def test_a_chain_of_answers_is_broken_and_the_operator_mends_it(strict: Units) -> None:
    one, two = enlist(strict, "cleo", "dora")
    writer, reader = one, two
    for _ in range(HOPS):
        assert send(writer, reader.name)[0] == 201
        reader.drain()
        writer, reader = reader, writer
    status, why = send(writer, reader.name)
    assert (status, str(HOPS) in why, "operator" in why) == (429, True, True)
    strict.operator.send(writer.name, "go on")
    assert send(writer, reader.name)[0] == 201


def test_a_pair_that_writes_too_fast_is_slowed_down_alone(strict: Units) -> None:
    fast, other, third = enlist(strict, "emma", "fred", "gwen")
    for _ in range(PAIR):
        assert send(fast, "fred")[0] == 201
        other.drain()
    response = fast.http("POST", "/messages", {"to": "fred", "body": "again"})
    assert response.status_code == 429
    assert 0 < response.json()["details"]["retry_after_seconds"] <= 60
    assert send(fast, third.name)[0] == 201
