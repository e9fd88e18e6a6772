"""NATS down at the start, for long, and for good: everything but notices goes on, and those follow."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.hivectl.nats_config import find_nats_server
from shared.layout import PortPlan
from tests.support.access import AgentAccess, request
from tests.support.hive import UP_SECONDS, Hive
from tests.support.lone_broker import LoneBroker, lone_broker
from tests.support.notices import connected_reader
from tests.support.ports import find_port_base
from tests.support.waiting import eventually

LIFE = ("started", "stopped")


@pytest.fixture
def hive(tmp_path: Path) -> Iterator[LoneBroker]:
    """A broker whose NATS server was not there at its start."""
    with lone_broker(tmp_path, start_nats=False) as running:
        yield running


def exchange(ruth: AgentAccess, iris: AgentAccess, body: str) -> None:
    """A message goes from one to the other, is taken and acked."""
    sent = ruth.json("POST", "/messages", {"to": "iris", "body": body})["sent"][0]["id"]
    taken = iris.json("POST", "/inbox/recv", {"max": 5})["messages"]
    assert [(row["id"], row["body"]) for row in taken] == [(sent, body)]
    assert iris.json("POST", "/inbox/ack", {"up_to": sent})["acked"] == 1


def works_without_nats(hive: LoneBroker, *, waiting: int) -> None:
    """Messages pass, it is ready, and it says how many notices wait."""
    exchange(hive.units.agents["ruth"], hive.units.agents["iris"], f"beside {waiting} notices")
    assert request("GET", f"{hive.units.broker.url}/readyz").status_code == 200
    info = hive.hive()
    assert (info["nats_connected"], info["notices_waiting"]) == (False, waiting)


@pytest.mark.requirement("notices.outage")
async def test_nats_that_comes_late_goes_for_long_and_hangs_costs_no_notice(hive: LoneBroker) -> None:
    expected = 0

    def live_on() -> None:
        nonlocal expected
        for _ in range(3):
            hive.saw("ruth", *LIFE)
            hive.saw("iris", *LIFE)
            expected += 4

    # Not there at the start.
    for done in range(3):
        works_without_nats(hive, waiting=4 * done)
        hive.saw("ruth", *LIFE)
        hive.saw("iris", *LIFE)
    expected = 12
    hive.server.start()
    hive.wait_published()
    # Away for long; the broker is killed meanwhile, and comes back to the same.
    hive.server.kill()
    eventually(lambda: not hive.hive()["nats_connected"], what="the broker sees that NATS is gone")
    live_on()
    works_without_nats(hive, waiting=12)
    hive.units.broker.kill()
    hive.units.broker.start()
    live_on()
    works_without_nats(hive, waiting=24)
    hive.server.start()
    hive.wait_published()
    # There, and silent.
    hive.server.signal(signal.SIGSTOP)
    live_on()
    exchange(hive.units.agents["ruth"], hive.units.agents["iris"], "beside a server that hangs")
    assert hive.hive()["notices_waiting"] == 12
    hive.server.signal(signal.SIGCONT)
    hive.wait_published()

    told = await hive.published()
    assert len(told) == expected == 48
    assert [notice.what for notice in told] == [
        *(("ruth", event) for event in LIFE),
        *(("iris", event) for event in LIFE),
    ] * (expected // 4)
    assert len({notice.event["id"] for notice in told}) == expected


@pytest.mark.requirement("notices.outage")
def test_nats_that_never_comes_holds_up_neither_work_nor_stop(hive: LoneBroker) -> None:
    for lives in range(3):
        works_without_nats(hive, waiting=lives * len(LIFE))
        hive.saw("ruth", *LIFE)
        hive.stop_broker()
        hive.units.broker.start()
    works_without_nats(hive, waiting=3 * len(LIFE))


@pytest.fixture
def lame() -> Iterator[Hive]:
    """The root of a hive whose own nats-server starts only once the file `mended` is there."""
    root = Path(tempfile.mkdtemp(prefix="hh-"))
    lame = Hive(root, PortPlan(find_port_base()))
    program = root / "nats-server"
    program.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = --version ] || [ -e {root}/mended ] || {{ echo "no store today" >&2; exit 1; }}\n'
        f'exec {find_nats_server(None)} "$@"\n'
    )
    program.chmod(0o700)
    try:
        yield lame
    finally:
        lame.close()
        shutil.rmtree(root, ignore_errors=True)


@pytest.mark.requirement("notices.outage")
async def test_a_hive_whose_own_nats_does_not_start_is_up_and_says_what_waits(lame: Hive) -> None:
    (lame.layout.root / "home").mkdir()
    base = ("--port-base", str(lame.ports.base))
    program = {"NATS_SERVER_BIN": str(lame.layout.root / "nats-server")}
    up = lame.run("up", "--detach", "--agent", "iris", *base, within=UP_SECONDS, env=program)
    assert up.returncode == 1
    assert "nats exited with code 1 before it was ready; it logged:\nno store today" in up.stdout
    assert "notices wait until it is there" in up.stdout

    ruth, iris = lame.agent("ruth"), lame.agent("iris")
    assert "queued" in (await ruth.acall("send", to="iris", body="hello")).ok()
    assert "hello" in (await iris.acall("recv")).ok()
    assert lame.ctl("agent", "restart", "iris")["state"] == "done"
    found = {check["name"]: check for check in lame.ctl("doctor", exits=1)["checks"] if not check["ok"]}
    assert "notices wait and follow later" in found["nats.broker"]["detail"]
    assert lame.operator.json("GET", "/hive")["notices_waiting"] == 4
    granted = lame.run("notices", "grant", "pager", "--json")
    assert (granted.returncode, json.loads(granted.stdout)["ready"]) == (0, False)
    assert "cannot read yet: nats-server does not answer" in granted.stderr

    (lame.layout.root / "mended").touch()
    eventually(
        lambda: lame.operator.json("GET", "/hive")["notices_waiting"] == 0, within=60, what=lame.tails()
    )
    reader = lame.ctl("notices", "grant", "pager")
    assert reader["ready"] is True
    login = {**reader, "reader_user": reader["user"], "reader_password_file": reader["password_file"]}
    async with connected_reader(login) as connected:
        told = [notice.what for notice in await connected.fetch(10)]
    assert sorted(told[:2]) == [("iris", "started"), ("ruth", "started")]
    assert told[2:] == [("iris", "stopped"), ("iris", "started")]
