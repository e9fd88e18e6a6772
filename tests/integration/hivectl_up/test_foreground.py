"""`hivectl up` in the foreground: what it shows, and what Ctrl-C does."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.hivectl.supervisor.children import list_running
from services.hivectl.supervisor.instance import is_running
from shared.layout import HiveLayout
from tests.integration.hivectl_up.foreground import on_terminal
from tests.support.ports import find_port_base
from tests.support.waiting import eventually


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "h"
    assert not is_running(HiveLayout(tmp_path / "h"))


def pid_of(root: Path, name: str) -> int:
    return next(one.pid for one in list_running(HiveLayout(root)) if one.name == name)


def test_ctrl_c_stops_everything_in_order(root: Path) -> None:
    with on_terminal(root, "--port-base", str(find_port_base())) as terminal:
        terminal.wait_for("stop: Ctrl-C")
        for shown in ("nats", "broker", "hyperhive-ruth", "claude --mcp-config", "--strict-mcp-config"):
            assert shown in terminal.shown
        running = {one.name for one in list_running(HiveLayout(root))}
        assert running == {"nats", "broker", "fork-server", "hyperhive-ruth", "bash-ruth"}
        terminal.press_ctrl_c()
        assert terminal.wait_for_end() == 0
    order = [line.split()[0] for line in terminal.shown.splitlines() if line.rstrip().endswith(" stopped")]
    assert order == ["ruth", "broker", "nats"]
    assert list_running(HiveLayout(root)) == []


def test_a_crash_is_shown(root: Path) -> None:
    with on_terminal(root, "--port-base", str(find_port_base())) as terminal:
        terminal.wait_for("stop: Ctrl-C")
        os.kill(pid_of(root, "broker"), signal.SIGKILL)
        terminal.wait_for("ended by SIGKILL, starts again in 0.2 s")
        terminal.press_ctrl_c()
        assert terminal.wait_for_end() == 0


def test_ctrl_c_while_starting_leaves_nothing(root: Path) -> None:
    with on_terminal(root, "--port-base", str(find_port_base())) as terminal:
        terminal.wait_for("ready")
        terminal.press_ctrl_c()
        assert terminal.wait_for_end() == 0
    eventually(lambda: not list_running(HiveLayout(root)), what="nothing runs")


def test_twice_ends_everything_at_once(root: Path) -> None:
    with on_terminal(root, "--port-base", str(find_port_base())) as terminal:
        terminal.wait_for("stop: Ctrl-C")
        os.kill(pid_of(root, "hyperhive-ruth"), signal.SIGSTOP)
        terminal.press_ctrl_c()
        terminal.wait_for("stopping;")
        terminal.press_ctrl_c()
        terminal.wait_for_end(within=10)
    assert list_running(HiveLayout(root)) == []
