"""The tools' decisions: what is started, what an answer waits for, and what it shows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from services.bash_daemon.service.reading import OutputReader, PageRequest
from services.bash_daemon.service.surroundings import SHELL, Surroundings
from services.bash_daemon.service.wording import Swept, Tails, render_list, render_started, render_status
from shared.errors import InvalidInput, LimitExceeded
from shared.prose import one_line
from shared.runtime.threads import in_thread
from shared.tasks.engine import TaskEngine
from shared.tasks.model import TaskState
from shared.tasks.registry import TaskRegistry, TaskRow
from shared.tasks.request import TaskRequest

DEFAULT_WAIT_SECONDS = 3.0
TITLE_LENGTH = 200
LISTED = 20


class BashService:
    """Shell tasks of one agent.

    Args:
        engine: runs them.
        registry: lists them.
        reader: shows their output.
        max_command_bytes: of one command.
    """

    def __init__(
        self,
        engine: TaskEngine,
        registry: TaskRegistry,
        reader: OutputReader,
        surroundings: Surroundings,
        *,
        max_command_bytes: int,
    ) -> None:
        self._engine = engine
        self._registry = registry
        self._reader = reader
        self._surroundings = surroundings
        self._max_command_bytes = max_command_bytes

    async def run(
        self,
        cmd: str,
        *,
        timeout_seconds: float | None,
        wait_seconds: float | None,
        cwd: str | None,
        env: Mapping[str, str] | None,
        has_stdin: bool,
    ) -> str:
        """Start a command; shows its end when that comes in time, else its id.

        Raises:
            InvalidInput, LimitExceeded: when nothing was started, saying what is right.
            Unavailable: when it cannot be noted, and so was not started.
        """
        request = TaskRequest(
            argv=[SHELL, "-c", self._check(cmd)],
            title=one_line(cmd, limit=TITLE_LENGTH) or "(blank)",
            cwd=self._surroundings.choose_cwd(cwd),
            env=self._surroundings.build_environment(env),
            has_stdin=has_stdin,
            timeout_seconds=timeout_seconds,
        )
        row = self._engine.start(request)
        with self._engine.watching(row.id):
            row = await self._engine.wait(
                row.id, DEFAULT_WAIT_SECONDS if wait_seconds is None else wait_seconds
            )
            if row.state.is_final:
                return await self._show(row)
            await self._engine.make_durable()
            is_waiting = self._engine.is_waiting_for_input(row.id)
            self._engine.show(row, is_waiting=is_waiting)
            return render_started(row, is_waiting=is_waiting)

    async def status(self, task_id: str, *, wait_seconds: float, page: PageRequest | None) -> str:
        """A task as it is, with the last of its output, or a page or a search of one stream.

        Raises:
            NotFound: when there is no such task.
            InvalidInput: for an offset or an expression that is none.
        """
        with self._engine.watching(task_id):
            row = await self._engine.wait(task_id, wait_seconds)
            if page is None:
                return await self._show(row)
            return await in_thread(partial(self._reader.read, row, page))

    async def kill(self, task_id: str) -> str:
        """End a task and all it has started; shows how it ended.

        Raises:
            NotFound: when there is no such task.
            Unavailable: when its supervisor does not answer.
        """
        with self._engine.watching(task_id):
            return await self._show(await self._engine.kill(task_id))

    async def send_input(self, task_id: str, text: str | None, *, eof: bool) -> str:
        """Write to a task's standard input, end it, or both.

        Raises:
            InvalidInput: when there is nothing to send.
            NotFound, Conflict, LimitExceeded, Unavailable: as the engine says.
        """
        if text is None and not eof:
            raise InvalidInput("nothing to send: give `text`, or `eof` true, or both")
        await self._engine.send_input(task_id, text or "", eof=eof)
        sent = f"{len((text or '').encode(errors='surrogatepass'))} bytes sent" if text else "nothing sent"
        return f"{sent} to task {task_id}{'; its input has ended' if eof else ''}"

    async def list(self) -> str:
        """What runs and waits, and the newest of what has ended."""
        open_tasks = self._registry.list_open()
        ended = [row for row in self._registry.list_recent(LISTED + len(open_tasks)) if row.state.is_final]
        waiting = {row.id for row in open_tasks if self._engine.is_waiting_for_input(row.id)}
        return render_list(open_tasks, ended[:LISTED], total=self._registry.count(), waiting=waiting)

    def describe(self, row: TaskRow) -> tuple[str, str | None]:
        """What a todo says of a task that has ended, or waits for input. Blocks."""
        return self._reader.describe(row)

    async def _show(self, row: TaskRow) -> str:
        is_waiting = row.state is TaskState.RUNNING and await self._engine.look(row.id)
        tails: Tails | Swept | None = self._reader.find_nothing(row)
        if tails is None:
            tails = await in_thread(self._reader.view_or_explain, row)
        text = render_status(row, tails, is_waiting=is_waiting)
        self._engine.show(row, is_waiting=is_waiting)
        return text

    def _check(self, cmd: str) -> str:
        size = len(cmd.encode(errors="surrogatepass"))
        if size > self._max_command_bytes:
            raise LimitExceeded(
                f"cmd is {size} bytes and the limit is {self._max_command_bytes}; write it to a file, and "
                "run that"
            )
        if "\0" in cmd:
            raise InvalidInput(f"cmd contains U+0000 at index {cmd.index(chr(0))}, which no command can hold")
        return cmd
