"""Why a task could not be started, in words for whoever asked for it."""

from __future__ import annotations

import errno
import os

from shared.tasks.model import Launch

NO_ROOM = (errno.EAGAIN, errno.ENOMEM)


def explain_fork(number: int) -> str:
    """The text for a process that could not be made (fork(2))."""
    if number in NO_ROOM:
        return "the machine has no room for another process now; end some tasks, or try again later"
    return f"no process can be made for it: {os.strerror(number)}"


def explain(launch: Launch, what: str, number: int) -> str:
    """The text for a step that failed with an errno (0: unknown)."""
    told = os.strerror(number) if number else "unknown error"
    if what == "cwd":
        return _explain_cwd(launch["cwd"], number, told)
    if number in NO_ROOM:
        return explain_fork(number)
    if (what, number) == ("exec", errno.E2BIG):
        return "the command and its environment together are longer than the kernel takes; put it into a file"
    texts = {"exec": f"{launch['argv'][0]} cannot be started", "limit": "a limit of the task cannot be set"}
    return f"{texts.get(what, 'it cannot be started')}: {told}"


def _explain_cwd(cwd: str, number: int, told: str) -> str:
    if number == errno.ENOENT:
        return f"cwd {cwd} does not exist, or is outside of what tasks may use"
    if number == errno.ENOTDIR:
        return f"cwd {cwd} is no directory"
    return f"cwd {cwd} cannot be entered: {told}"
