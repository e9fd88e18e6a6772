"""Listening sockets: bound with a clear error, or taken over from a parent."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.errors import Misconfigured
from shared.runtime.sockets import LISTEN_FD_VARIABLE, bind_listener, is_loopback, take_inherited_listener


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with bind_listener("127.0.0.1", 0, setting="HIVE_X_PORT") as listener:
        yield listener


def test_a_bound_socket_listens_and_is_not_inherited(listener: socket.socket) -> None:
    assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    assert not listener.get_inheritable()
    socket.create_connection(listener.getsockname(), timeout=5).close()


def test_a_taken_port_names_the_setting(listener: socket.socket) -> None:
    port = listener.getsockname()[1]

    with pytest.raises(Misconfigured, match=rf"port {port} is taken; set HIVE_MCP_PORT \(or --port-base\)"):
        bind_listener("127.0.0.1", port, setting="HIVE_MCP_PORT (or --port-base)")


def test_a_bound_port_that_is_not_yet_listening_is_not_shared(listener: socket.socket) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(Misconfigured):
            bind_listener("localhost", other.getsockname()[1], setting="X")


@pytest.mark.parametrize("host", ["192.0.2.1", "not an address", "::ffff:zz"])
def test_an_address_that_is_not_ours_is_an_error(host: str) -> None:
    with pytest.raises(Misconfigured, match="check HIVE_X_PORT"):
        bind_listener(host, 0, setting="HIVE_X_PORT")


def test_loopback_is_known_without_asking_dns() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.8.8.8", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "10.0.0.1", "hive.example", ""]))


def test_our_variable_passes_a_socket_once(listener: socket.socket) -> None:
    fd = os.dup(listener.fileno())
    os.set_inheritable(fd, True)
    env = {LISTEN_FD_VARIABLE: str(fd), "OTHER": "kept"}

    taken = take_inherited_listener(env)

    assert taken is not None
    with taken:
        assert taken.getsockname() == listener.getsockname()
        assert not taken.get_inheritable()
        assert env == {"OTHER": "kept"}
        assert take_inherited_listener(env) is None


def test_systemds_variables_for_another_process_are_not_ours() -> None:
    env = {"LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "http"}

    assert take_inherited_listener(env) is None
    assert env == {}


def test_several_sockets_from_systemd_are_too_many() -> None:
    with pytest.raises(Misconfigured, match="systemd passed 2 sockets"):
        take_inherited_listener({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"})


@pytest.mark.parametrize("value", ["x", "-1", "99999999999", "65000", " 3"])
def test_a_number_that_is_no_descriptor_is_refused(value: str) -> None:
    with pytest.raises(Misconfigured, match=LISTEN_FD_VARIABLE):
        take_inherited_listener({LISTEN_FD_VARIABLE: value})


def test_descriptors_of_something_else_are_refused_and_left_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        (tmp_path / "file").open() as file,
        socket.socket() as silent,
        socket.socket(socket.AF_UNIX) as local,
        socket.socket(type=socket.SOCK_DGRAM) as datagrams,
    ):
        local.bind(str(tmp_path / "s"))
        local.listen()
        for other in (file, silent, local, datagrams):
            with pytest.raises(Misconfigured, match=r"no (open|listening TCP) socket"):
                take_inherited_listener({LISTEN_FD_VARIABLE: str(other.fileno())})
            os.fstat(other.fileno())
