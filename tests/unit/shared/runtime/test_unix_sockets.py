"""Listening unix sockets: modes, stale and foreign files, who is let in."""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.errors import Misconfigured, Unavailable
from shared.runtime.unix_sockets import AllowedPeers, open_unix_listener


@pytest.fixture
def place() -> Iterator[Path]:
    """Short: a socket's path may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="hh-") as name:
        yield Path(name) / "run" / "agent.sock"


class Caller:
    """What the kernel says of a peer."""

    def __init__(self, uid: int, gid: int, *groups: int) -> None:
        self._answers = [struct.pack("3i", 1, uid, gid), struct.pack(f"{len(groups)}i", *groups)]

    def getsockopt(self, _level: int, option: int, _size: int, /) -> bytes:
        return self._answers[0 if option == socket.SO_PEERCRED else 1]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.requirement("sockets.modes")
def test_socket_is_private_whatever_the_umask_and_its_new_directory_too(place: Path) -> None:
    before = os.umask(0)
    try:
        listener = open_unix_listener(place, setting="HIVE_AGENT_SOCKET")
    finally:
        os.umask(before)

    assert (mode_of(place), mode_of(place.parent)) == (0o600, 0o700)
    assert [entry.name for entry in place.parent.iterdir()] == ["agent.sock"]
    listener.close()
    assert not place.exists()


@pytest.mark.requirement("sockets.modes")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another group")
def test_socket_in_a_directory_of_the_agents_group_is_for_that_group(place: Path) -> None:
    place.parent.mkdir()
    os.chown(place.parent, 0, 4242)
    place.parent.chmod(0o2770)

    listener = open_unix_listener(place, setting="HIVE_ROOT")

    assert (mode_of(place), place.stat().st_gid, listener.peers) == (0o660, 4242, AllowedPeers(0, 4242))
    assert listener.is_as_wanted()
    os.chown(place.parent, 0, 4343)
    place.parent.chmod(0o2770)
    assert not listener.is_as_wanted()
    listener.close()


@pytest.mark.requirement("sockets.peer-checked")
def test_own_user_root_and_the_group_are_let_in_and_nobody_else() -> None:
    alone, grouped = AllowedPeers(1000), AllowedPeers(1000, 2000)

    groups = [(1000, 5), (0, 0), (1001, 2000), (1001, 5, 6, 2000), (1001, 5, 6)]
    callers = [Caller(*one) for one in groups]

    assert [alone.admit(caller) for caller in callers] == [True, True, False, False, False]
    assert [grouped.admit(caller) for caller in callers] == [True, True, True, True, False]


def test_the_kernel_is_really_asked(place: Path) -> None:
    listener = open_unix_listener(place, setting="HIVE_ROOT")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(place))
        taken, _ = listener.socket.accept()
        with taken:
            assert AllowedPeers(os.geteuid()).admit(taken)
            assert AllowedPeers(os.geteuid() + 1, os.getegid()).admit(taken)
            assert AllowedPeers(os.geteuid() + 1).admit(taken) == (os.geteuid() == 0)
    listener.close()


@pytest.mark.requirement("sockets.stale-replaced")
def test_stale_socket_is_replaced(place: Path) -> None:
    place.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))
    assert place.is_socket()

    listener = open_unix_listener(place, setting="HIVE_ROOT")

    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(place))
    listener.close()


@pytest.mark.requirement("sockets.stale-replaced")
def test_socket_of_a_living_daemon_stays_its_own(place: Path) -> None:
    first = open_unix_listener(place, setting="HIVE_ROOT")

    with pytest.raises(Unavailable, match="another process serves"):
        open_unix_listener(place, setting="HIVE_ROOT")

    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(place))
    first.close()


def test_close_leaves_the_socket_of_a_successor(place: Path) -> None:
    first = open_unix_listener(place, setting="HIVE_ROOT")
    first.socket.close()
    second = open_unix_listener(place, setting="HIVE_ROOT")

    first.close()

    assert place.is_socket()
    second.close()


def test_something_else_at_the_path_is_left_alone(place: Path) -> None:
    place.parent.mkdir()
    place.write_text("precious")

    with pytest.raises(Misconfigured, match="no socket"):
        open_unix_listener(place, setting="HIVE_ROOT")

    assert place.read_text() == "precious"


@pytest.mark.requirement("sockets.path-length")
def test_path_over_107_bytes_is_refused_and_107_are_not(place: Path) -> None:
    fits = place.parent / ("d" * (107 - len(str(place.parent)) - len("/mcp.sock") - 1)) / "mcp.sock"
    assert len(str(fits)) == 107
    open_unix_listener(fits, setting="HIVE_ROOT").close()

    with pytest.raises(Misconfigured, match=r"108 bytes and the limit is 107; set HIVE_AGENT_SOCKET"):
        open_unix_listener(fits.with_name("mcp.socks"), setting="HIVE_AGENT_SOCKET")
