"""Serving, seen from outside: sockets, signals, exit codes, what the log says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from shared.runtime.sockets import bind_listener
from tests.support.ports import free_port
from tests.support.waiting import eventually

MODULE = [sys.executable, "-m", "tests.unit.shared.runtime.serve_demo"]
ROOT = Path(__file__).parents[4]
HEADERS = {"Authorization": f"Bearer {'t' * 43}"}


class Demo:
    """One process of the demo unit."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, url: str) -> None:
        self.process = process
        self.log = log
        self.url = url

    def get(self, path: str) -> httpx2.Response:
        return httpx2.get(self.url + path, headers=HEADERS, trust_env=False, timeout=15)

    def heard(self, event: str) -> dict[str, Any] | None:
        lines = [line for line in self.log.read_text().splitlines() if f'"{event}"' in line]
        return json.loads(lines[0]) if lines else None

    def wait_for(self, event: str) -> dict[str, Any]:
        found = eventually(lambda: self.heard(event), what=event)
        assert found is not None
        return found

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        return self.process.wait(20)


@contextmanager
def running(directory: Path, *, until: str = "serving_started", **env: str) -> Iterator[Demo]:
    """The demo on a socket that this test holds, once it serves."""
    log = directory / f"{len(list(directory.iterdir()))}.log"
    with bind_listener("127.0.0.1", 0, setting="none") as listener, log.open("wb") as output:
        fd = listener.fileno()
        process = subprocess.Popen(
            MODULE,
            env={**os.environ, "HIVE_LISTEN_FD": str(fd), **env},
            pass_fds=[fd],
            cwd=ROOT,
            stderr=output,
        )
        demo = Demo(process, log, f"http://127.0.0.1:{listener.getsockname()[1]}")
        try:
            demo.wait_for(until)
            yield demo
        finally:
            process.kill()
            process.wait()


def run(**env: str) -> tuple[int, str]:
    """The demo when it cannot start: exit code and stderr."""
    done = subprocess.run(
        MODULE, check=False, env={**os.environ, **env}, cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    return done.returncode, done.stderr


def test_a_taken_port_ends_with_3_and_names_the_setting() -> None:
    with bind_listener("127.0.0.1", 0, setting="none") as other:
        code, text = run(DEMO_PORT=str(other.getsockname()[1]))

    assert code == 3
    assert "is taken; set HIVE_DEMO_PORT" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("env", "code", "text"),
    [
        ({"DEMO_MODE": "early"}, 3, "no such directory; set HIVE_ROOT"),
        ({"DEMO_MODE": "misconfigured"}, 3, "the token file is missing; set HIVE_TOKEN_FILE"),
        ({"DEMO_HOST": "0.0.0.0"}, 3, "refusing to serve on 0.0.0.0"),
        ({"HIVE_LISTEN_FD": "77"}, 3, "descriptor 77 of HIVE_LISTEN_FD is no open socket"),
    ],
)
def test_wrong_settings_end_with_3_and_one_line(env: dict[str, str], code: int, text: str) -> None:
    found, said = run(**env)

    assert (found, text in said) == (code, True)
    assert "Traceback" not in said


def test_a_bug_in_the_start_ends_with_1_so_that_it_is_tried_again() -> None:
    code, text = run(DEMO_MODE="bug")

    assert code == 1
    assert "a bug in the start" in text


def test_an_inherited_socket_outlives_the_unit_and_calls_wait_for_the_next(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with bind_listener("127.0.0.1", 0, setting="none") as listener, log.open("wb") as output:
        fd = listener.fileno()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def start() -> Demo:
            env = {**os.environ, "HIVE_LISTEN_FD": str(fd)}
            process = subprocess.Popen(MODULE, env=env, pass_fds=[fd], cwd=ROOT, stderr=output)
            return Demo(process, log, url)

        answers: list[httpx2.Response] = []
        first = second = start()
        try:
            first.wait_for("serving_started")
            # Own port in Host is right although another process bound the socket.
            assert first.get("/environment").json() == []
            first.signal()
            assert first.end() == 0
            waiting = threading.Thread(target=lambda: answers.append(first.get("/environment")))
            waiting.start()
            second = start()
            waiting.join(20)
        finally:
            for demo in (first, second):
                demo.process.kill()
                demo.process.wait()
    assert [answer.status_code for answer in answers] == [200]


@pytest.mark.skipif(
    not shutil.which("systemd-socket-activate"), reason="systemd-socket-activate is not installed"
)
def test_a_socket_of_systemd_is_taken(tmp_path: Path) -> None:
    port = free_port()
    command = ["systemd-socket-activate", "-l", f"127.0.0.1:{port}", *MODULE]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stderr=output, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        demo = Demo(process, log, f"http://127.0.0.1:{port}")
        try:
            assert eventually(lambda: demo.get("/environment"), what="activation").json() == []
            demo.signal()
            assert demo.end() == 0
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_streams_lets_requests_finish_and_exits_0(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running(tmp_path) as demo:
        results: list[Any] = []
        slow = threading.Thread(target=lambda: results.append(demo.get("/slow").json()))
        endless = threading.Thread(target=lambda: results.append(demo.get("/endless").text))
        slow.start()
        endless.start()
        demo.wait_for("slow_started")
        demo.wait_for("endless_started")

        demo.signal(number)

        assert demo.end() == 0
        for thread in (slow, endless):
            thread.join(10)
        assert sorted(results, key=str) == ["first\nlast\n", {"slow": "done"}]
        assert demo.heard("request_cut") is None
        assert demo.heard("lifespan_closed")
        assert demo.heard("main_returned")


def test_a_kept_connection_is_answered_once_more_and_then_closed(tmp_path: Path) -> None:
    with (
        running(tmp_path) as demo,
        httpx2.Client(base_url=demo.url, headers=HEADERS, trust_env=False) as client,
    ):
        assert "connection" not in client.get("/environment").headers
        demo.signal()
        demo.wait_for("stop_started")
        last = client.get("/environment")

        assert (last.status_code, last.headers["connection"]) == (200, "close")
        assert demo.end() == 0


def test_what_does_not_end_in_time_is_cut_and_named(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        answers: list[httpx2.Response] = []
        deaf = threading.Thread(target=lambda: answers.append(demo.get("/deaf")))
        deaf.start()
        demo.wait_for("deaf_started")

        demo.signal()

        assert demo.end() == 0
        deaf.join(10)
        assert (answers[0].status_code, answers[0].json()["code"]) == (504, "outcome_unknown")
        assert "Traceback" not in demo.log.read_text()
        cut = demo.wait_for("request_cut")
        assert (cut["method"], cut["path"], cut["level"]) == ("GET", "/deaf", "warning")


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with running(tmp_path) as demo:

        def ask() -> None:
            with pytest.raises(httpx2.HTTPError):
                demo.get("/deaf")

        deaf = threading.Thread(target=ask)
        deaf.start()
        demo.wait_for("deaf_started")

        demo.signal()
        demo.wait_for("stop_started")
        demo.signal()

        assert demo.end() == 128 + signal.SIGTERM
        deaf.join(10)
        assert demo.heard("lifespan_closed") is None


def test_hangup_changes_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        demo.signal(signal.SIGHUP)

        assert demo.get("/environment").status_code == 200


def test_a_bug_in_on_stop_does_not_keep_the_unit_alive(tmp_path: Path) -> None:
    with running(tmp_path, DEMO_MODE="on_stop") as demo:
        demo.signal()

        assert demo.end() == 0
        assert demo.heard("on_stop_failed")


def test_a_failed_background_task_ends_the_unit(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        demo.get("/crash")

        assert demo.end() == 1
        assert "the database is gone" in demo.log.read_text()


def test_a_unit_that_cannot_close_is_ended_all_the_same(tmp_path: Path) -> None:
    with running(tmp_path, DEMO_MODE="stuck") as demo:
        demo.signal()

        assert demo.end() == 1
        assert demo.heard("stop_overran")


def test_a_start_that_hangs_is_ended_by_a_signal_in_bounded_time(tmp_path: Path) -> None:
    with running(tmp_path, until="start_waits", DEMO_MODE="slow_start") as demo:
        demo.signal()

        assert demo.end() == 1
        assert demo.heard("stop_overran")


def test_no_line_but_json_is_logged(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        demo.get("/environment")
        demo.signal()
        demo.end()

        for line in demo.log.read_text().splitlines():
            assert {"at", "level", "event", "unit", "agent"} <= set(json.loads(line))
