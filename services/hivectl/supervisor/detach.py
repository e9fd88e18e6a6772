"""`up --detach`: a supervisor in a session of its own, and the command that waits until it is up.

The two speak JSON lines over one pipe: `{"say": …}` while it starts, then `{"up": …}` or `{"failed": …}`. The
supervisor is a new program (exec, not fork), and the pipe is all it has of the caller's descriptors.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from services.hivectl.provision import ensure_hive_files
from services.hivectl.supervisor.bring_up import StartReport
from services.hivectl.supervisor.console import Console, PipeConsole
from services.hivectl.supervisor.request import UpRequest
from services.hivectl.supervisor.supervise import supervise, supervisor_log
from shared import errors
from shared.errors import HiveError, Misconfigured


def start_detached(request: UpRequest, console: Console) -> StartReport:
    """Start a supervisor and wait until it is up. On Ctrl-C the supervisor is brought down again.

    Raises:
        HiveError: why it is not up; it has ended then.
    """
    ensure_hive_files(request.layout)
    read_fd, write_fd = os.pipe()
    with os.fdopen(read_fd, encoding="utf-8") as pipe:
        try:
            process = _start(request, write_fd)
        finally:
            os.close(write_fd)
        try:
            report = _follow(pipe, console)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            process.wait()
            raise
    if report is None:
        # It ended without a word.
        lines = supervisor_log(request.layout).tail()
        raise HiveError(
            f"the supervisor ended with status {process.wait()}; its log:\n{lines}", code="start_failed"
        )
    # It is meant to outlive us; without this its object would warn that it still runs.
    process.returncode = 0
    return report


def run_detached(request: UpRequest, status_fd: int) -> int:
    """The supervisor's side: descriptors 0 to 2 lead nowhere or to its log. Returns the exit code."""
    # A pipe of the caller must not end up in units either.
    os.set_inheritable(status_fd, False)
    os.chdir(request.root)
    console = PipeConsole(status_fd)

    def tell(report: StartReport) -> None:
        console.finish({"up": {"running": report.running, "failed": report.failed}})

    try:
        supervise(request, console, on_up=tell)
    except HiveError as exc:
        failed = {
            "type": type(exc).__name__,
            "code": exc.code,
            "message": exc.message,
            "details": exc.details,
        }
        console.finish({"failed": failed})
        return 1
    return 0


def _start(request: UpRequest, write_fd: int) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-P",
        "-m",
        "services.hivectl.supervisor",
        request.model_dump_json(),
        str(write_fd),
    ]
    try:
        with supervisor_log(request.layout).open() as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(write_fd,),
                start_new_session=True,
            )
    except OSError as exc:
        raise Misconfigured(f"the supervisor cannot be started: {exc.strerror} ({exc.filename})") from exc


def _follow(pipe: Iterator[str], console: Console) -> StartReport | None:
    """Pass on what it says until it is up; None when the pipe ends without either answer."""
    for line in pipe:
        message = json.loads(line)
        if "say" in message:
            console.say(message["say"])
        elif "up" in message:
            return StartReport(tuple(message["up"]["running"]), tuple(message["up"]["failed"]))
        else:
            raise _rebuild(message["failed"])
    return None


def _rebuild(failed: Mapping[str, Any]) -> HiveError:
    """The same error in the same class, so that the exit code is the one of `up` in the foreground."""
    kind = getattr(errors, failed["type"], HiveError)
    rebuilt: HiveError = kind(failed["message"], code=failed["code"], details=failed["details"])
    return rebuilt
