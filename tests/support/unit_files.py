"""systemd's unit files as the tests read them, and their programs started on a socket that systemd passes on.

Nothing here runs systemd itself: `systemd-socket-activate` stands for the socket unit, the test for PID 1.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.access import request
from tests.support.ports import free_port
from tests.support.waiting import eventually

# From an extra to the environment that it alone is installed in.
EnvironmentOf = Callable[[str], Path]
DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = DEPLOY / "systemd"
PREFIX, ROOT = "/opt/hyperhive", "/var/lib/hyperhive"
START_SECONDS = 30.0
STOP_SECONDS = 20.0


def require_program(name: str) -> str:
    """The path of a program of systemd; without it the test is skipped, in CI it fails."""
    found = shutil.which(name)
    if found is None:
        reason = f"{name} is not installed (Debian: apt-get install systemd)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@dataclass(frozen=True)
class UnitFile:
    """One unit file: `name` as installed, such as `hive-mcp-http@iris.service`."""

    name: str
    settings: tuple[tuple[str, str, str], ...]

    @property
    def instance(self) -> str:
        return self.name.rpartition(".")[0].partition("@")[2]

    def values(self, section: str, key: str) -> list[str]:
        """All values of a setting, in order, with specifiers replaced."""
        return [
            value.replace("%i", self.instance).replace("%%", "%")
            for where, name, value in self.settings
            if (where, name) == (section, key)
        ]

    def value(self, section: str, key: str) -> str:
        """The one value of a setting."""
        (value,) = self.values(section, key)
        return value


def read_unit(name: str) -> UnitFile:
    """A unit of deploy/systemd, of a template with its instance."""
    stem, _, kind = name.rpartition(".")
    base, at, _ = stem.partition("@")
    section = ""
    found = []
    for line in (UNITS / f"{base}{at}.{kind}").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith(("#", ";")):
            key, _, value = line.partition("=")
            found.append((section, key, value))
    return UnitFile(name, tuple(found))


@dataclass(frozen=True)
class Place:
    """Where a test has what an installation has below /opt/hyperhive and /var/lib/hyperhive."""

    prefix: Path
    root: Path

    def command(self, unit: UnitFile) -> list[str]:
        """The unit's own command line."""
        return shlex.split(self._moved(unit.value("Service", "ExecStart")))

    def environment(self, unit: UnitFile) -> dict[str, str]:
        """What the unit sets itself."""
        lines = unit.values("Service", "Environment")
        return dict(word.split("=", 1) for line in lines for word in shlex.split(self._moved(line)))

    def _moved(self, text: str) -> str:
        return text.replace(PREFIX, str(self.prefix)).replace(ROOT, str(self.root))


@contextmanager
def running_unit(
    place: Place, name: str, more: Mapping[str, str] | None = None, *, port: int | None = None
) -> Iterator[str]:
    """A socket-activated service as its files say, until the block ends; answers its URL.

    Args:
        place: what the unit's paths stand for.
        name: the service.
        more: what its EnvironmentFile would hold.
        port: where to listen instead of what the socket unit says.
    """
    service = read_unit(name)
    listen = port or free_port()
    env = place.environment(service) | dict(more or {})
    command = [
        *(require_program("systemd-socket-activate"), "-l", f"127.0.0.1:{listen}"),
        *(word for pair in env.items() for word in ("-E", "=".join(pair))),
        *place.command(service),
    ]
    log = place.root / f"{name}.log"
    with log.open("ab") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env={"PATH": os.defpath}
        )
    url = f"http://127.0.0.1:{listen}"

    def is_ready() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with {process.returncode}: {log.read_text()[-2000:]}")
        return request("GET", f"{url}/readyz", timeout=START_SECONDS).status_code == 200

    try:
        eventually(is_ready, within=START_SECONDS, what=f"{name} is ready")
        yield url
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_SECONDS) == 0, log.read_text()[-2000:]
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
