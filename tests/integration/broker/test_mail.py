"""Sending, receiving and acking over HTTP, on a real database."""

from __future__ import annotations

import pytest

from tests.integration.broker.running import BOOTS, Broker, Peer

MIB = 1024 * 1024


async def test_a_message_is_handed_to_its_recipient_alone(broker: Broker, ruth: Peer, iris: Peer) -> None:
    otto = await broker.add("otto")
    result = await ruth.get("POST", "/messages", {"to": "iris", "body": "hi"})
    assert [(row["to"], row["recipient_state"]) for row in result["sent"]] == [("iris", "stopped")]
    assert await otto.recv() == []
    assert await ruth.recv() == []
    (row,) = (await iris.get("POST", "/inbox/recv", {}))["messages"]
    assert (row["sender"], row["recipient"], row["body"], row["state"]) == ("ruth", "iris", "hi", "delivered")


async def test_recv_hands_out_urgent_rows_first_then_the_oldest(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    await broker.permit("ruth", add_capabilities=["urgent"])
    first, second = await ruth.send("iris"), await ruth.send("iris")
    urgent, later_urgent = await ruth.send("iris", urgent=True), await ruth.send("iris", urgent=True)
    assert await iris.recv(3) == [urgent, later_urgent, first]
    result = await iris.get("POST", "/inbox/recv", {})
    assert [row["id"] for row in result["messages"]] == [second]
    assert result["pending"] == 0


async def test_recv_gives_one_row_by_default_and_says_how_many_wait(ruth: Peer, iris: Peer) -> None:
    for _ in range(7):
        await ruth.send("iris")
    one = await iris.get("POST", "/inbox/recv", {})
    assert (len(one["messages"]), one["pending"]) == (1, 6)
    five = await iris.get("POST", "/inbox/recv", {"max": 5})
    assert (len(five["messages"]), five["pending"]) == (5, 1)
    await iris.refused(422, "POST", "/inbox/recv", {"max": 6})


async def test_recv_stops_at_the_budget_but_always_hands_out_the_first(ruth: Peer, iris: Peer) -> None:
    ids = [await ruth.send("iris", "x" * size) for size in (5_000, 500, 200, 10)]
    assert await iris.recv(5, max_bytes=1_024) == ids[:1]
    assert await iris.recv(5, max_bytes=1_400) == ids[1:2]
    assert await iris.recv(5, max_bytes=1_400) == ids[2:]


async def test_ack_takes_all_rows_up_to_the_mark_also_unseen_ones(ruth: Peer, iris: Peer) -> None:
    ids = [await ruth.send("iris") for _ in range(4)]
    await iris.recv(1)
    assert await iris.ack(ids[2]) == {
        "acked": 3,
        "stayed": [],
        "stayed_count": 0,
        "acked_ids": ids[:3],
    }
    assert await iris.recv() == ids[3:]
    assert (await iris.ack(ids[2]))["acked"] == 0


async def test_an_urgent_row_never_causes_an_ack_of_rows_it_overtook(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    await broker.permit("ruth", add_capabilities=["urgent"])
    seen = await ruth.send("iris")
    assert await iris.recv(1) == [seen]
    overtaken = [await ruth.send("iris") for _ in range(3)]
    urgent = await ruth.send("iris", urgent=True)
    behind = await ruth.send("iris")
    assert await iris.recv(1) == [urgent]
    result = await iris.ack(behind)
    assert result["acked_ids"] == [seen, urgent, behind]
    assert (result["stayed"], result["stayed_count"]) == (overtaken, 3)
    assert await iris.recv() == overtaken
    assert (await iris.ack(behind))["acked_ids"] == overtaken


async def test_rows_overtaken_below_the_mark_stay_even_when_the_urgent_row_is_above_it(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    await broker.permit("ruth", add_capabilities=["urgent"])
    ordinary = [await ruth.send("iris") for _ in range(2)]
    await ruth.send("iris", urgent=True)
    await iris.recv(1)
    result = await iris.ack(ordinary[1])
    assert (result["acked"], result["stayed"]) == (0, ordinary)


@pytest.mark.requirement("ack.given-back")
@pytest.mark.parametrize("back", ["ids", "turn", "failed turn", "all", "next start"])
async def test_rows_given_back_count_as_unseen_when_an_urgent_row_overtakes_them(
    broker: Broker, ruth: Peer, iris: Peer, back: str
) -> None:
    await broker.permit("ruth", add_capabilities=["urgent"])
    rows = [await ruth.send("iris") for _ in range(2)]
    assert await iris.recv(2, boot=BOOTS[0], turn="t1") == rows
    boot = BOOTS[1] if back == "next start" else BOOTS[0]
    which = {"ids": {"ids": rows}, "turn": {"turn": "t1"}, "failed turn": {"turn": "t1", "failed": True}}
    if back != "next start":
        given = await iris.get("POST", "/inbox/release", which.get(back, {}))
        assert given["released"] == 2
    urgent = await ruth.send("iris", urgent=True)
    assert await iris.recv(1, boot=boot) == [urgent]
    result = await iris.ack(urgent)
    assert (result["acked_ids"], result["stayed"]) == ([urgent], rows)
    assert await iris.recv(5, boot=boot) == rows
    assert (await iris.ack(urgent))["acked_ids"] == rows


async def test_rows_given_back_are_acked_unseen_where_no_urgent_row_overtook_them(
    ruth: Peer, iris: Peer
) -> None:
    rows = [await ruth.send("iris") for _ in range(2)]
    assert await iris.recv(2) == rows
    await iris.get("POST", "/inbox/release", {"ids": rows})
    assert (await iris.ack(rows[1]))["acked_ids"] == rows


async def test_an_ack_leaves_other_inboxes_alone(broker: Broker, ruth: Peer, iris: Peer) -> None:
    otto = await broker.add("otto")
    mine, theirs = await ruth.send("iris"), await ruth.send("otto")
    await iris.recv()
    assert (await iris.ack(theirs))["acked_ids"] == [mine]
    assert await otto.recv() == [theirs]


@pytest.mark.requirement("delivery.ids")
async def test_ids_are_never_used_again(broker: Broker, ruth: Peer, iris: Peer) -> None:
    first = await ruth.send("iris")
    await iris.ack(first)
    assert await ruth.send("iris") > first


@pytest.mark.requirement("delivery.order-kept")
async def test_released_rows_come_again_in_their_old_order(broker: Broker, ruth: Peer, iris: Peer) -> None:
    await broker.permit("ruth", add_capabilities=["urgent"])
    ids = [await ruth.send("iris") for _ in range(3)]
    urgent = await ruth.send("iris", urgent=True)
    assert await iris.recv(5, turn="t1") == [urgent, *ids]
    assert await iris.get("POST", "/inbox/release", {"ids": [ids[1], 999]}) == {"released": 1, "parked": []}
    assert await iris.recv(5, turn="t2") == [ids[1]]
    assert await iris.get("POST", "/inbox/release", {"turn": "t1"}) == {"released": 3, "parked": []}
    assert await iris.recv(5, turn="t3") == [urgent, ids[0], ids[2]]
    assert await iris.get("POST", "/inbox/release", {}) == {"released": 4, "parked": []}
    await iris.ack(urgent)
    assert await iris.recv() == []


async def test_nobody_can_release_what_is_anothers(broker: Broker, ruth: Peer, iris: Peer) -> None:
    row = await ruth.send("iris")
    await iris.recv()
    assert await ruth.get("POST", "/inbox/release", {"ids": [row]}) == {"released": 0, "parked": []}


@pytest.mark.requirement("delivery.followed")
async def test_the_sender_can_follow_what_it_sent_and_nobody_else(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    row = await ruth.send("iris", "secret")
    assert (await ruth.get("GET", f"/messages/{row}"))["state"] == "pending"
    await iris.recv()
    assert (await ruth.get("GET", f"/messages/{row}"))["state"] == "delivered"
    await iris.ack(row)
    found = await ruth.get("GET", f"/messages/{row}")
    assert (found["state"], found["body"]) == ("acked", "")
    foreign = await iris.refused(404, "GET", f"/messages/{row}")
    absent = await iris.refused(404, "GET", f"/messages/{row + 1}")
    assert foreign["message"].replace(str(row), "N") == absent["message"].replace(str(row + 1), "N")


async def test_a_reply_must_be_to_a_message_one_sent_or_received(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    otto = await broker.add("otto")
    row = await ruth.send("iris")
    reply = await iris.send("ruth", in_reply_to=row)
    assert await ruth.send("iris", in_reply_to=row)
    (got,) = (await ruth.get("POST", "/inbox/recv", {}))["messages"]
    assert (got["id"], got["in_reply_to"]) == (reply, row)
    foreign = await otto.refused(404, "POST", "/messages", {"to": "iris", "body": "x", "in_reply_to": row})
    absent = await otto.refused(404, "POST", "/messages", {"to": "iris", "body": "x", "in_reply_to": 99_999})
    assert foreign["message"].replace(str(row), "N") == absent["message"].replace("99999", "N")
    assert foreign["code"] == absent["code"]


@pytest.mark.parametrize(
    ("to", "status", "words"),
    [
        ("irsi", 404, "did you mean iris"),
        ("nobody-near", 404, "you can reach: iris, operator"),
        ("ruth", 422, "is you"),
        ("system", 422, "reserved"),
        ("all", 422, "`*`"),
        ("graceful-stop", 422, "reserved"),
        ("bash", 422, "reserved"),
        ("..", 404, "no agent"),
        ("iris/..", 404, "did you mean iris"),
        ("Iris", 404, "did you mean iris"),
        ("ir\u0456s", 404, "no agent"),
        ("iris\n", 404, "iris"),
        ("x" * 10_000, 422, "to: "),
        ("", 422, "to: "),
    ],
)
async def test_a_wrong_recipient_is_refused_with_what_is_right(
    standing: Broker, to: str, status: int, words: str
) -> None:
    error = await standing.agents["ruth"].refused(status, "POST", "/messages", {"to": to, "body": "x"})
    assert words in error["message"]
    assert len(error["message"]) < 400


@pytest.mark.parametrize("body", ["", " \n", "x" * (64 * 1024 + 1), "é" * (32 * 1024 + 1), "nul\x00"])
async def test_a_body_that_cannot_be_kept_is_refused(standing: Broker, body: str) -> None:
    error = await standing.agents["ruth"].refused(422, "POST", "/messages", {"to": "iris", "body": body})
    assert error["message"].startswith("body")


async def test_a_body_of_64_kib_arrives_whole(ruth: Peer, iris: Peer) -> None:
    body = "é" * (32 * 1024)
    await ruth.send("iris", body)
    (row,) = (await iris.get("POST", "/inbox/recv", {}))["messages"]
    assert row["body"] == body


async def test_a_broadcast_needs_the_capability_and_makes_a_row_for_each_other(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    otto = await broker.add("otto")
    error = await ruth.refused(403, "POST", "/messages", {"to": "*", "body": "x"})
    assert "--add-capability broadcast" in error["message"]
    await broker.permit("ruth", add_capabilities=["broadcast"])
    sent = (await ruth.get("POST", "/messages", {"to": "*", "body": "all hands"}))["sent"]
    assert [row["to"] for row in sent] == ["iris", "otto"]
    assert [await iris.recv(), await otto.recv()] == [[row["id"]] for row in sent]
    assert await ruth.recv() == []


async def test_urgent_needs_the_capability(broker: Broker, ruth: Peer) -> None:
    error = await ruth.refused(403, "POST", "/messages", {"to": "iris", "body": "x", "urgent": True})
    assert "--add-capability urgent" in error["message"]


@pytest.mark.requirement("delivery.marked-read")
async def test_the_operator_reads_its_own_mail_and_marks_it_read(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    rows = [
        await ruth.send("operator", "one"),
        await iris.send("operator", "two"),
        await ruth.send("operator"),
    ]
    page = await broker.operator.get("GET", "/inbox?limit=2")
    assert ([row["id"] for row in page["messages"]], page["pending"], page["more"]) == (rows[1:], 3, True)
    older = await broker.operator.get("GET", f"/inbox?before={rows[1]}")
    assert ([row["id"] for row in older["messages"]], older["more"]) == (rows[:1], False)
    assert (await broker.operator.get("POST", "/inbox/ack", {"ids": [rows[0], 999]}))["acked_ids"] == rows[:1]
    assert (await broker.operator.get("POST", "/inbox/ack", {"up_to": rows[1]}))["acked"] == 1
    assert (await broker.operator.get("GET", "/inbox"))["pending"] == 1
    everything = await broker.operator.get("GET", "/inbox?include_acked=true")
    assert [row["state"] for row in everything["messages"]] == ["acked", "acked", "pending"]
    for wrong in ({}, {"ids": [1], "up_to": 1}):
        await broker.operator.refused(422, "POST", "/inbox/ack", wrong)


async def test_the_operators_look_into_an_inbox_changes_nothing(
    broker: Broker, ruth: Peer, iris: Peer
) -> None:
    row = await ruth.send("iris")
    page = await broker.operator.get("GET", "/agents/iris/inbox")
    assert [(found["id"], found["state"]) for found in page["messages"]] == [(row, "pending")]
    (got,) = (await iris.get("POST", "/inbox/recv", {}))["messages"]
    assert got["delivered_count"] == 1


async def test_operator_and_agent_share_a_thread(broker: Broker, iris: Peer) -> None:
    asked = await broker.operator.send("iris", "how is it going?")
    assert await iris.recv() == [asked]
    answered = await iris.send("operator", "well", in_reply_to=asked)
    assert await broker.operator.send("iris", "good", in_reply_to=answered)
    private = await broker.agents["ruth"].send("iris")
    await broker.operator.refused(
        404, "POST", "/messages", {"to": "iris", "body": "x", "in_reply_to": private}
    )
