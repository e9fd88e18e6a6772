"""The task engine of one daemon: what its tools ask for.

It knows what is alive; the registry knows what was and how it ended; the supervisors hold the processes. A
daemon that is killed at any line finds on its next start every task in its true state.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from shared.errors import HiveError, LimitExceeded, Unavailable
from shared.runtime.log import get_logger
from shared.sandbox import Policy
from shared.tasks.courier import Courier, Describe
from shared.tasks.endings import RECORDS_SUFFIX, find_ended, forget_ended, machine_boot
from shared.tasks.feeding import Feeder
from shared.tasks.flushing import Flusher
from shared.tasks.live import LiveTask
from shared.tasks.lives import Lives
from shared.tasks.model import Launch, TaskState, build_end
from shared.tasks.places import Places
from shared.tasks.registry import TaskRegistry, TaskRow
from shared.tasks.request import TaskLimits, TaskRequest, new_task_id
from shared.tasks.spawning import Spawner
from shared.tasks.storage import TaskStorage
from shared.tasks.tidying import Tidier
from shared.wire.tasks import KillOutcome

# Beyond the grace: until a supervisor gives up on what cannot be killed, and a little more.
_EXTRA_KILL_SECONDS: Final = 7.0

log = get_logger()


class TaskEngine:
    """The tasks of one surface. For one event loop; `run` is entered before anything else is called.

    Args:
        surface: its name; records lie in `<data_dir>/<surface>-tasks/`.
        registry: the durable list.
        storage: where output goes, and how much of it may stay.
        policy: the sandbox of the next task; None for none.
        agent_socket: where the agent is told of ended tasks; None where there is no such socket.
        describe: the words for it.
        clock: unix seconds.
    """

    def __init__(
        self,
        surface: str,
        *,
        data_dir: Path,
        registry: TaskRegistry,
        storage: TaskStorage,
        limits: TaskLimits,
        policy: Callable[[], Policy | None],
        agent_socket: Path | None,
        describe: Describe,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._records = data_dir / f"{surface}{RECORDS_SUFFIX}"
        self._registry = registry
        self._storage = storage
        self._limits = limits
        self._clock = clock
        self._boot = machine_boot()
        self._spawner = Spawner()
        self._places = Places(limits.max_running)
        self._feeder = Feeder(self._places, registry)
        self._tidier = Tidier(self._records, registry, storage)
        self._listeners: list[Callable[[], None]] = []
        self._flusher = Flusher(registry.flush)
        self._group: TaskGroup | None = None
        self._courier = Courier(
            surface,
            agent_socket=agent_socket,
            registry=registry,
            describe=describe,
        )
        self._lives = Lives(
            self._records,
            places=self._places,
            registry=registry,
            storage=storage,
            spawner=self._spawner,
            build_launch=self._build_launch,
            build_policy=policy,
            on_change=self._tell,
            on_end=self._note_end,
            on_prompt=self._courier.add_prompt,
        )

    def watch(self, listener: Callable[[], None]) -> None:
        """Have `listener` called after every change of a task's state, in the event loop."""
        self._listeners.append(listener)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Take up what an earlier daemon has left, and serve until the block ends. Tasks go on after it."""
        self._records.mkdir(mode=0o700, exist_ok=True)
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                self._adopt_all(group)
                group.start_soon(self._tidier.run)
                group.start_soon(self._spawner.run)
                group.start_soon(self._courier.run)
                group.start_soon(self._flusher.run)
                yield
                group.cancel_scope.cancel()
        finally:
            self._group = None
            self._spawner.close()

    def start(self, request: TaskRequest) -> TaskRow:
        """Start a task, or queue it. Known of after any kill of the daemon; see `make_durable` for the rest.

        Raises:
            LimitExceeded: when too many wait already.
            Unavailable: when nothing can be stored.
        """
        group, task_id, has_place = self._serving(), new_task_id(), self._places.has_free()
        if not has_place and self._places.waiting >= self._limits.max_queued:
            raise LimitExceeded(
                f"{self._places.running} tasks run and {self._places.waiting} wait, which is the limit; wait "
                "for some to end, or kill some",
                code="too_many_tasks",
            )
        row = self._registry.add(
            task_id,
            request.title,
            request=request.to_json(),
            is_pending=not has_place,
            boot=self._boot,
            now=int(self._clock()),
        )
        self._places.add(task_id, has_place=has_place)
        if has_place:
            self._lives.begin(group, task_id, request)
        self._flusher.begin()
        self._tell()
        return row

    def watching(self, task_id: str) -> AbstractContextManager[None]:
        """Say that an answer is under way that will show this task: nothing is told of it meanwhile."""
        return self._courier.watching(task_id)

    def show(self, row: TaskRow, *, is_waiting: bool) -> None:
        """An answer shows this task as it is: of that nothing is left to tell."""
        if row.state.is_final and not row.is_shown:
            self._courier.note_shown(row.id)
        found = self._places.find(row.id)
        # What is waited for may be newer than what is shown.
        if found and found.live and found.live.prompt and found.is_waiting_for_input == is_waiting:
            self._courier.forgive_prompt(row.id, found.live.prompt)

    async def make_durable(self) -> None:
        """Wait until every task that was started before would be known of after a loss of power."""
        await self._flusher.begin().wait()

    def is_waiting_for_input(self, task_id: str) -> bool:
        found = self._places.find(task_id)
        return found is not None and found.is_waiting_for_input

    async def look(self, task_id: str) -> bool:
        """Whether the task waits for input, asked for now; False when nobody can say."""
        found = self._places.find(task_id)
        if found is None or found.live is None:
            return False
        with contextlib.suppress(Unavailable):
            await found.live.look()
        return found.is_waiting_for_input

    async def wait(self, task_id: str, seconds: float) -> TaskRow:
        """The task as it is once it has ended or waits for input, or after `seconds`.

        Raises:
            NotFound: when there is no such task.
        """
        with anyio.move_on_after(seconds):
            while (found := self._places.find(task_id)) and not found.is_waiting_for_input:
                await found.news.wait()
        return self._registry.get(task_id)

    async def kill(self, task_id: str, *, reason: str | None = None) -> TaskRow:
        """End a task and all it has started; one that waits never starts, one that has ended stays as it is.

        Returns it when all is gone, or after the grace and some seconds, when something cannot be killed.

        Raises:
            NotFound: when there is no such task.
            Unavailable: when its supervisor does not answer.
        """
        found = self._places.find(task_id)
        if found is None:
            return self._registry.get(task_id)
        if not found.has_place:
            why = reason or "it was killed before it began"
            self._lives.withdraw(task_id, build_end(TaskState.KILLED, why, started_at=None))
            return self._registry.get(task_id)
        limit = self._limits.grace_seconds + _EXTRA_KILL_SECONDS
        with anyio.move_on_after(limit):
            await found.attached.wait()
            if found.live is not None:
                await self._ask_to_end(task_id, found.live, reason)
            while self._places.find(task_id):
                await found.news.wait()
        return self._registry.get(task_id)

    async def begin_kill(self, task_id: str, *, reason: str) -> KillOutcome:
        """Begin to end a task, and return at once: for whoever does not need to see the end."""
        if self._places.find(task_id) is not None:
            self._serving().start_soon(self._kill_quietly, task_id, reason)
            return "killing"
        return "unknown" if self._registry.find(task_id) is None else "over"

    async def send_input(self, task_id: str, text: str, *, eof: bool) -> None:
        """Write to a task's standard input, and then perhaps end it.

        Raises:
            NotFound: when there is no such task.
            Conflict: when it has ended, does not run yet, or its input is closed.
            LimitExceeded: when it has not read what was sent before.
            Unavailable: when its supervisor does not answer.
        """
        prompt = await self._feeder.send(task_id, text, eof=eof)
        self._courier.forgive_prompt(task_id, prompt)

    async def _ask_to_end(self, task_id: str, live: LiveTask, reason: str | None) -> None:
        try:
            await live.ask({"cmd": "kill", "reason": reason})
        except Unavailable:
            if self._places.find(task_id) is not None:
                raise

    async def _kill_quietly(self, task_id: str, reason: str) -> None:
        try:
            await self.kill(task_id, reason=reason)
        except HiveError as exc:
            log.warning("task_not_killed", task=task_id, reason=exc.message)

    def _build_launch(self, task_id: str, request: TaskRequest, output_bytes: int) -> Launch:
        directory = self._records / task_id
        return request.build_launch(task_id, directory, output_bytes=output_bytes, limits=self._limits)

    def _adopt_all(self, group: TaskGroup) -> None:
        ended = find_ended(self._records)
        for row in self._registry.list_open():
            is_running = row.state is TaskState.RUNNING
            self._places.add(row.id, has_place=is_running)
            if is_running:
                self._lives.adopt(group, row.id)
            elif ended is not None:
                self._lives.withdraw(row.id, build_end(TaskState.KILLED, ended, started_at=None))
        forget_ended(self._records)
        # A task whose row was never written was never answered for either.
        for path in self._records.iterdir():
            if self._places.find(path.name) is None:
                self._tidier.add(path.name)
        self._lives.fill_places(group)

    def _note_end(self, task_id: str) -> None:
        self._tidier.add(task_id)
        self._courier.add_end(task_id)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def _serving(self) -> TaskGroup:
        if self._group is None:
            raise Unavailable("the surface is stopping; try again in a moment")
        return self._group
