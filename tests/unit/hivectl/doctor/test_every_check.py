"""Each check of the catalogue can fail: one scene a name, in which it must, with a way to mend it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from services.hivectl.doctor.catalogue import CATALOGUE, find_kind
from services.hivectl.doctor.check import Check, Severity
from services.hivectl.doctor.clock import check_difference, check_newest
from services.hivectl.doctor.examination import examine
from services.hivectl.doctor.flow import check_parked, check_refused, check_relay, check_waiting
from services.hivectl.doctor.hive_state import BrokerState, check_driver, check_nats_version
from services.hivectl.doctor.isolation import check_isolation
from services.hivectl.doctor.machine import check_disk, check_memory, check_open_files
from services.hivectl.doctor.ports import ExpectedPort, check_ports
from services.hivectl.doctor.processes import check_wal
from services.hivectl.doctor.readers import check_readers
from services.hivectl.doctor.surface import check_agent
from services.hivectl.doctor.versions import (
    check_claude,
    check_packages,
    check_python,
    check_revision,
    check_sqlite,
)
from services.hivectl.hive_file import read_hive_file
from services.hivectl.sandbox_probe import Sandbox
from services.hivectl.spool import EventSpool, spool_path
from services.hivectl.supervisor.children import ChildRegister
from services.hivectl.supervisor.spawn import spawn
from shared.wire.lifecycle import DriverEventKind
from shared.wire.refusals import Refusal
from tests.unit.hivectl.doctor.stage import HIVE, IRIS, Stage
from tests.unit.hivectl.supervisor.tiny import RUNS, shell_spec

Scene = Callable[[Stage], Check]
SCENES: dict[str, Scene] = {}


def scene(name: str) -> Callable[[Scene], Scene]:
    """The scene in which the check of this name fails."""

    def note(play: Scene) -> Scene:
        SCENES[name] = play
        return play

    return note


def full(used_percent: int, *, read_only: bool = False) -> list[Check]:
    """The checks of a disk that is so full."""
    free = 100 - used_percent
    flag = os.ST_RDONLY if read_only else 0
    stats = os.statvfs_result((4096, 4096, 100, free, free, 100, free, free, flag, 255))
    return check_disk(Path("/hive"), stats_of=lambda _: stats)


SCENES |= {
    "python": lambda _: check_python((3, 10, 9)),
    "packages": lambda _: check_packages(["anyio>=1", 'click<2; extra == "cli"']),
    "sqlite": lambda _: check_sqlite("3.34.1"),
    "claude": lambda _: check_claude("no-such-program"),
    "disk": lambda _: full(95)[0],
    "disk.inodes": lambda _: full(85)[1],
    "disk.writable": lambda _: full(1, read_only=True)[2],
    "broker.revision": lambda _: check_revision("broker.revision", "the broker", HIVE.revision),
    "supervisor.revision": lambda _: check_revision("supervisor.revision", "the supervisor", "0.0.1"),
    "supervisor": lambda _: check_driver(HIVE),
    "messages.parked": lambda _: check_parked(HIVE),
    "notices.waiting": lambda _: check_waiting(HIVE, 1061),
    "nats.broker": lambda _: check_relay(HIVE, is_nats_ours=True)[0],
    "nats.durability": lambda _: check_relay(
        HIVE.model_copy(update={"nats_connected": True, "nats_sync_always": False}), is_nats_ours=True
    )[1],
    "nats.version": lambda _: check_nats_version((2, 14, 5), is_ours=True),
    "clock.broker": lambda _: check_difference("clock.broker", "the broker", 1000, (1006, 1007)),
    "clock.nats": lambda _: check_difference("clock.nats", "NATS", 1100, (1006, 1007)),
    "clock.stored": lambda _: check_newest("clock.stored", {"notice": 1006, "message": None}, 1000),
    "isolation": lambda stage: check_isolation(
        stage.layout, ["ruth"], find_sandbox=lambda: Sandbox("not isolated: nothing can", exists=False)
    ),
    "broker": lambda stage: stage.examine("broker"),
    "nats.reader": lambda stage: stage.examine("nats.reader"),
}


@scene("memory")
def _(stage: Stage) -> Check:
    meminfo = stage.directory / "meminfo"
    meminfo.write_text("MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:   29 kB\n")
    return check_memory(meminfo)


@scene("open-files")
def _(stage: Stage) -> Check:
    limits = stage.directory / "limits"
    limits.write_text(
        "Limit   Soft Limit  Hard Limit  Units\nMax open files            256        4096     files\n"
    )
    return check_open_files(limits, whose="the broker", agents=1)


@scene("files.root")
def _(stage: Stage) -> Check:
    stage.layout.root.chmod(0o755)
    return stage.examine("files.root")


@scene("files.hive")
def _(stage: Stage) -> Check:
    stage.layout.hive_json.write_text("{")
    return stage.examine("files.hive")


@scene("files.contents")
def _(stage: Stage) -> Check:
    (stage.layout.nats_dir / "broker.password").write_text("")
    return stage.examine("files.contents")


@scene("files.agent.NAME")
def _(stage: Stage) -> Check:
    stage.layout.agent("iris").state_dir.chmod(0o705)
    return stage.examine("files.agent.iris")


@scene("database.wal")
def _(stage: Stage) -> Check:
    stage.layout.database.with_name("broker.sqlite-wal").write_bytes(b"x" * 11)
    return check_wal(stage.layout.database, large_bytes=10)


@scene("supervisor.leftovers")
def _(stage: Stage) -> Check:
    child = spawn(shell_spec(stage.directory, RUNS))
    try:
        ChildRegister(stage.layout).add(child)
        return stage.examine("supervisor.leftovers")
    finally:
        child.kill()
        child.reap()


@scene("supervisor.spool")
def _(stage: Stage) -> Check:
    spool = EventSpool(spool_path(stage.layout), now=lambda: 1000)
    spool.append(DriverEventKind.STARTED, 1)
    spool.close()
    return stage.examine("supervisor.spool")


@scene("messages.refused")
def _(_stage: Stage) -> Check:
    row = Refusal(
        id=1,
        sender="iris",
        recipient="fred",
        code="pair_too_fast",
        reason="",
        size=1,
        count=7,
        first_at=0,
        last_at=1000,
    )
    return check_refused([row], 1000 + 3599)


@scene("notices.readers")
def _(stage: Stage) -> Check:
    broker = BrokerState(answered=True)
    return check_readers(stage.layout, read_hive_file(stage.layout), broker)[0]


@scene("agent.NAME")
def _(stage: Stage) -> Check:
    down = IRIS.model_copy(update={"running": False})
    return check_agent(down, stage.layout.agent("iris").mcp_config)[0][0]


@scene("agent.NAME.revision")
def _(stage: Stage) -> Check:
    return check_agent(IRIS, stage.layout.agent("iris").mcp_config)[0][1]


@scene("surface.NAME.SURFACE")
def _(stage: Stage) -> Check:
    return check_agent(IRIS, stage.layout.agent("iris").mcp_config)[0][2]


@scene("port.PORT")
def _(_stage: Stage) -> Check:
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        port: int = foreign.getsockname()[1]
        return check_ports([ExpectedPort(port, "the broker", answered=False, wanted=True)])[0]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.mark.requirement("hivectl.doctor")
@pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.name)
def test_it_can_fail_and_says_how_to_mend_it(kind: object, stage: Stage) -> None:
    known = next(one for one in CATALOGUE if one is kind)
    check = SCENES[known.name](stage)
    assert known.matches(check.name)
    assert not check.ok
    assert check.mend
    assert known.fails if check.severity is Severity.ERROR else known.warns, check


def test_all_that_doctor_says_is_in_the_catalogue(stage: Stage) -> None:
    names = [check.name for check in examine(stage.layout)]
    assert not [name for name in names if find_kind(name) is None]
    assert len(names) > 15


def test_there_is_no_scene_of_a_check_that_is_gone() -> None:
    assert SCENES.keys() == {kind.name for kind in CATALOGUE}
