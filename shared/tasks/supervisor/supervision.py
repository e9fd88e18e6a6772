"""One task from its first process to its end: a loop over its output, children, clock and daemon."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time
from typing import Final

from shared.tasks.model import PROTOCOL, End, Launch, TaskState
from shared.tasks.output.spool import Spool
from shared.tasks.supervisor import tree
from shared.tasks.supervisor.body import Body
from shared.tasks.supervisor.control import Command, Control
from shared.tasks.supervisor.ending import LEFTOVER_GRACE_SECONDS, NATURAL_SECONDS, Ending
from shared.tasks.supervisor.failures import explain
from shared.tasks.supervisor.stdin import Stdin

_PIPE_BYTES: Final = 1 << 20
# Of one stream, when it is full each time; then it is the others' turn.
_STEPS_AT_ONCE: Final = 16
# pipe(7).
_DEFAULT_PIPE_BYTES: Final = 1 << 16
_LOOK_EVERY_SECONDS: Final = 2.0
_QUIET_SECONDS: Final = 1.0
_MAX_NAMED: Final = 20
# So often it is told that a task waits for input, if none is given: some write on and on while they wait.
_PROMPTS: Final = 3


class Supervision:
    """Holds everything of one task that runs.

    Args:
        launch: what was asked for.
        body: the process that becomes the task.
        output: where its output goes.
        control: where commands come from and events go.
        wakeup: the reading end of the pipe that signals are written to.
    """

    def __init__(self, launch: Launch, body: Body, *, output: int, control: Control, wakeup: int) -> None:
        self._launch = launch
        self._wakeup = wakeup
        self._control = control
        self._began = time.monotonic()
        self._started_at = time.time()
        self._wait_status: int | None = None
        self._failure: str | None = None
        self._first_ended: float | None = None
        self._ending: Ending | None = None
        self._cause: TaskState | None = None
        self._reason: str | None = None
        self._is_gone = False
        self._leftovers: list[str] = []
        self._last_output = self._began
        self._looked = self._began
        self._is_waiting = False
        self._prompt = 0
        self._prompts_left = _PROMPTS
        self._status_held = b""
        self._spools: dict[int, Spool] = {}
        self._readers = body.readers
        self._open = set(self._readers)
        self._widened: set[int] = set()
        self._status = body.status
        self._child = body.pid
        self._init = body.pid if body.has_init else None
        self._group = body.group
        cap = launch["output_bytes"] // len(self._readers)
        for reader, stream in self._readers.items():
            name = f"{launch['id']}.{stream}"
            self._spools[reader] = Spool(output, name, cap, floor_bytes=launch["min_free_bytes"])
        self._stdin = Stdin(body.stdin, is_open=launch["stdin"])
        body.begin(launch)

    def run(self) -> End:
        """Stay until the task has ended and all it started is gone; returns the end, not yet written."""
        self._control.begin(self.carry_out)
        while not self._is_gone and not (self._ending and self._ending.is_given_up):
            self._poll()
            self._keep_time()
        self._read_status()
        survivors = self._ending.survivors() if self._ending and self._ending.is_given_up else []
        return self._conclude(survivors)

    def carry_out(self, command: Command) -> Command:
        """One command of a daemon, or of whoever ends an agent."""
        name = command.get("cmd")
        if name == "kill":
            self._end(TaskState.KILLED, reason=command.get("reason"), grace=command.get("grace_seconds"))
            return {"ok": True}
        if name == "input":
            text = str(command.get("text") or "").encode(errors="surrogateescape")
            wrong = self._stdin.put(text, eof=bool(command.get("eof")))
            self._is_waiting = False
            self._prompts_left = _PROMPTS
            return {"ok": wrong is None, "error": wrong}
        if name == "state":
            self._look_at_input()
            return {
                "ok": True,
                "waiting_for_input": self._is_waiting,
                "prompt": self._prompt,
                "protocol": PROTOCOL,
            }
        return {"ok": False, "error": "unknown command"}

    def _poll(self) -> None:
        poll = select.poll()
        for descriptor in (*self._open, self._status, self._wakeup, *self._control.descriptors()):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        if (writer := self._stdin.wants_to_write) is not None:
            poll.register(writer, select.POLLOUT)
        for descriptor, _ in poll.poll(self._pause_ms()):
            if descriptor in self._open:
                self._take(descriptor)
            elif descriptor == self._status:
                self._read_status()
            elif descriptor == self._wakeup:
                self._hear_signals()
            elif descriptor == writer:
                self._stdin.flush()
            else:
                self._control.serve(descriptor, self.carry_out)

    def _pause_ms(self) -> float | None:
        now = time.monotonic()
        times = []
        if self._ending:
            times.append(self._ending.due_at)
        elif self._first_ended is not None:
            times.append(self._first_ended + NATURAL_SECONDS)
        elif (timeout := self._launch["timeout_seconds"]) is not None:
            times.append(self._began + timeout)
        if self._stdin.is_open and not self._is_waiting:
            times.append(self._looked + _LOOK_EVERY_SECONDS)
        return max(0.0, min(times) - now) * 1000 + 1 if times else None

    def _keep_time(self) -> None:
        now = time.monotonic()
        timeout = self._launch["timeout_seconds"]
        if self._ending:
            self._ending.go_on()
        elif self._first_ended is not None:
            if now >= self._first_ended + NATURAL_SECONDS and not self._is_gone:
                self._end_leftovers()
        elif timeout is not None and now >= self._began + timeout:
            self._end(TaskState.TIMED_OUT, reason=None, grace=None)
        if self._stdin.is_open and now >= self._looked + _LOOK_EVERY_SECONDS:
            self._look_at_input()

    def _take(self, reader: int) -> None:
        spool = self._spools[reader]
        for _ in range(_STEPS_AT_ONCE):
            taken = spool.pump(reader)
            if taken == 0:
                self._open.discard(reader)
            elif taken:
                self._last_output = time.monotonic()
                self._is_waiting = False
                if taken >= _DEFAULT_PIPE_BYTES:
                    if reader not in self._widened:
                        self._widen(reader)
                    continue
            return

    def _widen(self, reader: int) -> None:
        """Give a task that writes much a larger pipe: fewer turns of both sides then move it."""
        self._widened.add(reader)
        with contextlib.suppress(OSError):
            # Where an ordinary user has no more of it, what there is will do.
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def _look_at_input(self) -> None:
        """Tell the daemon once when the task begins to wait for input."""
        self._looked = time.monotonic()
        is_quiet = self._looked - self._last_output >= _QUIET_SECONDS
        was_waiting = self._is_waiting
        after_prompt = is_quiet and any(spool.ends_within_a_line for spool in self._spools.values())
        self._is_waiting = self._stdin.is_waited_for(os.getpid(), after_prompt=after_prompt)
        if self._is_waiting and not was_waiting and self._prompts_left:
            self._prompts_left -= 1
            self._prompt += 1
            self._control.announce({"event": "waiting_for_input", "prompt": self._prompt})

    def _hear_signals(self) -> None:
        numbers = os.read(self._wakeup, 4096)
        if signal.SIGTERM in numbers:
            reason = "its supervisor was told to end, as in a shutdown"
            self._end(TaskState.INTERRUPTED, reason=reason, grace=None)
        self._bury()

    def _bury(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._is_gone = True
                return
            if pid == 0:
                return
            if pid == self._child and self._init is None:
                self._note_first(status)

    def _note_first(self, status: int) -> None:
        self._wait_status = status
        self._first_ended = time.monotonic()
        self._ended_at = time.time()

    def _read_status(self) -> None:
        """What the task's side of the fork says: that it could not start, or how its first process ended."""
        while self._status >= 0:
            try:
                chunk = os.read(self._status, 4096)
            except BlockingIOError:
                return
            if not chunk:
                os.close(self._status)
                self._status = -1
            *lines, self._status_held = (self._status_held + chunk).split(b"\n")
            for line in lines:
                kind, *fields = line.decode().split()
                if kind == "E":
                    self._failure = explain(self._launch, fields[0], int(fields[1]))
                elif kind == "X":
                    self._note_first(int(fields[0]))
                else:
                    self._is_gone = True

    def _end(self, cause: TaskState, *, reason: object, grace: object) -> None:
        seconds = float(grace) if isinstance(grace, (int, float)) else self._launch["grace_seconds"]
        if self._first_ended is None and self._cause is None:
            self._cause = cause
            self._reason = str(reason)[:500] if reason else None
        if self._ending:
            self._ending.hasten(seconds)
        else:
            self._ending = Ending(self._init, self._group, grace_seconds=seconds)

    def _end_leftovers(self) -> None:
        found = tree.find_descendants(os.getpid(), but=self._init)
        self._leftovers = [str(process) for process in found[:_MAX_NAMED]]
        grace = min(LEFTOVER_GRACE_SECONDS, self._launch["grace_seconds"])
        self._ending = Ending(self._init, self._group, grace_seconds=grace)

    def _conclude(self, survivors: list[str]) -> End:
        for reader in list(self._open):
            # Nothing that we know of writes any more: what is in the pipe is all.
            while (self._spools[reader].pump(reader) or 0) > 0:
                pass
        streams = {
            stream: self._spools[reader].finish().to_record() for reader, stream in self._readers.items()
        }
        if self._first_ended is None:
            self._note_first(signal.SIGKILL)
        status = self._wait_status or 0
        state = self._cause or (TaskState.FAILED if self._failure else TaskState.DONE)
        has_run = state is not TaskState.FAILED
        exit_code = os.waitstatus_to_exitcode(status)
        return End(
            protocol=PROTOCOL,
            state=state.value,
            exit_code=exit_code if has_run and exit_code >= 0 else None,
            signal=-exit_code if has_run and exit_code < 0 else None,
            reason=self._failure or self._reason,
            started_at=self._started_at,
            ended_at=self._ended_at,
            duration_ms=round(((self._first_ended or self._began) - self._began) * 1000),
            leftovers=self._leftovers,
            survivors=survivors[:_MAX_NAMED],
            streams=streams,
        )

    def merge(self) -> None:
        """Put what was kept of each stream into one file; whoever reads meanwhile finds all of it, too."""
        for spool in self._spools.values():
            spool.merge()
            spool.close()
