"""The life of one task's supervisor, from its launch to the end it leaves on disk."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from typing import Final, NoReturn, cast

from shared.prctl import PR_SET_CHILD_SUBREAPER, PR_SET_NAME, prctl
from shared.sandbox import Prepared, SandboxFailed
from shared.tasks.model import End, Launch, TaskState, build_end
from shared.tasks.supervisor import record
from shared.tasks.supervisor.body import Body
from shared.tasks.supervisor.control import MAX_LINE_BYTES, Control
from shared.tasks.supervisor.failures import NO_ROOM, explain, explain_fork
from shared.tasks.supervisor.supervision import Supervision

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
DESCRIPTORS: Final = 3


def stand_by(spawner: socket.socket, prepared: Prepared | None) -> NoReturn:
    """Get ready for a task, wait for one, supervise it, then end. Runs in a fresh fork, with one thread.

    Args:
        spawner: on it come the descriptors of a task that is asked for: the daemon's connection, the lock,
            the directory of its output. It ends when none will come.
        prepared: its sandbox; None for none.
    """
    os.setsid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_NAME, b"hive-standby")
    wakeup = _hear_signals()
    body = _make_body(prepared)
    message, descriptors, _, _ = socket.recv_fds(spawner, 1, DESCRIPTORS)
    if not message:
        os._exit(0)
    spawner.close()
    prctl(PR_SET_NAME, b"hive-task")
    if isinstance(body, str):
        # What was in the way while it stood by may be gone.
        body = _make_body(prepared)
    connection, _lock, output = descriptors
    _live(socket.socket(fileno=connection), output, body, wakeup)


def _live(connection: socket.socket, output: int, body: Body | str, wakeup: int) -> NoReturn:
    launch, more = _read_launch(connection)
    directory = os.open(launch["directory"], _DIRECTORY)
    control = Control(directory, connection, more)
    control.announce({"event": "started"})
    supervision = _begin(launch, body, control, directory=directory, output=output, wakeup=wakeup)
    end = supervision.run() if isinstance(supervision, Supervision) else supervision
    record.write_end(directory, end)
    if isinstance(supervision, Supervision):
        supervision.merge()
    # The daemon may answer now; what only a loss of power could undo follows before this process ends.
    control.announce({"event": "ended", "end": end})
    record.make_durable(directory)
    if isinstance(body, Body) and body.group is not None:
        body.group.remove()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(record.SOCKET, dir_fd=directory)
    os._exit(0)


def _begin(
    launch: Launch, body: Body | str, control: Control, *, directory: int, output: int, wakeup: int
) -> Supervision | End:
    if isinstance(body, str):
        return build_end(TaskState.FAILED, body, started_at=None)
    try:
        record.take_room(directory)
        body.enclose(launch["id"], directory)
        launch["env"].setdefault("TMPDIR", body.temporary)
        return Supervision(launch, body, output=output, control=control, wakeup=wakeup)
    except OSError as exc:
        return build_end(TaskState.FAILED, explain(launch, "start", exc.errno or 0), started_at=None)


def _make_body(prepared: Prepared | None) -> Body | str:
    """The task's side of the fork, or why there can be none."""
    try:
        return Body(prepared)
    except SandboxFailed as exc:
        return explain_fork(exc.errno) if exc.errno in NO_ROOM else exc.message
    except OSError as exc:
        return explain_fork(exc.errno or 0)


def _hear_signals() -> int:
    """Have children's ends and SIGTERM written to a pipe; returns its reading end."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return reader


def _read_launch(connection: socket.socket) -> tuple[Launch, bytes]:
    """What to run, and what of the commands for it has come with that."""
    held = b""
    while b"\n" not in held:
        chunk = connection.recv(1 << 16)
        if not chunk or len(held) > MAX_LINE_BYTES:
            # The daemon is gone before it asked for anything.
            os._exit(1)
        held += chunk
    line, _, more = held.partition(b"\n")
    return cast("Launch", json.loads(line)), more
