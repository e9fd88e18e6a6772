"""What an agent is told of when a schedule fires."""

from __future__ import annotations

from services.hyperhive_mcp.service.schedules import _describe
from shared.wire.schedules import Schedule, ScheduleStatus, ScheduleTarget


def one(**fields: object) -> Schedule:
    known = {"id": 3, "owner": "iris", "status": ScheduleStatus.DONE, "body": "b", "created_at": 1}
    return Schedule.model_validate({**known, "targets": [ScheduleTarget(name="milo")], **fields})


def test_one_that_is_over_says_so_unless_an_edit_may_revive_it() -> None:
    assert _describe(one()) == "It fires no more."
    assert _describe(one(approval=7)) == (
        "It fires again only once the operator approves what waits (approval #7)."
    )
    assert "then every 60 s, to milo" in _describe(one(next_fire_at=1_800_000_000, interval_seconds=60))
