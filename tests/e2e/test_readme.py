"""The README in a clean copy of the checkout: `make up`, and its transcript, run as written.

The home directory is a new one, so the paths in the README are the real defaults; so are the ports.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.hivectl.provision import BUILT_SURFACES
from shared.layout import PortPlan
from tests.support.install_claude import find_claude
from tests.support.messages_api import ScriptedModel
from tests.support.ports import leased
from tests.support.script import ModelRequest, Say, Step, Use
from tests.support.transcript import matches, read_blocks, read_commands

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
COMMAND_SECONDS = 300.0
STOP_SECONDS = 30.0
LEASE_SECONDS = 300.0


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home directory with a clean copy of the checkout in `hyperhive`: what a fresh clone would hold."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    home = Path(tempfile.mkdtemp(prefix="hh-readme-"))
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            target = home / "hyperhive" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(autouse=True)
def _default_ports() -> Iterator[None]:
    """They are ours: a run of the tests in another checkout waits, and nobody else has them."""
    ports = PortPlan()
    surfaces = [ports.surface(block, surface) for block in (0, 1) for surface in BUILT_SURFACES]
    with leased(ports.base, within=LEASE_SECONDS):
        for port in (ports.broker, ports.nats, *surfaces):
            try:
                socket.create_server(("127.0.0.1", port)).close()
            except OSError:
                if os.environ.get("CI"):
                    raise
                pytest.skip(f"port {port} is taken here, and the README uses the default ports")
        yield


def test_make_up_runs_a_hive_until_ctrl_c(home: Path) -> None:
    with subprocess.Popen(
        ["make", "up"],
        cwd=home / "hyperhive",
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as up:
        assert up.stdout is not None
        said = []
        for line in up.stdout:
            said.append(line)
            if "claude --mcp-config" in line:
                break
        os.killpg(up.pid, signal.SIGINT)
        rest, _ = up.communicate(timeout=STOP_SECONDS)
    text = "".join(said)

    assert "http://127.0.0.1:7000" in text
    assert "http://127.0.0.1:7100/mcp" in text
    assert "Traceback" not in text + rest
    for port in (7000, 7022, 7100):
        socket.create_server(("127.0.0.1", port)).close()


@pytest.mark.claude
def test_transcript_is_what_happens(home: Path, model: ScriptedModel) -> None:
    model.extend(*STEPS)
    env = environment(home) | {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "not-a-key",
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    try:
        for command in read_commands(README):
            done = run(home, command.line, env)
            assert done.returncode == 0, f"$ {command.line}\n{done.stdout}"
            assert matches(command.output, done.stdout), f"$ {command.line}\n{done.stdout}"
    finally:
        run(home, ".venv/bin/hivectl down", env)

    answers = [request.last_result.text for request in model.main_requests if request.tool_results]
    (calls,) = read_blocks(README, "text")
    shown = re.split(r"^\w+ calls .*\n", calls, flags=re.MULTILINE)[1:]
    for want, got in zip(shown, answers, strict=True):
        assert matches(want, got), got


def run(home: Path, line: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """One line of the README, by the shell; both streams as a terminal shows them."""
    return subprocess.run(
        ["sh", "-c", line],
        cwd=home / "hyperhive",
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )


def environment(home: Path) -> dict[str, str]:
    """The caller's, without its hive, with a home of our own; caches and pip's settings are the caller's."""
    # What `make test` was told (ARGS) is not meant for the README's own `make up`.
    foreign = ("HIVE_", "XDG_", "MAKE", "ARGS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    own = Path.home()
    path = os.pathsep.join([*_claude_directory(), os.environ.get("PATH", os.defpath)])
    return kept | {
        "HOME": str(home),
        "PATH": path,
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(own / ".cache")),
        "XDG_CONFIG_HOME": os.environ.get("XDG_CONFIG_HOME", str(own / ".config")),
    }


def _claude_directory() -> list[str]:
    try:
        return [str(find_claude().parent)]
    except FileNotFoundError:
        return []


def _newest_id(request: ModelRequest) -> int:
    """The id in the newest `[msg #id]` that the model was shown."""
    return int(request.last_result.text.split("[msg #", 1)[1].split("]", 1)[0])


STEPS: tuple[Step, ...] = (
    Use("mcp__hyperhive__send", {"to": "ruth", "body": "Is the build green?"}),
    Say("I asked ruth, in message #1. She is running and reads it when she looks."),
    Use("mcp__hyperhive__recv"),
    Use(
        "mcp__hyperhive__send",
        lambda request: {"to": "iris", "body": "Yes: all tests pass.", "in_reply_to": _newest_id(request)},
    ),
    Use("mcp__hyperhive__ack_until", {"up_to": 1}),
    Say("iris asked whether the build is green. I told her that all tests pass."),
    Use("mcp__hyperhive__recv"),
    Use("mcp__hyperhive__ack_until", lambda request: {"up_to": _newest_id(request)}),
    Say("Yes: ruth says that all tests pass."),
)
