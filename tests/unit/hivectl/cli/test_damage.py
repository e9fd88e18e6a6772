"""Whatever is wrong with a file that hivectl reads is said in one line that names it, and what to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from services.hivectl.__main__ import run
from services.hivectl.hive_file import AgentPart, HiveFile, read_hive_file
from services.hivectl.provision.surfaces import write_mcp_config
from services.hivectl.spool import EventSpool
from services.hivectl.supervisor.request import build_request, prepare_files
from shared.errors import Misconfigured
from shared.layout import HiveLayout, PortPlan
from shared.runtime.credential import new_token
from shared.runtime.files import make_private_dir, write_private
from tests.support.ports import find_port_base

Damage = Callable[[Path], None]


def _replace(content: bytes) -> Damage:
    def damage(path: Path) -> None:
        path.write_bytes(content)

    return damage


def _make_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def _make_fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


DAMAGES: dict[str, Damage] = {
    "empty": _replace(b""),
    "cut off": _replace(b'{"broker": {"url": "ht'),
    "noise": _replace(bytes(range(256))),
    "deep": _replace(b"[" * 100_000),
    "null": _replace(b"null"),
    "number": _replace(b"7"),
    "array": _replace(b'[["broker"], 1]'),
    "of another kind": _replace(b'{"broker": [], "nats": 1, "agents": "x", "port_base": {}, "pid": "p"}'),
    "huge": _replace(b" " * 5_000_000),
    "two lines": _replace(b"one\r\ntwo\r\n"),
    "directory": _make_directory,
    "fifo": _make_fifo,
}

FILES = (
    "hive.json",
    "settings.json",
    "operator/token",
    "nats/readers/default.password",
    "nats/broker.password",
    "nats/sys.password",
    "agents/iris/token",
    "agents/iris/mcp.json",
    "run/files.lock",
    "run/supervisor.lock",
    "run/children.json",
)

COMMANDS = (
    ("agent", "list"),
    ("agent", "add", "milo"),
    ("send", "iris", "hello"),
    ("notices", "tail", "--no-follow"),
    ("notices", "grant", "pager"),
    ("mcp-config", "iris"),
    ("token", "rotate", "iris"),
    ("prepare",),
    ("down",),
    ("doctor",),
)


@pytest.fixture
def layout(tmp_path: Path) -> HiveLayout:
    """The files of a hive with an embedded NATS server and an agent; nothing runs."""
    base = find_port_base()
    layout = HiveLayout(tmp_path / "h")
    request = build_request(root=layout.root, agents=(), port_base=base, nats_url=None, hive_name=None)
    prepare_files(request, {})
    paths = layout.agent("iris")
    for directory in (paths.home, paths.state_dir, paths.claude_dir, paths.daemons_dir, paths.run):
        make_private_dir(directory)
    token = new_token()
    write_private(paths.token_file, token.encode() + b"\n")
    write_mcp_config(paths, PortPlan(base), 0, token)
    part = AgentPart(
        mcp_config=paths.mcp_config,
        state_dir=paths.state_dir,
        token_file=paths.token_file,
        agent_socket=paths.agent_socket,
        core_socket=paths.core_socket,
    )
    hive = read_hive_file(layout).model_copy(update={"agents": {"iris": part}})
    write_private(layout.hive_json, hive.model_dump_json().encode())
    return layout


@pytest.mark.requirement("hivectl.damage")
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", FILES)
def test_no_damaged_file_is_a_bug_or_hangs(
    layout: HiveLayout, file: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = layout.root / file
    DAMAGES[damage](path)
    for command in COMMANDS:
        # A traceback would come out of this.
        code = run([*command, "--root", str(layout.root), "--json"])
        captured = capsys.readouterr()
        answer = json.loads(captured.out)
        if code == 0 or command == ("doctor",):
            continue
        error = answer["error"]
        assert error["code"] not in {"internal", "file_failed"}, (command, error)
        # What is wrong is either this file, or that no broker runs.
        assert str(path) in error["message"] or error["code"] in {"not_running", "no_hive"}, (command, error)


@pytest.mark.parametrize("file", [name for name in FILES if not name.startswith("run/")])
@pytest.mark.parametrize("damage", ["empty", "noise", "directory", "fifo"])
def test_doctor_names_a_damaged_file_and_how_to_mend_it(
    layout: HiveLayout, file: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = layout.root / file
    DAMAGES[damage](path)
    path.chmod(0o600)
    assert run(["doctor", "--root", str(layout.root), "--json"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    found = [check for check in checks if str(path) in check["detail"] and check["severity"] == "error"]
    assert found
    assert all(check["mend"] for check in found)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("broker", "url"), "http://["),
        (("broker", "url"), "http://host:99999999"),
        (("broker", "url"), "http://a b"),
        (("broker", "operator_token_file"), "a\0b"),
        (("nats", "url"), "nats://[::1"),
        (("nats", "reader_password_file"), "\0"),
        (("agents", "iris", "mcp_config"), "\0"),
    ],
)
def test_what_hive_json_says_must_be_possible(layout: HiveLayout, path: tuple[str, ...], value: str) -> None:
    content = json.loads(layout.hive_json.read_text())
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    layout.hive_json.write_text(json.dumps(content))
    with pytest.raises(Misconfigured, match=r"hive\.json is wrong"):
        read_hive_file(layout)


def test_a_secret_never_becomes_two_lines_of_a_request(
    layout: HiveLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    layout.operator_token_file.write_bytes(b"s3cr3t\r\nX-Admin: yes\n")
    assert run(["agent", "list", "--root", str(layout.root)]) == 3
    said = capsys.readouterr().err
    assert "is damaged" in said
    assert "s3cr3t" not in said


def test_an_empty_hive_file_is_still_a_hive_file() -> None:
    assert HiveFile.model_validate({"broker": {"url": "http://[::1]:7000", "operator_token_file": "t"}})


def test_a_spool_that_is_damaged_inside_is_found_before_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    EventSpool(path).close()
    content = bytearray(path.read_bytes())
    content[4096:4200] = os.urandom(104)
    path.write_bytes(content)
    with pytest.raises(Misconfigured, match="move it away"):
        EventSpool(path)
