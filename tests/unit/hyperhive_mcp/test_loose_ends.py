"""Loose ends from sources of which any may fail, hang or refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import pytest

from services.hyperhive_mcp.service.loose_ends import LooseEndService
from shared.errors import Forbidden, HiveError, InvalidInput
from shared.wire.loose_ends import LooseEnd


@dataclass
class Source:
    """Answers with one row a kind, or with what is wrong."""

    kinds: tuple[str, ...]
    error: HiveError | None = None
    hangs: bool = False
    cancelled: list[int] = field(default_factory=list)

    @property
    def cancellable(self) -> tuple[str, ...]:
        return self.kinds

    async def list(self) -> Sequence[LooseEnd]:
        if self.error is not None:
            raise self.error
        if self.hangs:
            await anyio.sleep_forever()
        return [LooseEnd(kind=kind, id=1) for kind in self.kinds]

    async def cancel(self, kind: str, number: int) -> str:
        self.cancelled.append(number)
        return f"{kind} #{number} is gone"


@pytest.mark.requirement("loose-ends.source-down")
async def test_what_fails_or_hangs_is_named_and_the_rest_is_there() -> None:
    damaged = HiveError("the store of todos is damaged", code="storage_failed")
    service = LooseEndService(
        [Source(("todo",), error=damaged), Source(("task", "matrix"), hangs=True), Source(("reminder",))],
        source_seconds=0.05,
    )
    with anyio.fail_after(5):
        found = await service.list()
    assert [row.kind for row in found.loose_ends] == ["reminder"]
    assert found.unavailable == ["todo", "task", "matrix"]


async def test_a_refusal_is_no_outage() -> None:
    service = LooseEndService([Source(("todo",)), Source(("reminder",), error=Forbidden("no group"))])
    with pytest.raises(Forbidden, match="no group"):
        await service.list()


@pytest.mark.requirement("loose-ends.cancel")
async def test_the_source_of_the_kind_cancels_and_no_other() -> None:
    todos, reminders = Source(("todo",)), Source(("reminder",))
    service = LooseEndService([todos, reminders])
    assert await service.cancel("reminder", 7) == "reminder #7 is gone"
    assert (todos.cancelled, reminders.cancelled) == ([], [7])
    with pytest.raises(InvalidInput, match="These can: reminder, todo"):
        await service.cancel("to\ndo", 7)
