"""Schedules: nothing fires that was not approved as shown; each time once, whatever happens meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from services.broker.service.due import HOLD_SECONDS
from services.broker.service.schedules import MAX_OPEN_OF_AGENT
from tests.integration.broker.running import Broker, Peer, TurnedClock, running_broker

DAY = 86_400


@pytest.fixture
async def owner(broker: Broker, iris: Peer) -> Peer:
    """iris, who may ask for schedules, with the children milo and vera below her."""
    await broker.permit("iris", add_groups=["scheduling"])
    await broker.add("milo", parent="iris")
    await broker.add("vera", parent="milo")
    return iris


async def request(agent: Peer, *, at: int, **more: Any) -> dict[str, Any]:
    body = {"targets": ["iris", "milo"], "body": "Report.", "first_fire_at_unix": at, **more}
    result: dict[str, Any] = await agent.get("POST", "/schedules", body)
    return result


async def approve(broker: Broker, schedule: dict[str, Any]) -> None:
    await broker.operator.get("POST", f"/approvals/{schedule['approval']}/approve", {})


async def active(broker: Broker, agent: Peer, **more: Any) -> dict[str, Any]:
    """An approved schedule whose first time is 100 s ahead."""
    schedule = await request(agent, at=broker.clock.now + 100, **more)
    await approve(broker, schedule)
    return await find(broker, schedule["id"])


async def find(broker: Broker, schedule_id: int) -> dict[str, Any]:
    page = await broker.operator.get("GET", "/schedules?ended=true")
    (row,) = [row for row in page["schedules"] if row["id"] == schedule_id]
    return dict(row)


async def steer(agent: Peer, schedule: dict[str, Any], verb: str, **body: Any) -> dict[str, Any]:
    path = f"/schedules/{schedule['id']}/{verb}"
    result: dict[str, Any] = await agent.get("POST", path, None if verb == "fire" else body)
    return result


async def prompts(agent: Peer) -> list[str]:
    """The bodies of what schedules sent that waits; it is acked then."""
    rows: list[dict[str, Any]] = []
    while taken := (await agent.get("POST", "/inbox/recv", {"max": 5}))["messages"]:
        rows += taken
        await agent.ack(max(row["id"] for row in taken))
    return [row["body"] for row in rows if (row["origin"] or "").startswith("schedule:")]


async def become(expected: object, ask: Callable[[], Coroutine[Any, Any, object]]) -> None:
    with anyio.fail_after(10):
        while await ask() != expected:  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def fired(broker: Broker, schedule: dict[str, Any], times: int) -> dict[str, Any]:
    """The schedule, once it has fired so many times."""

    async def count() -> object:
        return (await find(broker, schedule["id"]))["fires"]

    await become(times, count)
    return await find(broker, schedule["id"])


@pytest.mark.requirement("schedules.approved")
async def test_what_was_approved_goes_to_every_target_at_its_time(broker: Broker, owner: Peer) -> None:
    schedule = await request(owner, at=broker.clock.now + 100, description="weekly")
    assert (schedule["status"], schedule["next_fire_at"]) == ("pending", broker.clock.now + 100)
    shown = await broker.operator.get("GET", f"/approvals/{schedule['approval']}")
    assert (shown["kind"], shown["agent"]) == ("schedule_prompt", "iris")
    content = shown["content"]
    assert (content["targets"], content["body"], content["description"]) == (
        ["iris", "milo"],
        "Report.",
        "weekly",
    )
    assert (content["first_fire_at_unix"], "interval_seconds" in content) == (broker.clock.now + 100, False)
    await approve(broker, schedule)
    broker.clock.now += 99
    assert await prompts(owner) == []

    broker.clock.now += 1
    done = await fired(broker, schedule, 1)
    assert (done["status"], done["next_fire_at"]) == ("done", None)
    assert done["last_result"] == "sent to iris, milo"
    (row,) = (await broker.agents["milo"].get("POST", "/inbox/recv", {"max": 5}))["messages"]
    assert (row["sender"], row["body"], row["origin"]) == ("iris", "Report.", f"schedule:{schedule['id']}")
    assert await prompts(owner) == ["Report."]
    broker.clock.now += 10 * DAY
    await fired(broker, schedule, 1)
    assert await prompts(owner) == []


@pytest.mark.requirement("schedules.approved")
async def test_before_and_without_approval_nothing_fires(broker: Broker, owner: Peer) -> None:
    late = await request(owner, at=broker.clock.now + 10)
    never = await request(owner, at=broker.clock.now + 10, body="Never.")
    await broker.operator.get("POST", f"/approvals/{never['approval']}/deny", {"note": "no"})
    broker.clock.now += 50
    error = await owner.refused(409, "POST", f"/schedules/{late['id']}/fire")
    assert error["code"] == "not_approved"
    assert await prompts(owner) == []
    # Approved later: at once.
    await approve(broker, late)
    await fired(broker, late, 1)
    assert await prompts(owner) == ["Report."]
    assert (await find(broker, never["id"]))["status"] == "denied"
    for verb, body in (("edit", {"body": "x"}), ("cancel", {}), ("fire", None)):
        error = await owner.refused(409, "POST", f"/schedules/{never['id']}/{verb}", body)
        assert error["code"] == "schedule_ended"


@pytest.mark.requirement("schedules.catch-up")
async def test_after_an_absence_over_several_times_it_fires_once_and_keeps_its_times(
    tmp_path: Path, database: str
) -> None:
    settings, clock = {"database_url": database}, TurnedClock()
    async with running_broker(tmp_path, clock, **settings) as broker:
        ruth = await broker.add("ruth")
        await broker.permit("ruth", add_groups=["scheduling"])
        schedule = await active(broker, ruth, targets=["ruth"], interval_seconds=60)
        first = schedule["next_fire_at"]
    clock.now = first + 5 * 60 + 30
    async with running_broker(tmp_path, clock, **settings) as broker:
        peer = Peer(broker.http, "/v1/agent", ruth.token, "ruth")
        done = await fired(broker, schedule, 1)
        assert await prompts(peer) == ["Report."]
        assert done["last_result"] == "sent to ruth; 5 skipped: their times had passed"
        assert done["next_fire_at"] == first + 6 * 60
        clock.now += 30
        assert (await fired(broker, schedule, 2))["last_result"] == "sent to ruth"


@pytest.mark.requirement("schedules.clock")
async def test_a_clock_set_back_fires_nothing_twice(broker: Broker, owner: Peer) -> None:
    schedule = await active(broker, owner, targets=["iris"], interval_seconds=3_600)
    broker.clock.now += 100
    done = await fired(broker, schedule, 1)
    broker.clock.now -= 2_000
    await request(owner, at=broker.clock.now + 5)  # something to look at again
    broker.clock.now += 2_000
    assert (await find(broker, schedule["id"]))["fires"] == 1
    broker.clock.now = done["next_fire_at"]
    await fired(broker, schedule, 2)
    assert await prompts(owner) == ["Report.", "Report."]


@pytest.mark.requirement("schedules.clock")
async def test_a_change_to_summer_time_moves_no_time(
    broker: Broker, owner: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        # The night in which 02:00 becomes 03:00, and the days around it.
        start = int(datetime(2027, 3, 27, 1, 30, tzinfo=UTC).timestamp())
        broker.clock.now = start - 1_000
        schedule = await request(owner, at=start, interval_seconds=DAY, targets=["iris"])
        await approve(broker, schedule)
        for number in range(3):
            broker.clock.now = start + number * DAY - 1
            assert (await find(broker, schedule["id"]))["next_fire_at"] == start + number * DAY
            broker.clock.now += 1
            done = await fired(broker, schedule, number + 1)
            assert (done["last_fired_at"], done["last_result"]) == (start + number * DAY, "sent to iris")
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.requirement("schedules.times")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"first_fire_at_unix": 1_800_000_000}, "it is 1800000000 now"),
        ({"first_fire_at_unix": -1}, "past"),
        ({"first_fire_at_unix": 1_800_000_100.5}, "first_fire_at_unix"),
        ({"first_fire_at_unix": 1_800_000_100_000}, "not milliseconds"),
        ({"interval_seconds": 0}, "must be 60 to"),
        ({"interval_seconds": -60}, "must be 60 to"),
        ({"interval_seconds": 59}, "must be 60 to"),
        ({"interval_seconds": 10**12}, "must be 60 to"),
        ({"interval_seconds": 60.5}, "interval_seconds"),
        ({"body": "x" * 16_385}, "16384"),
        ({"body": " "}, "body"),
        ({"description": "two\nlines"}, "one line"),
        ({"targets": []}, "targets"),
        ({"targets": ["iris"] * 2}, "given twice"),
        ({"targets": [f"a{number}" for number in range(21)]}, "targets"),
    ],
)
async def test_what_no_schedule_can_be_is_refused(
    standing: Broker, change: dict[str, Any], said: str
) -> None:
    await standing.permit("iris", add_groups=["scheduling"])
    body = {"targets": ["iris"], "body": "Report.", "first_fire_at_unix": 1_800_000_100, **change}
    error = await standing.agents["iris"].refused(422, "POST", "/schedules", body)
    assert said in error["message"]


@pytest.mark.requirement("schedules.targets")
async def test_targets_are_oneself_and_agents_below_however_deep(broker: Broker, owner: Peer) -> None:
    await request(owner, at=broker.clock.now + 10, targets=["iris", "vera"])
    body = {"body": "x", "first_fire_at_unix": broker.clock.now + 10}
    error = await owner.refused(403, "POST", "/schedules", {**body, "targets": ["ruth"]})
    assert error["code"] == "not_below"
    error = await owner.refused(404, "POST", "/schedules", {**body, "targets": ["mila"]})
    assert "did you mean milo?" in error["message"]


@pytest.mark.requirement("schedules.limits")
async def test_one_open_schedule_too_many_is_refused(broker: Broker, owner: Peer) -> None:
    for _ in range(MAX_OPEN_OF_AGENT):
        last = await request(owner, at=broker.clock.now + 10)
    body = {"targets": ["iris"], "body": "x", "first_fire_at_unix": broker.clock.now + 10}
    assert (await owner.refused(429, "POST", "/schedules", body))["code"] == "too_many_schedules"
    await steer(owner, last, "cancel")
    last = await request(owner, at=broker.clock.now + 10)

    # One that has fired and would be revived by an edit that waits is as good as open.
    await steer(owner, last, "cancel")
    once = await active(broker, owner, targets=["iris"])
    await steer(owner, once, "edit", interval_seconds=60)
    assert (await steer(owner, once, "fire"))["status"] == "done"
    assert (await owner.refused(429, "POST", "/schedules", body))["code"] == "too_many_schedules"


@pytest.mark.requirement("schedules.limits")
async def test_a_description_that_is_too_long_is_said_in_characters(broker: Broker, owner: Peer) -> None:
    body = {"targets": ["iris"], "body": "x", "first_fire_at_unix": broker.clock.now + 10}
    refused = await owner.refused(422, "POST", "/schedules", {**body, "description": "x" * 201})
    assert "at most 200 characters" in refused["message"]


@pytest.mark.requirement("planning.broker-enforces")
async def test_without_the_group_nothing_of_it_works(broker: Broker, owner: Peer) -> None:
    schedule = await active(broker, owner)
    await broker.permit("iris", remove_groups=["scheduling"])
    for method, path, body in (
        ("POST", "/schedules", {"targets": ["iris"], "body": "x", "first_fire_at_unix": 1_900_000_000}),
        ("GET", "/schedules", None),
        ("POST", f"/schedules/{schedule['id']}/edit", {"body": "x"}),
        ("POST", f"/schedules/{schedule['id']}/cancel", {}),
        ("POST", f"/schedules/{schedule['id']}/fire", None),
    ):
        assert "`scheduling`" in (await owner.refused(403, method, path, body))["message"]


@pytest.mark.requirement("schedules.edits")
@pytest.mark.parametrize(
    "change",
    [
        {"body": "Something else."},
        {"targets": ["iris", "milo", "vera"]},
        {"interval_seconds": 3_599},
        {"first_fire_at_unix": 1_800_000_099},
    ],
)
async def test_an_edit_that_does_more_changes_nothing_until_it_is_approved(
    broker: Broker, owner: Peer, change: dict[str, Any]
) -> None:
    before = await active(broker, owner, interval_seconds=3_600)
    waiting = await steer(owner, before, "edit", **change)
    assert {**waiting, "approval": None} == before
    content = (await broker.operator.get("GET", f"/approvals/{waiting['approval']}"))["content"]
    assert (content["schedule"], content["edit"]) == (before["id"], True)
    broker.clock.now += 100
    await fired(broker, before, 1)
    assert await prompts(owner) == ["Report."]
    assert await prompts(broker.agents["vera"]) == []

    await approve(broker, waiting)
    after = await find(broker, before["id"])
    assert (after["status"], after["approval"]) == ("active", None)
    assert {
        "body": after["body"],
        "targets": [target["name"] for target in after["targets"]],
        "interval_seconds": after["interval_seconds"],
    } == {"body": "Report.", "targets": ["iris", "milo"], "interval_seconds": 3_600} | {
        key: value for key, value in change.items() if key != "first_fire_at_unix"
    }


@pytest.mark.requirement("schedules.edits")
async def test_an_edit_that_does_less_counts_at_once(broker: Broker, owner: Peer) -> None:
    schedule = await active(broker, owner, interval_seconds=3_600)
    later = schedule["next_fire_at"] + 50
    done = await steer(
        owner, schedule, "edit", targets=["milo"], one_shot=True, first_fire_at_unix=later, description="d"
    )
    assert (done["approval"], done["interval_seconds"], done["next_fire_at"]) == (None, None, later)
    assert done["description"] == "d"
    # Again a target that was approved before: its cancellation is cleared.
    done = await steer(owner, schedule, "edit", targets=["iris", "milo"])
    assert (done["approval"], [one["cancelled"] for one in done["targets"]]) == (None, [False, False])
    assert (await broker.operator.get("GET", "/approvals"))["approvals"] == []
    broker.clock.now = later
    assert (await fired(broker, schedule, 1))["status"] == "done"


@pytest.mark.requirement("schedules.edits", "approvals.pinned")
async def test_an_edit_of_what_waits_is_asked_anew_and_the_old_question_is_dead(
    broker: Broker, owner: Peer
) -> None:
    first = await request(owner, at=broker.clock.now + 100)
    second = await steer(owner, first, "edit", body="Second.")
    third = await steer(owner, first, "edit", targets=["iris"])
    assert len({one["approval"] for one in (first, second, third)}) == 3
    for old in (first, second):
        error = await broker.operator.refused(409, "POST", f"/approvals/{old['approval']}/approve", {})
        assert "was cancelled" in error["message"]
    shown = await broker.operator.get("GET", f"/approvals/{first['approval']}")
    assert shown["content"]["body"] == "Report.", "what was submitted is kept"
    await approve(broker, third)
    broker.clock.now += 100
    await fired(broker, first, 1)
    assert await prompts(owner) == ["Second."]
    assert await prompts(broker.agents["milo"]) == []


@pytest.mark.requirement("schedules.edits")
async def test_a_denied_edit_leaves_what_was_approved(broker: Broker, owner: Peer) -> None:
    schedule = await active(broker, owner)
    waiting = await steer(owner, schedule, "edit", body="Worse.")
    await broker.operator.get("POST", f"/approvals/{waiting['approval']}/deny", {})
    assert await find(broker, schedule["id"]) == schedule
    error = await owner.refused(
        422,
        "POST",
        f"/schedules/{schedule['id']}/edit",
        {"one_shot": True, "interval_seconds": 60},
    )
    assert "one of the two" in error["message"]


@pytest.mark.requirement("schedules.cancel")
async def test_a_schedule_is_cancelled_for_some_targets_or_for_good(broker: Broker, owner: Peer) -> None:
    schedule = await active(broker, owner, interval_seconds=60)
    error = await owner.refused(404, "POST", f"/schedules/{schedule['id']}/cancel", {"targets": ["vera"]})
    assert "It goes to: iris, milo" in error["message"]
    done = await steer(owner, schedule, "cancel", targets=["milo"])
    assert [(one["name"], one["cancelled"]) for one in done["targets"]] == [("iris", False), ("milo", True)]
    broker.clock.now += 100
    await fired(broker, schedule, 1)
    assert (await prompts(owner), await prompts(broker.agents["milo"])) == (["Report."], [])

    assert (await steer(owner, schedule, "cancel", targets=["iris"]))["status"] == "cancelled"
    broker.clock.now += 1_000
    assert await prompts(owner) == []
    await owner.refused(409, "POST", f"/schedules/{schedule['id']}/edit", {"targets": ["iris"]})


@pytest.mark.requirement("schedules.cancel")
async def test_what_was_cancelled_while_it_waited_cannot_be_approved(broker: Broker, owner: Peer) -> None:
    whole = await request(owner, at=broker.clock.now + 100)
    await steer(owner, whole, "cancel")
    await broker.operator.refused(409, "POST", f"/approvals/{whole['approval']}/approve", {})
    part = await request(owner, at=broker.clock.now + 100)
    left = await steer(owner, part, "cancel", targets=["milo"])
    await broker.operator.refused(409, "POST", f"/approvals/{part['approval']}/approve", {})
    content = (await broker.operator.get("GET", f"/approvals/{left['approval']}"))["content"]
    assert content["targets"] == ["iris"]
    assert await prompts(owner) == [], "nobody is told of what they did themselves"


@pytest.mark.requirement("schedules.fire-now")
async def test_a_fire_by_hand_is_beside_the_times_of_a_recurring_one_and_consumes_a_single_one(
    broker: Broker, owner: Peer
) -> None:
    recurring = await active(broker, owner, interval_seconds=60, targets=["iris"])
    once = await active(broker, owner, targets=["iris"], body="Once.")
    done = await steer(owner, recurring, "fire")
    assert (done["status"], done["next_fire_at"]) == ("active", recurring["next_fire_at"])
    assert (await steer(owner, once, "fire"))["status"] == "done"
    assert await prompts(owner) == ["Report.", "Once."]
    broker.clock.now += 100
    await fired(broker, recurring, 2)
    assert await prompts(owner) == ["Report."]
    await owner.refused(409, "POST", f"/schedules/{once['id']}/fire")


@pytest.mark.requirement("schedules.fire-now")
async def test_a_repeat_under_its_key_fires_nothing_twice(broker: Broker, owner: Peer) -> None:
    schedule = await active(broker, owner, interval_seconds=60, targets=["iris"])
    key = {"Idempotency-Key": "one"}
    for _ in range(2):
        await owner.get("POST", f"/schedules/{schedule['id']}/fire", headers=key)
    assert await prompts(owner) == ["Report."]
    other = await active(broker, owner, interval_seconds=60, targets=["iris"])
    await owner.refused(409, "POST", f"/schedules/{other['id']}/fire", headers=key)


@pytest.mark.requirement("schedules.fire-now")
async def test_fires_by_hand_count_for_the_limit_of_a_pair(tmp_path: Path) -> None:
    async with running_broker(tmp_path, pair_per_minute=2) as broker:
        ruth = await broker.add("ruth")
        await broker.permit("ruth", add_groups=["scheduling"])
        schedule = await active(broker, ruth, targets=["ruth"], interval_seconds=60)
        for _ in range(2):
            await steer(ruth, schedule, "fire")
        error = await ruth.refused(429, "POST", f"/schedules/{schedule['id']}/fire")
        assert error["code"] == "pair_too_fast"
        assert len(await prompts(ruth)) == 2


@pytest.mark.requirement("schedules.own")
async def test_those_above_steer_it_and_nobody_else_does(broker: Broker, owner: Peer, ruth: Peer) -> None:
    schedule = await active(broker, owner, interval_seconds=60)
    for name in ("ruth", "milo"):
        await broker.permit(name, add_groups=["scheduling"])
    milo = broker.agents["milo"]
    for number in (schedule["id"], 999):
        for verb, body in (("edit", {"description": "x"}), ("cancel", {}), ("fire", None)):
            error = await milo.refused(404, "POST", f"/schedules/{number}/{verb}", body)
            assert f"a schedule #{number}; nothing was changed" in error["message"]
    assert await find(broker, schedule["id"]) == schedule
    assert (await milo.get("GET", "/schedules"))["schedules"] == []
    assert [row["id"] for row in (await ruth.get("GET", "/schedules"))["schedules"]] == [schedule["id"]]
    assert (await steer(ruth, schedule, "edit", description="hers"))["description"] == "hers"
    assert (await steer(ruth, schedule, "cancel"))["status"] == "cancelled"
    assert [row["status"] for row in (await owner.get("GET", "/schedules"))["schedules"]] == ["cancelled"]


@pytest.mark.requirement("schedules.full-inbox")
async def test_a_full_inbox_gets_it_when_there_is_room_and_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_pending=2) as broker:
        ruth, iris = await broker.add("ruth"), await broker.add("iris", parent="ruth")
        await broker.permit("ruth", add_groups=["scheduling"])
        schedule = await active(broker, ruth, targets=["ruth", "iris"], interval_seconds=60)
        await prompts(ruth)
        for _ in range(2):
            await broker.operator.send("iris", "full")
        broker.clock.now += 100
        done = await fired(broker, schedule, 1)
        assert done["last_result"] == "sent to ruth; waits for room in the inbox of iris"
        broker.clock.now += 60
        done = await fired(broker, schedule, 2)
        assert "dropped for iris, where the one before still waits" in done["last_result"]
        received = await prompts(iris)  # There is room now.
        broker.clock.now += HOLD_SECONDS

        async def come() -> object:
            received.extend(await prompts(iris))
            return received

        await become(["Report."], come)
        broker.clock.now += HOLD_SECONDS
        await fired(broker, schedule, 2)
        assert await come() == ["Report."]
        assert await prompts(ruth) == ["Report.", "Report."]


@pytest.mark.requirement("identity.reborn")
async def test_schedules_end_with_their_owner_and_skip_targets_that_are_gone(
    broker: Broker, owner: Peer, ruth: Peer
) -> None:
    async def destroy(name: str) -> None:
        agent_id = (await broker.operator.get("GET", f"/agents/{name}"))["id"]
        event = {"event_id": name, "kind": "destroyed", "at": broker.clock.now, "agent_id": agent_id}
        await broker.operator.get("POST", "/driver/events", {"driver_id": "d", "events": [event]})

    schedule = await active(broker, owner, interval_seconds=60)
    await destroy("milo")
    reborn = await broker.add("milo", parent="iris")
    broker.clock.now += 100
    done = await fired(broker, schedule, 1)
    assert done["last_result"] == "sent to iris; milo was destroyed"
    assert await prompts(reborn) == []
    await destroy("iris")
    done = await find(broker, schedule["id"])
    assert (done["status"], done["last_result"]) == ("cancelled", "iris was destroyed")
    again = await broker.add("iris", parent="ruth")
    await broker.permit("iris", add_groups=["scheduling"])
    assert (await again.get("GET", "/schedules"))["schedules"] == []
    await again.refused(404, "POST", f"/schedules/{schedule['id']}/fire")


@pytest.mark.requirement("planning.operator-sees")
async def test_the_operator_sees_open_ones_and_with_ended_all(broker: Broker, owner: Peer) -> None:
    first, second = await active(broker, owner), await active(broker, owner, body="Other.")
    await steer(owner, first, "cancel")
    page = await broker.operator.get("GET", "/schedules?agent=iris")
    assert [row["id"] for row in page["schedules"]] == [second["id"]]
    page = await broker.operator.get("GET", "/schedules?ended=true&limit=1")
    assert ([row["id"] for row in page["schedules"]], page["more"]) == ([second["id"]], True)
    await broker.operator.refused(404, "GET", "/schedules?agent=nobody")
