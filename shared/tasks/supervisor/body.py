"""The task's side of the fork: its pipes and a process in the sandbox that waits to hear what it is to be.

It is made before the launch is known, so that a supervisor can stand by with one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from typing import Final

from shared.sandbox import Kind, Prepared, fork_into
from shared.tasks.model import STREAMS, Launch
from shared.tasks.supervisor import child
from shared.tasks.supervisor.cgroup import TaskGroup
from shared.tasks.supervisor.memory import take_back


class Body:
    """One of them. For a process of one thread.

    Attributes:
        pid: of the process that waits, which is this one's child.
        has_init: whether that is the first of a pid namespace of its own.
        stdin: the writing end of its input.
        readers: the reading ends of its streams, which do not block, with the streams' names.
        status: the reading end of the pipe on which it tells how it goes; does not block.
        temporary: where its temporary directory is, as it sees it.
        group: the control group that it was put into; None without one.

    Raises:
        SandboxFailed, OSError: when it cannot be made; nothing is left of it then.
    """

    def __init__(self, prepared: Prepared | None) -> None:
        self.has_init = prepared is not None and prepared.isolation.kind is Kind.NAMESPACES
        self.temporary = prepared.temporary if prepared else _TEMPORARY
        self.group: TaskGroup | None = None
        with _closed_on_failure() as made:
            (
                (stdin, self.stdin),
                (out, out_writer),
                (err, err_writer),
                (self.status, status),
                (go, self._go),
            ) = (_pipe(made) for _ in range(5))
            theirs = (stdin, out_writer, err_writer, status, go)
            # What is forked would take a signal for one of ours until it has undone our handlers.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            try:
                self.pid = os.fork() if prepared is None else fork_into(prepared, keep=theirs)
                if self.pid == 0:
                    child.wait_and_become(go, (stdin, out_writer, err_writer), status, as_init=self.has_init)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        with contextlib.suppress(OSError):
            take_back()
        for descriptor in theirs:
            os.close(descriptor)
        self.readers = dict(zip((out, err), STREAMS, strict=True))
        for reader in (out, err, self.status):
            os.set_blocking(reader, False)

    def enclose(self, task_id: str, record: int) -> None:
        """Put it into a control group of its own, before it begins; without effect where there is none."""
        self.group = TaskGroup.enclose(self.pid, task_id, record)

    def begin(self, launch: Launch) -> None:
        """Tell it what to be. That it is gone shows as its end."""
        with contextlib.suppress(BrokenPipeError), open(self._go, "wb") as go:  # noqa: PTH123 (a descriptor)
            go.write(json.dumps(launch).encode())


_TEMPORARY: Final = "/tmp"  # noqa: S108 (where tasks are not isolated)


def _pipe(made: list[int]) -> tuple[int, int]:
    ends = os.pipe2(os.O_CLOEXEC)
    made.extend(ends)
    return ends


@contextlib.contextmanager
def _closed_on_failure() -> Iterator[list[int]]:
    made: list[int] = []
    try:
        yield made
    except Exception:  # whatever it was goes on; only the descriptors must not stay
        for descriptor in made:
            os.close(descriptor)
        raise
