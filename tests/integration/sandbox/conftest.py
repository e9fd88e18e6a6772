"""A hive's files, somebody outside, and a way to run things inside: as root and as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from shared.sandbox import Kind, Policy, interpreter_paths

HERE = Path(__file__).parent
SHARED = HERE.parents[2] / "shared"
NOBODY = 65534
SECRET = "a secret"


@dataclass
class Place:
    """Files of a hive and around it, all of one user."""

    base: Path
    python: str
    uid: int | None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.base / "hive"

    @property
    def state(self) -> Path:
        return self.home / "agents/iris/state"

    @property
    def code(self) -> str:
        return str(self.base / "code")

    def policy(self, **changes: Any) -> Policy:
        values: dict[str, Any] = {
            "home": str(self.home),
            "writable": tuple(
                self.facts[name] for name in ("state", "added_writable", "laid", "operator_home")
            ),
            "readable": (
                *interpreter_paths(),
                self.facts["added_readable"],
                self.code,
                str(self.base / "missing"),
            ),
            "sockets": (self.facts["agent_socket"], self.facts["core_socket"]),
            "temporary": str(self.home / "agents/iris/tmp"),
            "protected": (self.facts["protected"], str(self.base / "nothing")),
        }
        return Policy(**{**values, **changes})

    def command(self, kind: Kind, *command: str, policy: Policy | None = None) -> list[str]:
        """A command line that runs `command` inside."""
        file = self.base / "policy.json"
        file.write_text((policy or self.policy()).to_json())
        file.chmod(0o644)
        return [self.python, "-m", "shared.sandbox", "--policy", str(file), "--kind", kind, "--", *command]

    def run(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command outside, as the place's user, with nothing of ours but the sandbox in reach."""
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, **self.options(options)
        )

    def options(self, more: dict[str, Any]) -> dict[str, Any]:
        environment = {
            "PATH": f"{Path(self.python).parent}:{os.environ['PATH']}",
            "PYTHONPATH": self.code,
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(self.home / "agents/iris/tmp"),
        }
        who = {} if self.uid is None else {"user": self.uid, "group": self.uid, "extra_groups": []}
        return {"env": environment, "cwd": self.base, "stdin": subprocess.DEVNULL, **who, **more}

    def inside(self, kind: Kind, script: str, **changes: Any) -> subprocess.CompletedProcess[str]:
        """Run a line of shell inside."""
        return self.run(*self.command(kind, "sh", "-c", script, policy=self.policy(**changes)))


def _python_for(uid: int | None) -> str:
    if uid is None:
        return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
    for python in ("/usr/bin/python3", "/usr/local/bin/python3"):
        check = "import sys; sys.exit(sys.version_info < (3, 11))"
        if (
            Path(python).exists()
            and subprocess.run([python, "-c", check], user=uid, check=False).returncode == 0
        ):
            return python
    pytest.skip("no python3 >= 3.11 that an ordinary user of this machine can run")


def _furnish(place: Place) -> None:
    base, home = place.base, place.home
    for name in (
        "agents/iris/state",
        "agents/iris/tmp",
        "agents/bob/state",
        "run/agents/iris",
        "run/agents/bob",
        "operator",
    ):
        (home / name).mkdir(parents=True)
    for name in ("data", "library", "outside", "op/.ssh", "op/project"):
        (base / name).mkdir(parents=True)
    (base / "data/laid").symlink_to(base / "outside")
    files = {
        "operator_token": home / "operator/token",
        "own_token": home / "agents/iris/token",
        "other_token": home / "agents/bob/token",
        "other_secret": home / "agents/bob/state/secret",
        "other_scratch": home / "agents/bob/state/scratch",
        "laid_secret": base / "outside/secret",
        "protected_file": base / "op/.ssh/id",
        "library_file": base / "library/file",
    }
    for file in files.values():
        file.write_text(SECRET)
    disks = [path for path in Path("/dev").iterdir() if path.is_block_device()]
    disk = disks[0] if disks else Path("/dev/none")
    place.facts |= {
        **{name: str(path) for name, path in files.items()},
        "state": str(place.state),
        "other_state": str(home / "agents/bob/state"),
        "agent_socket": str(home / "run/agents/iris/agent.sock"),
        "core_socket": str(home / "run/agents/iris/mcp.sock"),
        "other_socket": str(home / "run/agents/bob/mcp.sock"),
        "datagram_socket": str(base / "datagrams"),
        "abstract_socket": base.name,
        "posix_shared_memory": f"/dev/shm/{base.name}",
        "added_readable": str(base / "library"),
        "added_writable": str(base / "data"),
        "laid": str(base / "data/laid"),
        "operator_home": str(base / "op"),
        "protected": str(base / "op/.ssh"),
        "disk": str(disk),
        "disk_number": disk.stat().st_rdev if disks else os.makedev(8, 0),
    }
    (base / "code/shared").mkdir(parents=True)
    for name in ("__init__.py", "errors.py", "prctl.py"):
        shutil.copy(SHARED / name, base / "code/shared")
    shutil.copytree(
        SHARED / "sandbox", base / "code/shared/sandbox", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(HERE / "inside", base / "code/tests/integration/sandbox/inside")
    shutil.copy(HERE / "outside.py", base / "library")
    if place.uid is not None:
        for path in (base, *base.rglob("*")):
            os.chown(path, place.uid, place.uid, follow_symlinks=False)


USERS = ["same user", "ordinary user"] if os.geteuid() == 0 else ["same user"]


@pytest.fixture(scope="session", params=USERS)
def user(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session", params=[Kind.NAMESPACES, Kind.LANDLOCK])
def kind(request: pytest.FixtureRequest) -> Kind:
    return Kind(request.param)


def build_place(user: str) -> Place:
    uid = NOBODY if user == "ordinary user" else None
    # Once below a home directory, once below /tmp, which is another directory inside.
    where = "/tmp" if uid is not None or not os.access(Path.home(), os.W_OK) else str(Path.home())
    place = Place(Path(tempfile.mkdtemp(prefix="hive ", dir=where)), _python_for(uid), uid)
    _furnish(place)
    return place


@pytest.fixture
def place(user: str) -> Iterator[Place]:
    made = build_place(user)
    yield made
    shutil.rmtree(made.base)


@pytest.fixture
def own_place() -> Iterator[Place]:
    """A place of the tests' own user, for what forks from the test itself."""
    made = build_place("same user")
    yield made
    shutil.rmtree(made.base)
