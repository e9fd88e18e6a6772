"""Decides which of the three it is: in the foreground, detached, or joining what runs."""

from __future__ import annotations

import contextlib
import os
import shlex
import time

from services.hivectl.sandbox_probe import SandboxProbe
from services.hivectl.supervisor.bring_up import StartReport
from services.hivectl.supervisor.console import Console, QuietConsole, TerminalConsole
from services.hivectl.supervisor.detach import start_detached
from services.hivectl.supervisor.instance import ALREADY_RUNNING, is_running
from services.hivectl.supervisor.request import build_request
from services.hivectl.supervisor.supervise import supervise
from services.hivectl.up.join import join_running
from services.hivectl.up.options import UpOptions
from services.hivectl.up.summary import show_summary
from shared.errors import Conflict
from shared.layout import HiveLayout, default_root


def run_up(options: UpOptions) -> int:
    """Do it. In the foreground this returns when the hive is down again.

    Returns:
        0, or 1 when the hive runs but an agent did not start.

    Raises:
        HiveError: when there is no hive to speak of; the text says what to do.
    """
    _open_standard_streams()
    request = build_request(
        root=options.root,
        agents=options.agents,
        port_base=options.port_base,
        nats_url=options.nats_url,
        hive_name=options.hive_name,
    )
    console: Console = QuietConsole() if options.as_json else TerminalConsole()
    begun = time.monotonic()
    probe = SandboxProbe()
    exit_code = 0
    down = _down_command(request.layout)

    def show(report: StartReport, how_to_stop: str) -> None:
        nonlocal exit_code
        seconds = time.monotonic() - begun
        # Whoever read our output may have gone, which is no reason to end a hive.
        with contextlib.suppress(BrokenPipeError):
            show_summary(
                request.layout,
                report,
                seconds=seconds,
                sandbox=probe.read(),
                how_to_stop=how_to_stop,
                as_json=options.as_json,
            )
        exit_code = 1 if report.failed else 0

    while True:
        if is_running(request.layout):
            if (joined := join_running(request, console)) is not None:
                show(joined, down)
                return exit_code
            continue
        try:
            if options.detach:
                show(start_detached(request, console), down)
            else:
                supervise(request, console, on_up=lambda report: show(report, f"Ctrl-C, or {down}"))
        except Conflict as exc:
            # Another `up` was quicker.
            if exc.code == ALREADY_RUNNING:
                continue
            raise
        return exit_code


def _down_command(layout: HiveLayout) -> str:
    """What ends this hive, typed into the same shell."""
    if layout.root == default_root().expanduser().resolve():
        return "hivectl down"
    return f"hivectl down --root {shlex.quote(str(layout.root))}"


def _open_standard_streams() -> None:
    """Have descriptors 0 to 2 lead somewhere: a socket with such a number would be lost in a child."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
