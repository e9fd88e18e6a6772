"""From a task's start to its end: supervisors are started, found again and heard out, and ends are noted.

Every task that runs has one coroutine here. None of them may fail: what cannot be stored now is tried again,
as the end of the task is on disk in any case.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from shared.errors import HiveError, Unavailable
from shared.runtime.log import get_logger
from shared.runtime.threads import in_thread
from shared.sandbox import Policy
from shared.tasks.endings import NOT_BEGUN, RESTARTED, SUPERVISOR_GONE, machine_boot
from shared.tasks.live import LiveTask
from shared.tasks.model import End, Launch, TaskState, build_end
from shared.tasks.places import Places
from shared.tasks.registry import TaskRegistry
from shared.tasks.request import TaskRequest
from shared.tasks.spawning import Spawner
from shared.tasks.storage import TaskStorage
from shared.tasks.supervisor import record
from shared.tasks.supervisor.cgroup import end_group
from shared.tasks.supervisor.control import connect

_RECONNECT_SECONDS: Final = 0.05
_RETRY_SECONDS: Final = 1.0
# Supervisors that are started for a task, where they are killed before they have begun it.
_STARTS: Final = 3
# For the end of what a supervisor that is gone has left.
_END_SECONDS: Final = 5.0

log = get_logger()

BuildLaunch = Callable[[str, TaskRequest, int], Launch]


class Lives:
    """The tasks that run. For one event loop.

    Args:
        records: the directory of the tasks' private directories.
        build_launch: what a supervisor is told, from an id, a request and the bytes of output it may keep.
        build_policy: the sandbox of the next task; None for none.
        on_change: called after every change of a task's state.
        on_end: called with the id of each task that has ended, when that is stored.
        on_prompt: called with the id of a task that waits for input, and how often it has begun to.
    """

    def __init__(
        self,
        records: Path,
        *,
        places: Places,
        registry: TaskRegistry,
        storage: TaskStorage,
        spawner: Spawner,
        build_launch: BuildLaunch,
        build_policy: Callable[[], Policy | None],
        on_change: Callable[[], None],
        on_end: Callable[[str], None],
        on_prompt: Callable[[str, int], None],
    ) -> None:
        self._records = records
        self._places = places
        self._registry = registry
        self._storage = storage
        self._spawner = spawner
        self._build_launch = build_launch
        self._build_policy = build_policy
        self._on_change = on_change
        self._on_end = on_end
        self._on_prompt = on_prompt
        self._boot = machine_boot()

    def begin(self, group: TaskGroup, task_id: str, request: TaskRequest) -> None:
        """Start a task that has a place."""
        group.start_soon(self._live_through, group, task_id, request)

    def adopt(self, group: TaskGroup, task_id: str) -> None:
        """Take up a task that an earlier daemon has started, or was about to start."""
        group.start_soon(self._take_up, group, task_id)

    def fill_places(self, group: TaskGroup) -> None:
        """Start what waits, as far as there are places."""
        for task_id in self._places.fill():
            group.start_soon(self._start_waiting, group, task_id)

    async def finish(self, group: TaskGroup, task_id: str, end: End) -> None:
        """Note an end; the place is free then."""
        kept = self._storage.settle(task_id, end)
        while True:
            try:
                self._registry.finish(task_id, end, kept_bytes=kept)
                break
            except Unavailable as exc:
                log.warning("task_end_not_stored", task=task_id, error=exc.message)
                await anyio.sleep(_RETRY_SECONDS)
        log.info("task_finished", task=task_id, state=end["state"], duration_ms=end["duration_ms"])
        self._places.remove(task_id)
        self._on_end(task_id)
        self.fill_places(group)
        self._on_change()

    def withdraw(self, task_id: str, end: End) -> None:
        """Note the end of a task that has no place. Without a pause, so that it cannot get one meanwhile.

        Raises:
            Unavailable: when it cannot be stored; the task waits on.
        """
        self._registry.finish(task_id, end, kept_bytes=0)
        log.info("task_finished", task=task_id, state=end["state"], duration_ms=0)
        self._places.remove(task_id)
        self._on_end(task_id)
        self._on_change()

    async def _start_waiting(self, group: TaskGroup, task_id: str) -> None:
        """Start a task that was not begun by whoever asked for it."""
        while True:
            try:
                text = self._registry.start(task_id, boot=self._boot, now=int(time.time()))
                break
            except Unavailable as exc:
                log.warning("waiting_task_not_started", task=task_id, error=exc.message)
                await anyio.sleep(_RETRY_SECONDS)
        self._on_change()
        if text is None:
            await self._fail(group, task_id, NOT_BEGUN)
        else:
            await self._live_through(group, task_id, TaskRequest.from_json(text))

    async def _take_up(self, group: TaskGroup, task_id: str) -> None:
        end = await self._hear_out(task_id)
        if end is not None:
            await self.finish(group, task_id, end)
        else:
            log.info("task_begun_anew", task=task_id)
            await self._start_waiting(group, task_id)

    async def _live_through(self, group: TaskGroup, task_id: str, request: TaskRequest) -> None:
        """A task that this daemon starts, from its supervisor's start to its end."""
        for _ in range(_STARTS):
            if await self._try(group, task_id, request):
                return
        await self._fail(group, task_id, NOT_BEGUN)

    async def _try(self, group: TaskGroup, task_id: str, request: TaskRequest) -> bool:
        """The same; False when its supervisor is gone and had not begun, so that nothing has run."""
        path = self._records / task_id
        try:
            output_bytes = await self._storage.make_room(task_id)
            launch = self._build_launch(task_id, request, output_bytes)
            lock = record.create_record(path)
            try:
                with self._storage.open_directory() as output:
                    connection = self._spawner.launch(lock, output, self._build_policy())
            finally:
                # A copy is on its way to the supervisor, and holds it.
                os.close(lock)
            live = await self._attach(task_id, connection)
            await live.send_launch(dict(launch))
        except (HiveError, OSError) as exc:
            why = exc.message if isinstance(exc, HiveError) else f"it cannot be started: {exc.strerror}"
            await self._fail(group, task_id, why)
            return True
        await live.listen()
        if live.refused is not None:
            await self._fail(group, task_id, live.refused)
            return True
        end = live.end or await self._hear_out(task_id)
        if end is not None:
            await self.finish(group, task_id, end)
        return end is not None

    async def _fail(self, group: TaskGroup, task_id: str, why: str) -> None:
        log.warning("task_not_started", task=task_id, error=why)
        await self.finish(group, task_id, build_end(TaskState.FAILED, why, started_at=None))

    async def _hear_out(self, task_id: str) -> End | None:
        """Hear out a supervisor that is found by its record, as often as it takes; None: nothing has run."""
        path = self._records / task_id
        while (end := record.find_end(path)) is None:
            if not record.is_held(path):
                # It may have been written between the two looks.
                if (end := record.find_end(path)) is not None:
                    return end
                if record.has_begun(path):
                    return await self._build_interrupted(task_id)
                with contextlib.suppress(OSError):
                    record.remove_record(path)
                return None
            try:
                live = await self._attach(task_id, connect(path))
            except OSError:
                # It is only beginning to listen, or just ending.
                await anyio.sleep(_RECONNECT_SECONDS)
                continue
            async with anyio.create_task_group() as group:
                group.start_soon(self._ask_for_prompt, task_id, live)
                await live.listen()
            if live.end is not None:
                return live.end
        return end

    async def _ask_for_prompt(self, task_id: str, live: LiveTask) -> None:
        """Whether a task waits for input may have been said to an earlier daemon only."""
        with contextlib.suppress(Unavailable):
            if await live.look():
                self._on_prompt(task_id, live.prompt)
                self._on_change()

    async def _attach(self, task_id: str, connection: socket.socket) -> LiveTask:
        found = self._places.find(task_id)
        if found is None:
            raise AssertionError(task_id)

        def hear(event: str) -> None:
            if event == "waiting_for_input":
                self._on_prompt(task_id, live.prompt)
            found.tell()
            self._on_change()

        live = found.live = await LiveTask.open(connection, on_event=hear)
        found.attached.set()
        return live

    async def _build_interrupted(self, task_id: str) -> End:
        is_empty = False
        with contextlib.suppress(Unavailable):
            is_empty = await in_thread(partial(end_group, self._records / task_id, seconds=_END_SECONDS))
        if not is_empty:
            log.warning("task_group_not_removed", task=task_id)
        row = self._registry.find(task_id)
        why = RESTARTED if row is not None and row.boot != self._boot else SUPERVISOR_GONE
        end = build_end(TaskState.INTERRUPTED, why, started_at=None if row is None else row.started_at)
        with contextlib.suppress(Unavailable):
            end["streams"] = await in_thread(self._storage.find_ends, task_id, "cap")
        return end
