"""`ack_until`: what it acks, what it leaves, and that nothing acked comes back."""

from __future__ import annotations

import pytest

from tests.support.access import AgentAccess
from tests.support.prose import ids_of, pending_of, rows_of, sent_id
from tests.support.units import Units


@pytest.mark.requirement("ack.up-to", "ack.final")
def test_all_rows_up_to_the_id_are_acked_seen_or_not(units: Units, iris: AgentAccess) -> None:
    numbers = [units.operator.send("iris", f"{index}") for index in range(4)]
    iris.call("recv").ok()
    assert "3 messages" in iris.call("ack_until", up_to=numbers[2]).ok()
    text = iris.call("recv", max=5).ok()
    assert (ids_of(text), pending_of(text)) == ([numbers[3]], 0)


@pytest.mark.requirement("ack.final")
def test_an_ack_repeated_acks_nothing_more(units: Units, iris: AgentAccess) -> None:
    number = units.operator.send("iris", "once")
    iris.call("recv").ok()
    assert "1 message" in iris.call("ack_until", up_to=number).ok()
    assert "0 messages" in iris.call("ack_until", up_to=number).ok()


@pytest.mark.requirement("ack.urgent-gap")
def test_rows_that_an_urgent_one_overtook_unseen_stay(units: Units, iris: AgentAccess) -> None:
    unseen = [units.operator.send("iris", f"calm {index}") for index in range(2)]
    urgent = units.operator.send("iris", "now", urgent=True)
    assert ids_of(iris.call("recv").ok()) == [urgent]
    text = iris.call("ack_until", up_to=urgent).ok()
    assert "1 message" in text
    assert all(f"#{number}" in text for number in unseen)
    again = iris.call("recv", max=5).ok()
    assert ids_of(again) == unseen
    assert "2 messages" in iris.call("ack_until", up_to=unseen[-1]).ok()


@pytest.mark.requirement("ack.urgent-gap")
def test_a_seen_row_below_an_urgent_one_is_acked(units: Units, iris: AgentAccess) -> None:
    seen = units.operator.send("iris", "calm")
    iris.call("recv").ok()
    unseen, urgent = units.operator.send("iris", "later"), units.operator.send("iris", "now", urgent=True)
    iris.call("recv").ok()
    text = iris.call("ack_until", up_to=urgent).ok()
    assert "2 messages" in text
    assert f"#{unseen}" in text
    assert ids_of(iris.call("recv", max=5).ok()) == [unseen]
    assert seen < unseen


@pytest.mark.requirement("ack.own-only")
def test_an_ack_never_touches_what_is_anothers(
    ruth: AgentAccess, iris: AgentAccess, milo: AgentAccess
) -> None:
    number = sent_id(iris.call("send", to="milo", body="for milo").ok())
    assert "0 messages" in ruth.call("ack_until", up_to=number).ok()
    assert "0 messages" in iris.call("ack_until", up_to=number).ok()
    [row] = rows_of(milo.call("recv").ok())
    assert row.id == number
