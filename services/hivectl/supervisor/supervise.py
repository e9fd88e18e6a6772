"""Runs the supervisor in this process, from the lock to the last log line."""

from __future__ import annotations

import io
import os
import resource
import time
from collections.abc import Callable
from typing import Any

import anyio
import structlog

from services.hivectl.provision import ensure_hive_files
from services.hivectl.spool import EventSpool, spool_path
from services.hivectl.supervisor.bring_up import StartReport
from services.hivectl.supervisor.children import end_leftovers
from services.hivectl.supervisor.console import Console
from services.hivectl.supervisor.hive import Hive
from services.hivectl.supervisor.instance import acquire
from services.hivectl.supervisor.log_file import LogFile
from services.hivectl.supervisor.request import UpRequest, settle_plan
from shared.errors import HiveError
from shared.layout import HiveLayout
from shared.revision import revision
from shared.runtime.harden import harden_process
from shared.runtime.log import configure_logging

LEFTOVER_SECONDS = 10.0
_OPEN_FILES = 16_384

_log = structlog.get_logger(__name__)


def supervise(request: UpRequest, console: Console, *, on_up: Callable[[StartReport], None]) -> None:
    """Run the hive until a signal. Everything is down again when it returns or raises.

    Raises:
        Conflict: when a supervisor of this root runs already.
        Misconfigured: when something in the way must be changed first; nothing was started.
        HiveError: when the hive did not come up.
    """
    layout = request.layout
    ensure_hive_files(layout)
    lock = acquire(layout)
    whoami: dict[str, Any] = {
        "pid": os.getpid(),
        "started_at": int(time.time()),
        "revision": revision(),
    }
    try:
        lock.describe(whoami)
        with io.TextIOWrapper(supervisor_log(layout).open(), encoding="utf-8", line_buffering=True) as log:
            configure_logging("supervisor", stream=log)
            harden_process()
            _raise_open_files()
            end_leftovers(layout, grace_seconds=LEFTOVER_SECONDS, say=console.say)
            plan, listeners = settle_plan(request)
            port_base = plan.settings.port_base
            foreign = plan.nats.url if plan.nats.config is None else None
            whoami |= {"port_base": port_base, "nats_url": foreign}
            lock.describe(whoami)
            spool = EventSpool(spool_path(layout))
            _log.info("supervisor_started", root=str(layout.root), port_base=port_base, revision=revision())

            def tell_stopping() -> None:
                lock.describe({**whoami, "stopping": True})

            async def run() -> None:
                hive = Hive(plan, listeners, spool, console, on_up=on_up, on_stopping=tell_stopping)
                await hive.run(request.agents)

            try:
                anyio.run(run)
            except HiveError as exc:
                _log.error("hive_not_up", code=exc.code, reason=exc.message)
                raise
            finally:
                spool.close()
                _log.info("supervisor_ended")
    finally:
        lock.release()


def _raise_open_files() -> None:
    """A socket and a handle each of some hundred agents are more than the usual soft limit of 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def supervisor_log(layout: HiveLayout) -> LogFile:
    """Where the supervisor itself logs."""
    return LogFile(layout.logs_dir / "supervisor.log")
