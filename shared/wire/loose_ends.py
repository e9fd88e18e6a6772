"""Loose ends: the open threads of one agent, each tagged by its kind."""

from __future__ import annotations

from shared.wire.model import WireResult


class LooseEnd(WireResult):
    """One open thread; what its kind does not have is absent.

    `reminder`: `summary`, `due_at`, `held`. `inbox`: `undelivered`. `approval`: `asks` (its kind), `summary`,
    `created_at`, `deadline_at`. `todo`: `subsystem`, `key`, `summary`, `detail`, `updated_at`.
    `sent`: `summary`, `created_at`. `task`, one a surface: `surface`, `running`, `task_ids` (some of them).
    """

    kind: str
    id: int
    summary: str | None = None
    due_at: int | None = None
    held: bool | None = None
    undelivered: int | None = None
    asks: str | None = None
    created_at: int | None = None
    deadline_at: int | None = None
    subsystem: str | None = None
    key: str | None = None
    detail: str | None = None
    updated_at: int | None = None
    surface: str | None = None
    running: int | None = None
    task_ids: list[str] | None = None


class BrokerLooseEnds(WireResult):
    """`GET loose-ends`: those that the broker knows of."""

    loose_ends: list[LooseEnd]


class LooseEnds(WireResult):
    """The answer of `get_loose_ends`; `omitted` counts those for which there was no room."""

    loose_ends: list[LooseEnd]
    unavailable: list[str]
    omitted: int | None = None
