"""`send`: who is reached, what the answer says, and every refusal with what is right."""

from __future__ import annotations

import pytest

from tests.support.access import LEGACY, MODERN, AgentAccess
from tests.support.claude import Era
from tests.support.prose import ids_of, rows_of, sent_id
from tests.support.units import Units
from tests.support.waiting import eventually

KIB = 1024


@pytest.mark.requirement("send.reaches-peer")
@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_a_message_reaches_its_recipient_alone(
    ruth: AgentAccess, iris: AgentAccess, milo: AgentAccess, era: Era
) -> None:
    number = sent_id(ruth.call("send", to="iris", body="the tide is out", era=era).ok())
    [row] = rows_of(iris.call("recv", era=era).ok())
    assert (row.id, row.sender, row.body) == (number, "ruth", "the tide is out")
    assert ids_of(milo.call("recv").ok()) == ids_of(ruth.call("recv").ok()) == []


@pytest.mark.requirement("send.reaches-operator")
def test_a_message_to_the_operator_is_in_their_inbox(units: Units, ruth: AgentAccess) -> None:
    number = sent_id(ruth.call("send", to="operator", body="done, all of it").ok())
    found = [m for m in units.operator.json("GET", "/inbox")["messages"] if m["id"] == number]
    assert [(m["sender"], m["body"]) for m in found] == [("ruth", "done, all of it")]


@pytest.mark.requirement("send.says-state")
def test_the_answer_says_how_the_recipient_stands(units: Units, ruth: AgentAccess, iris: AgentAccess) -> None:
    def says(state: str) -> bool:
        text = ruth.call("send", to="iris", body="hello").ok()
        return text == f"#{sent_id(text)} to iris: queued; iris is {state}"

    assert says("running")
    units.surfaces["iris"].kill()
    try:
        assert eventually(lambda: says("stopped"), within=5)
    finally:
        units.surfaces["iris"].start()


@pytest.mark.requirement("send.self-refused")
def test_a_message_to_oneself_is_refused(ruth: AgentAccess) -> None:
    assert "ruth is you" in ruth.call("send", to="ruth", body="note").error()


@pytest.mark.requirement("send.unknown-refused")
def test_a_near_miss_is_answered_with_the_near_name(ruth: AgentAccess, iris: AgentAccess) -> None:
    text = ruth.call("send", to="irish", body="hello").error()
    assert "iris" in text.replace("irish", "")
    assert "milo" not in text


@pytest.mark.requirement("send.unknown-refused")
def test_an_unknown_name_is_answered_with_who_is_there(ruth: AgentAccess) -> None:
    text = ruth.call("send", to="zzz", body="hello").error()
    assert all(name in text for name in ("iris", "milo", "operator"))


@pytest.mark.requirement("send.size-refused")
def test_a_body_may_have_64_kib_and_no_byte_more(ruth: AgentAccess, iris: AgentAccess) -> None:
    ruth.call("send", to="iris", body="é" * (32 * KIB)).ok()
    assert str(64 * KIB) in ruth.call("send", to="iris", body="é" * (32 * KIB) + "x").error()


@pytest.mark.requirement("send.reply-checked")
def test_a_foreign_and_an_absent_message_look_the_same(
    ruth: AgentAccess, iris: AgentAccess, milo: AgentAccess
) -> None:
    foreign = sent_id(iris.call("send", to="milo", body="between us").ok())
    absent = foreign + 100_000
    answers = [
        ruth.call("send", to="iris", body="re", in_reply_to=number).error().replace(str(number), "N")
        for number in (foreign, absent)
    ]
    assert answers[0] == answers[1]
    assert "in_reply_to" in answers[0]


@pytest.mark.requirement("send.thread")
def test_a_reply_shows_the_thread(ruth: AgentAccess, iris: AgentAccess) -> None:
    question = sent_id(ruth.call("send", to="iris", body="how far?").ok())
    iris.call("recv").ok()
    iris.call("send", to="ruth", body="half way", in_reply_to=question).ok()
    [row] = rows_of(ruth.call("recv").ok())
    assert f"in reply to #{question}" in row.facts


@pytest.mark.requirement("send.broadcast")
def test_a_broadcast_makes_one_row_for_everybody_else(
    units: Units, ruth: AgentAccess, iris: AgentAccess, milo: AgentAccess
) -> None:
    assert "broadcast" in ruth.call("send", to="*", body="all hands").error()
    units.permit("ruth", add_capabilities=["broadcast"])
    try:
        lines = ruth.call("send", to="*", body="all hands").ok().splitlines()
        units.permit("ruth", add_recipients=["milo"])
        limited = ruth.call("send", to="*", body="just you").ok().splitlines()
    finally:
        units.permit("ruth", remove_capabilities=["broadcast"], clear_recipients=True)
    assert sorted(line.split(" to ")[1].split(":")[0] for line in lines) == ["iris", "milo"]
    assert len({sent_id(line) for line in lines}) == 2
    assert [line.split(" to ")[1].split(":")[0] for line in limited] == ["milo"]
    assert ids_of(ruth.call("recv").ok()) == []
    assert len(ids_of(iris.call("recv", max=5).ok())) == 1
    assert len(ids_of(milo.call("recv", max=5).ok())) == 2


@pytest.mark.requirement("send.urgent-capability")
def test_urgent_needs_its_capability(units: Units, ruth: AgentAccess, iris: AgentAccess) -> None:
    assert "urgent" in ruth.call("send", to="iris", body="fire", urgent=True).error()
    units.permit("ruth", add_capabilities=["urgent"])
    try:
        ruth.call("send", to="iris", body="fire", urgent=True).ok()
    finally:
        units.permit("ruth", remove_capabilities=["urgent"])
    [row] = rows_of(iris.call("recv").ok())
    assert "urgent" in row.facts


@pytest.mark.requirement("send.recipients")
def test_allowed_recipients_limit_whom_an_agent_may_write_to(
    units: Units, ruth: AgentAccess, milo: AgentAccess
) -> None:
    units.permit("ruth", add_recipients=["milo"])
    try:
        refusal = ruth.call("send", to="iris", body="hello").error()
        ruth.call("send", to="milo", body="hello").ok()
        ruth.call("send", to="operator", body="hello").ok()
    finally:
        units.permit("ruth", clear_recipients=True)
    assert "milo" in refusal
    assert "operator" in refusal
