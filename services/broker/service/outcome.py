"""What became of a fire, as `last_result` says it; also of what had to wait, once it waits no more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, Literal

from services.broker.store import Tx
from services.broker.store.schedules import ScheduleRow

MAX_RESULT_CHARS: Final = 1_000

Fate = Literal["delivered", "withdrawn", "gone"]

# Names of agents stand between the two, so what was written can be read again.
_PARTS: Final = {
    "delivered": ("sent to ", ""),
    "held": ("waits for room in the inbox of ", ""),
    "still_held": ("dropped for ", ", where the one before still waits for room"),
    "dropped": ("dropped for ", ", where the one before waited for room"),
    "withdrawn": ("withdrawn for ", ""),
    "gone": ("", " was destroyed"),
}
_SKIPPED: Final = " skipped: their times had passed"


@dataclass
class Outcome:
    """What became of one fire, by the names of the targets."""

    delivered: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    still_held: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    skipped: int = 0

    @classmethod
    def read(cls, result: str) -> Outcome:
        """The one that was written as `result`."""
        outcome = cls()
        for part in result.split("; "):
            if part.endswith(_SKIPPED):
                outcome.skipped = int(part.removesuffix(_SKIPPED))
                continue
            for name, (before, after) in _PARTS.items():
                if part.startswith(before) and part.endswith(after):
                    names = part.removeprefix(before).removesuffix(after)
                    outcome._names(name).extend(names.split(", "))
                    break
        return outcome

    def __str__(self) -> str:
        parts = [
            before + ", ".join(names) + after
            for name, (before, after) in _PARTS.items()
            if (names := self._names(name))
        ]
        if self.skipped:
            parts.append(f"{self.skipped}{_SKIPPED}")
        return "; ".join(parts)[:MAX_RESULT_CHARS] or "sent to nobody"

    def end_wait(self, name: str, fate: Fate) -> None:
        """What waited for this agent waits no more; a later fire that was dropped for it stays so."""
        if name in self.held:
            self.held.remove(name)
            self._names(fate).append(name)
        elif name in self.still_held:
            self.still_held.remove(name)
            self.dropped.append(name)

    def _names(self, part: str) -> list[str]:
        names: list[str] = getattr(self, part)
        return names


def end_waits(tx: Tx, schedule_id: int, agent_ids: Collection[int], fate: Fate) -> None:
    """Hold nothing of a schedule for these any more, and have its `last_result` say what came of it."""
    row = tx.schedules.find(schedule_id)
    waiting = set(tx.held_fires.list_agents(schedule_id)) & set(agent_ids)
    if row is None or not waiting:
        return
    tx.held_fires.delete_of(schedule_id, waiting)
    outcome = Outcome.read(row.last_result or "")
    for agent_id in waiting:
        if (agent := tx.agents.find(agent_id)) is not None:
            outcome.end_wait(agent.name, fate)
    tx.schedules.update(schedule_id, last_result=str(outcome))


def list_waiting(tx: Tx, row: ScheduleRow) -> dict[int, str]:
    """For whom something of a schedule waits for room: ids with names."""
    waiting = set(tx.held_fires.list_agents(row.id))
    return {one.agent_id: one.name for one in row.targets if one.agent_id in waiting}
