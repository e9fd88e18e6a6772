"""Schedules that have fired for the last time: what still waits then, for an approval or for room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import text

from services.broker.migrations.versions import r0013_consumed
from services.broker.service.due import HOLD_SECONDS
from services.broker.store.engine import build_engine, parse_url
from tests.integration.broker.running import Broker, Peer, running_broker
from tests.integration.broker.test_schedules import (
    active,
    approve,
    become,
    find,
    fired,
    owner,
    prompts,
    request,
    steer,
)

__all__ = ["owner"]


async def told(agent: Peer) -> list[dict[str, Any]]:
    """What `system` told it that waits; all is acked then."""
    rows = (await agent.get("POST", "/inbox/recv", {"max": 5}))["messages"]
    await agent.ack(max(row["id"] for row in rows))
    return [json.loads(row["body"]) for row in rows if row["sender"] == "system"]


@pytest.mark.requirement("schedules.consumed")
@pytest.mark.parametrize("by_hand", [False, True])
async def test_an_edit_that_waits_when_the_only_fire_comes_is_cancelled(
    broker: Broker, owner: Peer, by_hand: bool
) -> None:
    once = await active(broker, owner, targets=["iris"])
    await told(owner)
    waiting = await steer(owner, once, "edit", body="Second.")
    if by_hand:
        await steer(owner, once, "fire")
    else:
        broker.clock.now += 100
    done = await fired(broker, once, 1)
    assert (done["status"], done["approval"], done["next_fire_at"]) == ("done", None, None)
    (event,) = await told(owner)
    assert (event["id"], event["status"]) == (waiting["approval"], "cancelled")
    assert "has fired meanwhile" in event["note"]
    error = await broker.operator.refused(409, "POST", f"/approvals/{waiting['approval']}/approve", {})
    assert "2027-01-15 08:0" in error["message"]
    assert "UTC by system" in error["message"]
    assert await find(broker, once["id"]) == done


@pytest.mark.requirement("schedules.consumed")
async def test_an_edit_to_another_time_or_to_several_revives_it_once_approved(
    broker: Broker, owner: Peer
) -> None:
    start = broker.clock.now
    later = await active(broker, owner, targets=["iris"])
    again = await active(broker, owner, targets=["iris"])
    by_hand = await active(broker, owner, targets=["iris"])
    edits = [
        await steer(owner, later, "edit", body="Later.", first_fire_at_unix=start + 500),
        await steer(owner, again, "edit", body="Again.", interval_seconds=60),
        await steer(owner, by_hand, "edit", body="By hand.", interval_seconds=60),
    ]
    await steer(owner, by_hand, "fire")
    broker.clock.now += 110
    await fired(broker, later, 1)
    await fired(broker, again, 1)
    await prompts(owner)
    for edit in edits:
        await approve(broker, edit)
    rows = [await find(broker, edit["id"]) for edit in edits[:2]]
    assert [(row["status"], row["next_fire_at"]) for row in rows] == [
        ("active", start + 500),
        ("active", start + 160),
    ]
    # The time that was shown had not come when it was fired by hand, and has passed by now: at once.
    assert (await fired(broker, by_hand, 2))["next_fire_at"] == start + 160
    assert await prompts(owner) == ["By hand."]
    broker.clock.now = start + 160
    await fired(broker, again, 2)
    await fired(broker, by_hand, 3)
    assert sorted(await prompts(owner)) == ["Again.", "By hand."]


@pytest.mark.requirement("schedules.consumed")
async def test_what_waits_to_revive_one_is_withdrawn_with_it(broker: Broker, owner: Peer) -> None:
    once = await active(broker, owner, targets=["iris", "milo"])
    waiting = await steer(owner, once, "edit", interval_seconds=60)
    await steer(owner, once, "fire")
    narrowed = await steer(owner, once, "cancel", targets=["milo"])
    assert (narrowed["status"], narrowed["approval"] != waiting["approval"]) == ("done", True)
    content = (await broker.operator.get("GET", f"/approvals/{narrowed['approval']}"))["content"]
    assert (content["targets"], content["edit"]) == (["iris"], True)
    assert content["first_fire_at_unix"] == once["next_fire_at"]
    done = await steer(owner, once, "cancel")
    assert (done["status"], done["approval"]) == ("done", None)
    await broker.operator.refused(409, "POST", f"/approvals/{narrowed['approval']}/approve", {})
    assert (await owner.refused(409, "POST", f"/schedules/{once['id']}/cancel", {}))["code"] == (
        "schedule_ended"
    )


@pytest.mark.requirement("planning.operator-cancels")
async def test_the_operator_ends_a_schedule_of_anybody_once(broker: Broker, owner: Peer) -> None:
    recurring = await active(broker, owner, targets=["iris"], interval_seconds=60)
    await told(owner)
    path = f"/schedules/{recurring['id']}/cancel"
    ended = await broker.operator.get("POST", path)
    assert (ended["status"], ended["next_fire_at"]) == ("cancelled", None)
    assert ended["last_result"] == "cancelled by the operator"
    assert (await broker.operator.refused(409, "POST", path))["code"] == "schedule_ended"
    await broker.operator.refused(404, "POST", "/schedules/999/cancel")
    await owner.refused(409, "POST", path, {})
    broker.clock.now += 1_000
    assert await prompts(owner) == []


@pytest.mark.requirement("planning.operator-cancels")
async def test_what_waits_for_the_operator_goes_with_it_and_who_asked_is_told(
    broker: Broker, owner: Peer
) -> None:
    asked = await request(owner, at=broker.clock.now + 60, targets=["iris"])
    ended = await broker.operator.get("POST", f"/schedules/{asked['id']}/cancel")
    assert (ended["status"], ended["approval"]) == ("cancelled", None)
    (event,) = await told(owner)
    assert (event["id"], event["status"]) == (asked["approval"], "cancelled")
    assert event["note"] == f"schedule {asked['id']} was cancelled by the operator"
    approval = await broker.operator.get("GET", f"/approvals/{asked['approval']}")
    assert (approval["status"], approval["decided_by"]) == ("cancelled", "operator")

    once = await active(broker, owner, targets=["iris"])
    waiting = await steer(owner, once, "edit", interval_seconds=60)
    await steer(owner, once, "fire")
    done = await broker.operator.get("POST", f"/schedules/{once['id']}/cancel")
    assert (done["status"], done["approval"]) == ("done", None)
    await broker.operator.refused(409, "POST", f"/approvals/{waiting['approval']}/approve", {})
    await broker.operator.refused(409, "POST", f"/schedules/{once['id']}/cancel")


@pytest.mark.requirement("schedules.consumed")
async def test_what_an_older_version_left_active_for_ever_is_done(tmp_path: Path, database: str) -> None:
    async with running_broker(tmp_path, database_url=database) as broker:
        ruth = await broker.add("ruth")
        await broker.permit("ruth", add_groups=["scheduling"])
        schedule = await active(broker, ruth, targets=["ruth"])
        edited = await steer(ruth, await active(broker, ruth, targets=["ruth"]), "edit", body="Late.")
    engine = build_engine(parse_url(database))
    with engine.begin() as connection:
        connection.execute(text("UPDATE schedules SET next_fire_at = NULL"))
        with Operations.context(MigrationContext.configure(connection)):
            r0013_consumed.upgrade()
    engine.dispose()
    async with running_broker(tmp_path, database_url=database) as broker:
        assert (await find(broker, schedule["id"]))["status"] == "done"
        # Nor does the edit that waits make it active again.
        await approve(broker, edited)
        row = await find(broker, edited["id"])
        assert (row["status"], row["approval"], row["next_fire_at"]) == ("done", None, None)


@pytest.mark.requirement("schedules.approved")
async def test_an_edit_shows_when_it_fires_also_when_it_moves_no_time(broker: Broker, owner: Peer) -> None:
    schedule = await active(broker, owner, targets=["iris"], interval_seconds=60)
    waiting = await steer(owner, schedule, "edit", body="Other.")
    content = (await broker.operator.get("GET", f"/approvals/{waiting['approval']}"))["content"]
    assert (content["first_fire_at_unix"], content["keeps_times"]) == (schedule["next_fire_at"], True)
    broker.clock.now += 100
    after = await fired(broker, schedule, 1)
    await approve(broker, waiting)
    # No time that has passed is fired again.
    assert (await find(broker, schedule["id"]))["next_fire_at"] == after["next_fire_at"]
    asked = await request(owner, at=broker.clock.now + 5)
    content = (await broker.operator.get("GET", f"/approvals/{asked['approval']}"))["content"]
    assert "keeps_times" not in content


@pytest.mark.requirement("schedules.full-inbox")
async def test_what_waits_for_room_is_withdrawn_or_said_to_have_come(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_pending=2) as broker:
        ruth = await broker.add("ruth")
        full = [await broker.add(name, parent="ruth") for name in ("iris", "milo")]
        await broker.permit("ruth", add_groups=["scheduling"])
        once = await active(broker, ruth, targets=["ruth", "iris", "milo"])
        for peer in full:
            for _ in range(2):
                await broker.operator.send(peer.name, "full")
        broker.clock.now += 100
        done = await fired(broker, once, 1)
        assert done["last_result"] == "sent to ruth; waits for room in the inbox of iris, milo"
        error = await ruth.refused(404, "POST", f"/schedules/{once['id']}/cancel", {"targets": ["ruth"]})
        assert "It goes to: iris, milo" in error["message"]
        left = await steer(ruth, once, "cancel", targets=["iris"])
        said = "sent to ruth; waits for room in the inbox of milo; withdrawn for iris"
        assert (left["status"], left["last_result"]) == ("done", said)
        for peer in full:
            await prompts(peer)
        broker.clock.now += HOLD_SECONDS

        async def result() -> object:
            return (await find(broker, once["id"]))["last_result"]

        await become("sent to ruth, milo; withdrawn for iris", result)
        assert [await prompts(peer) for peer in full] == [[], ["Report."]]
        await ruth.refused(409, "POST", f"/schedules/{once['id']}/cancel", {})


@pytest.mark.requirement("schedules.full-inbox")
async def test_it_is_said_what_came_of_a_wait_when_a_later_fire_was_dropped_or_the_target_is_gone(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, max_pending=1) as broker:
        ruth = await broker.add("ruth")
        iris, milo = [await broker.add(name, parent="ruth") for name in ("iris", "milo")]
        await broker.permit("ruth", add_groups=["scheduling"])
        often = await active(broker, ruth, targets=["iris"], interval_seconds=60)
        once = await active(broker, ruth, targets=["milo"])
        for peer in (iris, milo):
            await broker.operator.send(peer.name, "full")
        for times in (1, 2):
            broker.clock.now += 100 if times == 1 else 60
            await fired(broker, often, times)
        assert (await fired(broker, once, 1))["last_result"] == "waits for room in the inbox of milo"
        await prompts(iris)
        broker.clock.now += HOLD_SECONDS

        async def result() -> object:
            return (await find(broker, often["id"]))["last_result"]

        await become("dropped for iris, where the one before waited for room", result)
        assert await prompts(iris) == ["Report."]
        agent_id = (await broker.operator.get("GET", "/agents/milo"))["id"]
        event = {"event_id": "1", "kind": "destroyed", "at": broker.clock.now, "agent_id": agent_id}
        await broker.operator.get("POST", "/driver/events", {"driver_id": "d", "events": [event]})
        assert (await find(broker, once["id"]))["last_result"] == "milo was destroyed"
