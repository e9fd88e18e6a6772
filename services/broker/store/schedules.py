"""Schedules, their targets, and fires that full inboxes could not take yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, literal_column, or_, select, update

from services.broker.tables import agents, held_fires, schedule_targets, schedules
from shared.wire.schedules import Schedule, ScheduleStatus, ScheduleTarget

_IS_OPEN = schedules.c.status.in_([ScheduleStatus.PENDING.value, ScheduleStatus.ACTIVE.value])
# As a literal, so that the planner sees that the partial index fits.
_IS_ACTIVE = schedules.c.status == literal_column(f"'{ScheduleStatus.ACTIVE.value}'")
_ROWS = select(schedules, agents.c.name.label("owner")).join_from(
    schedules, agents, schedules.c.owner_id == agents.c.id
)


@dataclass(frozen=True, slots=True)
class Target:
    """An agent to which a schedule goes, destroyed or not."""

    agent_id: int
    name: str
    is_cancelled: bool


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """One schedule with all that was approved for it."""

    id: int
    owner_id: int
    owner: str
    status: ScheduleStatus
    body: str
    description: str | None
    next_fire_at: int | None
    interval_seconds: int | None
    created_at: int
    last_fired_at: int | None
    fires: int
    last_result: str | None
    approval_id: int | None
    targets: tuple[Target, ...]

    def show(self) -> Schedule:
        """As it travels."""
        return Schedule(
            id=self.id,
            owner=self.owner,
            status=self.status,
            targets=[ScheduleTarget(name=one.name, cancelled=one.is_cancelled) for one in self.targets],
            body=self.body,
            description=self.description,
            next_fire_at=self.next_fire_at,
            interval_seconds=self.interval_seconds,
            created_at=self.created_at,
            last_fired_at=self.last_fired_at,
            fires=self.fires,
            last_result=self.last_result,
            approval=self.approval_id,
        )


class ScheduleRows:
    """Reads and changes schedules and their targets."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, *, owner_id: int, created_at: int, **definition: object) -> int:
        """Store a pending one; returns its id."""
        values = {
            "owner_id": owner_id,
            "status": ScheduleStatus.PENDING.value,
            "created_at": created_at,
            "fires": 0,
            **definition,
        }
        key = self._connection.execute(insert(schedules), values).inserted_primary_key
        assert key is not None
        return int(key[0])

    def update(self, schedule_id: int, **values: object) -> None:
        """Set columns."""
        self._connection.execute(update(schedules).where(schedules.c.id == schedule_id).values(**values))

    def find(self, schedule_id: int) -> ScheduleRow | None:
        """One of anybody's."""
        return next(iter(self._load(_ROWS.where(schedules.c.id == schedule_id))), None)

    def count_open(self, owner_id: int) -> int:
        """How many of the agent's are pending or active, or would be once an edit that waits is approved."""
        own = schedules.c.owner_id == owner_id
        counted = or_(_IS_OPEN, schedules.c.approval_id.is_not(None))
        return self._connection.scalar(select(func.count()).select_from(schedules).where(own, counted)) or 0

    def list_page(self, *, owner_ids: Collection[int] | None, ended: bool, limit: int) -> list[ScheduleRow]:
        """The newest `limit`, of some owners or of all: open ones, with `ended` all; newest first."""
        query = _ROWS.order_by(schedules.c.id.desc()).limit(limit)
        if not ended:
            query = query.where(_IS_OPEN)
        if owner_ids is not None:
            query = query.where(schedules.c.owner_id.in_(owner_ids))
        return self._load(query)

    def list_due(self, now: int, *, limit: int) -> list[ScheduleRow]:
        """Active ones whose time has come, the longest due first."""
        due = _ROWS.where(_IS_ACTIVE, schedules.c.next_fire_at <= now)
        return self._load(due.order_by(schedules.c.next_fire_at, schedules.c.id).limit(limit))

    def find_next(self) -> int | None:
        """When the next active one is due."""
        query = select(func.min(schedules.c.next_fire_at)).where(_IS_ACTIVE)
        found: int | None = self._connection.scalar(query)
        return found

    def set_targets(self, schedule_id: int, agent_ids: Iterable[int]) -> None:
        """Have exactly these, none of them cancelled; what was approved before is forgotten."""
        self._connection.execute(
            delete(schedule_targets).where(schedule_targets.c.schedule_id == schedule_id)
        )
        rows = [{"schedule_id": schedule_id, "agent_id": agent_id} for agent_id in agent_ids]
        if rows:
            self._connection.execute(insert(schedule_targets), rows)

    def cancel_targets(self, schedule_id: int, agent_ids: Collection[int], *, at: int) -> None:
        """Leave these out from now on."""
        self._mark(schedule_id, agent_ids, cancelled_at=at)

    def restore_targets(self, schedule_id: int, agent_ids: Collection[int]) -> None:
        """Have these again that were left out."""
        self._mark(schedule_id, agent_ids, cancelled_at=None)

    def cancel_all(self, owner_id: int, *, reason: str) -> None:
        """End all open ones of an agent that is no more."""
        self._connection.execute(
            update(schedules)
            .where(schedules.c.owner_id == owner_id, _IS_OPEN)
            .values(
                status=ScheduleStatus.CANCELLED.value, next_fire_at=None, approval_id=None, last_result=reason
            )
        )
        # An edit may wait that would revive one that has fired.
        asked = (schedules.c.owner_id == owner_id) & schedules.c.approval_id.is_not(None)
        self._connection.execute(update(schedules).where(asked).values(approval_id=None))

    def _mark(self, schedule_id: int, agent_ids: Collection[int], *, cancelled_at: int | None) -> None:
        self._connection.execute(
            update(schedule_targets)
            .where(schedule_targets.c.schedule_id == schedule_id, schedule_targets.c.agent_id.in_(agent_ids))
            .values(cancelled_at=cancelled_at)
        )

    def _load(self, query: Any) -> list[ScheduleRow]:  # noqa: ANN401 - a select with types of its own
        rows = self._connection.execute(query).all()
        targets = self._list_targets([row.id for row in rows])
        return [_decode(row, targets.get(row.id, ())) for row in rows]

    def _list_targets(self, schedule_ids: Sequence[int]) -> dict[int, tuple[Target, ...]]:
        if not schedule_ids:
            return {}
        found: dict[int, tuple[Target, ...]] = {}
        columns = (schedule_targets, agents.c.name)
        query = (
            select(*columns)
            .join_from(schedule_targets, agents, schedule_targets.c.agent_id == agents.c.id)
            .where(schedule_targets.c.schedule_id.in_(schedule_ids))
            .order_by(agents.c.name)
        )
        for row in self._connection.execute(query):
            target = Target(row.agent_id, row.name, row.cancelled_at is not None)
            found[row.schedule_id] = (*found.get(row.schedule_id, ()), target)
        return found


@dataclass(frozen=True, slots=True)
class HeldFire:
    """What waits for room in an inbox."""

    schedule_id: int
    agent_id: int
    body: str
    owner_id: int
    owner: str


class HeldFires:
    """Reads and changes fires that wait for room: at most one a schedule and target."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, schedule_id: int, agent_id: int, *, body: str, at: int, wake_at: int) -> bool:
        """Hold one; False when one is held already, which then stands for both."""
        place = (held_fires.c.schedule_id == schedule_id) & (held_fires.c.agent_id == agent_id)
        if self._connection.scalar(select(held_fires.c.fired_at).where(place)) is not None:
            return False
        values = {"body": body, "fired_at": at, "wake_at": wake_at}
        self._connection.execute(
            insert(held_fires), {"schedule_id": schedule_id, "agent_id": agent_id, **values}
        )
        return True

    def list_due(self, now: int, *, limit: int) -> list[HeldFire]:
        """Those that are to be tried again, the longest held first."""
        query = (
            select(held_fires, schedules.c.owner_id, agents.c.name.label("owner"))
            .join_from(held_fires, schedules, held_fires.c.schedule_id == schedules.c.id)
            .join(agents, agents.c.id == schedules.c.owner_id)
            .where(held_fires.c.wake_at <= now)
            .order_by(held_fires.c.wake_at, held_fires.c.fired_at, held_fires.c.schedule_id)
            .limit(limit)
        )
        return [
            HeldFire(row.schedule_id, row.agent_id, row.body, row.owner_id, row.owner)
            for row in self._connection.execute(query)
        ]

    def find_next(self) -> int | None:
        found: int | None = self._connection.scalar(select(func.min(held_fires.c.wake_at)))
        return found

    def hold(self, held: HeldFire, *, until: int) -> None:
        """Try it again then."""
        self._connection.execute(update(held_fires).where(_same(held)).values(wake_at=until))

    def list_agents(self, schedule_id: int) -> list[int]:
        """For whom something of a schedule is held."""
        query = select(held_fires.c.agent_id).where(held_fires.c.schedule_id == schedule_id)
        return list(self._connection.scalars(query))

    def list_schedules(self, agent_id: int) -> list[int]:
        """Of which schedules something is held for an agent."""
        query = select(held_fires.c.schedule_id).where(held_fires.c.agent_id == agent_id)
        return list(self._connection.scalars(query))

    def delete_of(self, schedule_id: int, agent_ids: Collection[int]) -> None:
        """Forget what is held of a schedule for some targets."""
        query = delete(held_fires).where(held_fires.c.schedule_id == schedule_id)
        self._connection.execute(query.where(held_fires.c.agent_id.in_(agent_ids)))

    def delete_all(self, agent_id: int) -> None:
        """Forget what an agent that is no more was to get or had sent."""
        own = select(schedules.c.id).where(schedules.c.owner_id == agent_id)
        self._connection.execute(
            delete(held_fires).where(
                or_(held_fires.c.agent_id == agent_id, held_fires.c.schedule_id.in_(own))
            )
        )

    def release_held(self, *, after: int, now: int) -> int:
        """Have those tried now that are held until later than `after`."""
        held = update(held_fires).where(held_fires.c.wake_at > after)
        return self._connection.execute(held.values(wake_at=now)).rowcount


def _same(held: HeldFire) -> Any:  # noqa: ANN401 - a condition
    return (held_fires.c.schedule_id == held.schedule_id) & (held_fires.c.agent_id == held.agent_id)


def _decode(row: Row[Any], targets: tuple[Target, ...]) -> ScheduleRow:
    return ScheduleRow(
        id=row.id,
        owner_id=row.owner_id,
        owner=row.owner,
        status=ScheduleStatus(row.status),
        body=row.body,
        description=row.description,
        next_fire_at=row.next_fire_at,
        interval_seconds=row.interval_seconds,
        created_at=row.created_at,
        last_fired_at=row.last_fired_at,
        fires=row.fires,
        last_result=row.last_result,
        approval_id=row.approval_id,
        targets=targets,
    )
