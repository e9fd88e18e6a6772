"""Who listens on a port of ours, as far as /proc tells."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from services.hivectl.doctor.check import Check, error, passed

_PROC = Path("/proc")
_LISTEN = "0A"
_FOREIGN = "it is not the hive's own; `hivectl down` and `hivectl up --nats-url URL` name another"


@dataclass(frozen=True)
class ExpectedPort:
    """A port, what should answer there, and whether it did. `is_ours` says whether `hivectl up` starts it."""

    port: int
    what: str
    answered: bool
    wanted: bool
    is_ours: bool = True


@dataclass(frozen=True)
class Listener:
    """A process that listens; without a number where it is not ours to know."""

    pid: int | None = None
    command: str = ""

    def __str__(self) -> str:
        if self.pid is None:
            return "a process of another user"
        return f"process {self.pid} ({self.command})"


def check_ports(expected: Iterable[ExpectedPort]) -> list[Check]:
    """Each port must be answered by what belongs there; while that is down, nobody else may hold it."""
    return [_check_port(row) for row in expected]


def _check_port(row: ExpectedPort) -> Check:
    name = f"port.{row.port}"
    if row.answered:
        return passed(name, f"{row.what} answers")
    listener = find_listener(row.port)
    if listener is None and row.wanted:
        mend = "`hivectl down`, then `hivectl up`" if row.is_ours else f"start it: {_FOREIGN}"
        return error(name, f"nobody listens for {row.what}", mend)
    if listener is None:
        return passed(name, f"free for {row.what}, which is not running")
    return error(
        name,
        f"{listener} listens where {row.what} should, and does not answer as it",
        "if it is foreign, end it or use `hivectl up --port-base N`; if it is ours, its log says why"
        if row.is_ours
        else f"see nats.reader, its log, or what listens there instead: {_FOREIGN}",
    )


def find_listener(port: int) -> Listener | None:
    """The process that listens on a TCP port of loopback or of all addresses; None when there is none.

    Source: proc_net_tcp in the kernel's documentation (state 0A is LISTEN; the tenth field is the inode).
    """
    inodes = {
        fields[9]
        for table in ("tcp", "tcp6")
        for fields in _rows(_PROC / "net" / table)
        if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port
    }
    return _find_holder({f"socket:[{inode}]" for inode in inodes}) if inodes else None


def _rows(table: Path) -> list[list[str]]:
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
    return [line.split() for line in lines]


def _find_holder(links: set[str]) -> Listener:
    """The eldest process that holds one of the sockets: a child may have inherited it."""
    for pid in sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()):
        try:
            if any(_read_link(fd) in links for fd in (_PROC / str(pid) / "fd").iterdir()):
                return Listener(pid, _command(pid))
        except OSError:
            continue  # ended meanwhile, or another user's
    return Listener()


def _read_link(path: Path) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 (Path.readlink would parse it as a path)
    except OSError:
        return ""


def _command(pid: int) -> str:
    words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    # Arguments of foreign processes may hold secrets: the program's name, and a module's, are enough.
    program = Path(words[0]).name
    if program.startswith("python") and len(words) > 2 and words[1] == "-m":
        return f"{program} -m {words[2]}"
    return f"{program} {Path(words[1]).name}" if program.startswith("python") and len(words) > 1 else program
