"""A NATS server that somebody else runs, and that is not as it should be: what is said must be of help."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from services.hivectl.doctor.check import Check, Severity
from services.hivectl.doctor.examination import examine
from services.hivectl.doctor.hive_state import check_nats_version
from services.hivectl.doctor.ports import ExpectedPort, check_ports
from services.hivectl.hive_file import NatsPart, read_hive_file
from services.hivectl.notice_login import is_nats_ours, read_login
from services.hivectl.supervisor.instance import acquire
from services.hivectl.supervisor.request import build_request, prepare_files
from shared.errors import Misconfigured
from shared.layout import HiveLayout
from tests.support.nats import nats_server
from tests.support.ports import free_port

PASSWORD = "reader-" + "x" * 20
# Nothing of what the hive starts is missing.
USELESS = ("then `hivectl up`, ", "start the hive", "logs are in the root's", "restart the hive")


@pytest.fixture
def port() -> int:
    """One on which nobody listens."""
    return free_port()


def prepare(directory: Path, url: str, *, password: str = PASSWORD) -> HiveLayout:
    """The files of a hive whose NATS server is elsewhere, with a reader there."""
    layout = HiveLayout(directory / "h")
    readers = layout.nats_dir / "readers"
    readers.mkdir(parents=True, mode=0o700)
    (readers / "default.password").write_text(password)
    (readers / "default.password").chmod(0o600)
    prepare_files(
        build_request(root=layout.root, agents=(), port_base=None, nats_url=url, hive_name=None), {}
    )
    return layout


def part_of(layout: HiveLayout) -> NatsPart:
    part = read_hive_file(layout).nats
    assert part is not None
    return part


def look(layout: HiveLayout, name: str) -> Check:
    """What doctor says of it while the hive is up."""
    lock = acquire(layout)
    try:
        (check,) = (check for check in examine(layout) if check.name == name)
    finally:
        lock.release()
    assert not any(word in f"{check.detail} {check.mend}" for word in USELESS)
    return check


def test_one_that_is_away_is_to_be_started_by_whoever_runs_it(tmp_path: Path, port: int) -> None:
    layout = prepare(tmp_path, f"nats://127.0.0.1:{port}")
    assert not is_nats_ours(layout)
    reader = look(layout, "nats.reader")
    assert reader.severity is Severity.ERROR
    assert reader.detail == f"NATS cannot be reached at nats://127.0.0.1:{port}"
    assert reader.mend == (
        "that server is not the hive's own: see to it that it runs at this address; or `hivectl down` and "
        "`hivectl up` with another --nats-url, `embedded` for the hive's own"
    )
    check = look(layout, f"port.{port}")
    assert check.detail == "nobody listens for NATS"
    assert check.mend == (
        "start it: it is not the hive's own; `hivectl down` and `hivectl up --nats-url URL` name another"
    )


def test_one_that_refuses_the_reader_is_its_operator_s_to_mend(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats", hive="hive", readers={"default": PASSWORD}) as server:
        layout = prepare(tmp_path, server.url, password="another-" + "x" * 20)
        reader = look(layout, "nats.reader")
    assert reader.detail == f"NATS at {server.url} refuses the reader 'hive-READER-default'"
    assert reader.mend.startswith(
        "that server is not the hive's own: whoever runs it must let that user read"
    )
    assert str(part_of(layout).reader_password_file) in reader.mend


def test_one_without_the_stream_yet_is_the_broker_s_to_fill(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats", hive="hive", readers={"default": PASSWORD}) as server:
        layout = prepare(tmp_path, server.url)
        reader = look(layout, "nats.reader")
    assert "no stream SWARM_NOTICES" in reader.detail
    assert reader.mend == "see nats.broker, and the broker's log"


def test_a_password_that_is_lost_is_to_be_put_there(tmp_path: Path, port: int) -> None:
    layout = prepare(tmp_path, f"nats://127.0.0.1:{port}")
    part = part_of(layout)
    part.reader_password_file.write_text("")
    with pytest.raises(Misconfigured, match="not the hive's own: put the password that hive-READER-default"):
        read_login(layout, part)
    reader = look(layout, "nats.reader")
    assert reader.detail == f"{part.reader_password_file} holds no password"
    assert "put the password" in reader.mend


def test_what_listens_in_its_place_is_not_mended_by_other_ports_of_the_hive(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        (check,) = check_ports([ExpectedPort(port, "NATS", answered=False, wanted=True, is_ours=False)])
    assert "--port-base" not in check.mend
    assert "--nats-url" in check.mend


def test_an_old_one_is_not_replaced_by_an_installation_here() -> None:
    assert check_nats_version((2, 10, 0), is_ours=False).mend == "use 2.14.6 or newer there"
