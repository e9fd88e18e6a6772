"""Readers where nats-server is not the supervisor's: started by systemd, or run by somebody else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.hivectl.nats_config import BROKER_USER, find_nats_server
from shared.layout import PortPlan
from shared.wire.notices import STREAM
from tests.support.access import request
from tests.support.hive import BIN, UP_SECONDS, Hive
from tests.support.nats import nats_server
from tests.support.ports import find_port_base
from tests.support.waiting import eventually


class Pair:
    """The files of `hivectl prepare`, and a broker and a nats-server that the test has started on them."""

    def __init__(self, root: Path) -> None:
        self.hive = Hive(root, PortPlan(find_port_base()))
        (root / "home").mkdir()
        made = self.hive.ctl("prepare", "--port-base", str(self.hive.ports.base))
        self.nats = subprocess.Popen(
            [find_nats_server(None), "-c", made["nats_config"]],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.broker = subprocess.Popen(
            [BIN / "hive-broker"],
            env={"PATH": os.defpath, "LANG": "C.UTF-8", **made["broker_settings"]},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=root,
        )
        url = f"http://127.0.0.1:{self.hive.ports.broker}"
        eventually(lambda: request("GET", f"{url}/readyz").status_code == 200, within=30, what="the broker")
        eventually(lambda: self.hive.operator.json("GET", "/hive")["nats_connected"], within=30)

    def end(self) -> None:
        for process in (self.broker, self.nats):
            process.kill()
            process.wait()

    def reload_until(self, *args: str, ready: bool = True) -> Any:
        """As its operator would: reload the server and repeat the command, until it says that it is done."""

        def attempt() -> Any:
            self.nats.send_signal(signal.SIGHUP)
            done = self.hive.run(*args, "--json")
            answer = json.loads(done.stdout)
            return answer if done.returncode == 0 and answer.get("ready", True) is ready else None

        return eventually(attempt, within=30, what=f"{args} is done")


@pytest.fixture
def pair() -> Iterator[Pair]:
    root = Path(tempfile.mkdtemp(prefix="hh-"))
    pair = Pair(root)
    try:
        yield pair
    finally:
        pair.end()
        shutil.rmtree(root, ignore_errors=True)


def test_what_to_reload_is_said_and_the_command_repeated_is_done(pair: Pair) -> None:
    hive = pair.hive
    first = hive.run("notices", "grant", "pager", "--json")
    assert (first.returncode, json.loads(first.stdout)["ready"]) == (0, False)
    assert "systemctl reload hive-nats" in first.stderr
    granted = pair.reload_until("notices", "grant", "pager")
    assert granted["password_file"] == json.loads(first.stdout)["password_file"]

    refused = hive.ctl("notices", "revoke", "pager", exits=1)["error"]
    assert refused["code"] == "still_let_in"
    assert "systemctl reload hive-nats" in refused["message"]
    findings = [check["detail"] for check in hive.ctl("doctor", exits=1)["checks"] if not check["ok"]]
    assert "pager was not revoked to the end" in findings
    assert pair.reload_until("notices", "revoke", "pager") == {"name": "pager", "revoked": True}
    assert "pager" not in {reader["name"] for reader in hive.ctl("notices", "readers")}


async def test_on_a_server_of_somebody_else_its_operator_makes_the_user(tmp_path: Path) -> None:
    passwords = {name: f"{name}-{'x' * 20}" for name in ("default", "pager")}
    root = Path(tempfile.mkdtemp(prefix="hh-"))
    hive = Hive(root, PortPlan(find_port_base()))
    readers = hive.layout.nats_dir / "readers"
    readers.mkdir(parents=True, mode=0o700)
    (root / "home").mkdir()
    try:
        with nats_server(tmp_path / "nats", hive="hive", readers=passwords) as server:
            write(readers / "default.password", passwords["default"])
            settings = {
                "HIVE_BROKER_NATS_USER": BROKER_USER,
                "HIVE_BROKER_NATS_PASSWORD_FILE": str(server.directory / "broker.password"),
            }
            base = ("--port-base", str(hive.ports.base))
            up = hive.run("up", "--detach", "--nats-url", server.url, *base, within=UP_SECONDS, env=settings)
            assert up.returncode == 0, up.stderr

            refused = hive.ctl("notices", "grant", "pager", exits=5)["error"]
            write(readers / "pager.password", passwords["pager"])
            granted = hive.ctl("notices", "grant", "pager")
            async with server.reader("pager") as (client, _):
                pull = await client.jetstream().pull_subscribe_bind(granted["durable"], STREAM)
                assert (await pull.fetch(1, timeout=5))[0].subject == "swarm.notices.hive.ruth.started"
            revoked = hive.run("notices", "revoke", "pager", "--json")

            # Neither the server nor who the broker is there need be said again.
            hive.down()
            hive.up()
            assert hive.hive_json()["nats"]["url"] == server.url
            assert hive.operator.json("GET", "/hive")["nats_connected"]
            other = hive.ctl("up", "--nats-url", "embedded", exits=5)["error"]
            hive.down()
            hive.up("--nats-url", "embedded")
            assert hive.hive_json()["nats"]["url"] == f"nats://127.0.0.1:{hive.ports.nats}"
            assert "nats" in hive.pids()
    finally:
        hive.close()
        shutil.rmtree(root, ignore_errors=True)
    assert f"--nats-url {server.url}, not embedded" in other["message"]
    assert refused["code"] == "foreign_nats"
    assert "must make the account and the user hive-READER-pager there" in refused["message"]
    assert (granted["ready"], granted["url"]) == (True, server.url)
    assert (revoked.returncode, json.loads(revoked.stdout)["revoked"]) == (0, True)
    assert "must end the user hive-READER-pager there" in revoked.stderr


def write(path: Path, secret: str) -> None:
    path.touch(mode=0o600)
    path.write_text(secret)
