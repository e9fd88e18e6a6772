"""Removes what supervisors have left, and output that has been kept long enough."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import anyio

from shared.errors import Unavailable
from shared.runtime.log import get_logger
from shared.runtime.threads import in_thread
from shared.tasks.registry import TaskRegistry
from shared.tasks.storage import TaskStorage
from shared.tasks.supervisor import record
from shared.tasks.supervisor.cgroup import end_group

_EVERY_SECONDS: Final = 2.0
_SWEEP_EVERY_SECONDS: Final = 600.0

log = get_logger()


class Tidier:
    """Works in the background, in threads.

    Args:
        records: the directory of the tasks' private directories.
        registry: whose ends must survive a loss of power before the records of them go.
        storage: what is swept.
    """

    def __init__(self, records: Path, registry: TaskRegistry, storage: TaskStorage) -> None:
        self._records = records
        self._registry = registry
        self._storage = storage
        self._ended: set[str] = set()

    def add(self, task_id: str) -> None:
        """The end of this task is in the registry."""
        self._ended.add(task_id)

    async def run(self) -> None:
        """Tidy now and then, and sweep seldom."""
        next_sweep = anyio.current_time()
        while True:
            with contextlib.suppress(Unavailable):
                if self._ended:
                    self._ended -= await in_thread(self._remove_records, set(self._ended))
                if anyio.current_time() >= next_sweep:
                    next_sweep = anyio.current_time() + _SWEEP_EVERY_SECONDS
                    await in_thread(self._storage.sweep)
            await anyio.sleep(_EVERY_SECONDS)

    def _join(self, task_id: str) -> None:
        row = self._registry.find(task_id)
        if row is not None and row.end is not None:
            self._storage.join(task_id, row.end)

    def _remove_records(self, task_ids: set[str]) -> set[str]:
        """Those of tasks whose supervisors have ended; returns which."""
        self._registry.flush()
        done = set()
        for task_id in task_ids:
            path = self._records / task_id
            try:
                if record.is_held(path):
                    continue
                if not end_group(path):
                    log.warning("task_group_not_removed", task=task_id)
                    continue
                self._join(task_id)
                record.remove_record(path)
            except OSError as exc:
                log.warning("task_record_not_removed", task=task_id, error=exc.strerror)
            done.add(task_id)
        return done
