"""A hive whose database was restored from a backup, as docs/operating.md describes: files newer than rows."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread
import pytest

from tests.support.access import AgentAccess, request
from tests.support.hive import Hive, running_hive
from tests.support.notices import Notice, connected_reader
from tests.support.script import JsonObject


@pytest.fixture
def hive() -> Iterator[Hive]:
    with running_hive("--agent", "iris") as running:
        running.ctl("agent", "stop", "iris")
        yield running


def back_up(hive: Hive, copy: Path) -> None:
    hive.down()
    shutil.copytree(hive.layout.database.parent, copy)
    hive.up()


def restore(hive: Hive, copy: Path) -> None:
    hive.down()
    shutil.rmtree(hive.layout.database.parent)
    shutil.copytree(copy, hive.layout.database.parent)
    hive.up()


def live_on(hive: Hive) -> tuple[JsonObject, str]:
    """What the backup does not know of: a reader, a rotated token, an agent more, another one less.

    Answers with the reader's login and ruth's token of before.
    """
    granted = hive.ctl("notices", "grant", "late")
    old = hive.agent("ruth").token
    hive.ctl("token", "rotate", "ruth", "--now")
    hive.ctl("agent", "add", "fred")
    (hive.agent("fred").state_dir / "notes").write_text("fred's work")
    hive.ctl("send", "iris", "never to be read")
    hive.ctl("agent", "destroy", "iris", "--yes")
    keys = ("url", "inbox_prefix", "durable")
    login = {key: granted[key] for key in keys}
    return {**login, "reader_user": granted["user"], "reader_password_file": granted["password_file"]}, old


def self_status(agent: AgentAccess, token: str) -> int:
    return request("GET", f"{agent.broker_url}/v1/agent/self", token=token).status_code


def ids(notices: list[Notice]) -> list[str]:
    return [notice.event["id"] for notice in notices]


@pytest.mark.requirement("restore.hive", "notices.restored-database")
async def test_a_hive_goes_on_from_an_older_database(hive: Hive, tmp_path: Path) -> None:
    await anyio.to_thread.run_sync(back_up, hive, tmp_path / "db")
    login, old = await anyio.to_thread.run_sync(live_on, hive)
    fred_port = int(hive.agent("fred").surface_url.rpartition(":")[2])
    async with connected_reader(login) as reader:
        seen = await reader.fetch(100)
    await anyio.to_thread.run_sync(restore, hive, tmp_path / "db")

    # Readers and tokens are files, and those count.
    ready = {one["name"]: one["ready"] for one in hive.ctl("notices", "readers")}
    assert ready == {"default": True, "late": True}
    ruth = hive.agent("ruth")
    assert (self_status(ruth, ruth.token), self_status(ruth, old)) == (200, 401)
    assert not (await ruth.acall("get_agent_meta")).is_error
    # The registry is the backup's: who was destroyed since is there again, without what was sent to it.
    iris = hive.ctl("agent", "show", "iris")
    assert (iris["state"], iris["wanted"], iris["pending"]) == ("stopped", False, 0)
    # Who was made since is unknown; it is said so, its port is free, and its work waits for it.
    hive.ctl("agent", "show", "fred", exits=4)
    findings = {check["name"]: check for check in hive.ctl("doctor")["checks"] if not check["ok"]}
    assert "hivectl agent add fred" in findings["agent.fred"]["mend"]
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", fred_port)) != 0
    fred = hive.ctl("agent", "add", "fred")
    assert fred["state"] == "running"
    assert (Path(fred["state_dir"]) / "notes").read_text() == "fred's work"
    assert not (await hive.agent("fred").acall("get_agent_meta")).is_error
    assert {check["severity"] for check in hive.ctl("doctor")["checks"]} <= {"info", "warning"}
    # What was told stays told, once; the durable goes on where it was.
    async with connected_reader(login) as reader:
        told = await reader.history()
        new = await reader.fetch(100)
    assert len(set(ids(told))) == len(told)
    assert ids(seen + new) == ids(told)
    assert ("fred", "started") in {notice.what for notice in new}
