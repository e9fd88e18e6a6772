"""What other processes have."""

from __future__ import annotations

import os
import signal
import socket

from tests.integration.sandbox.inside.trying import FACTS, X86, attempt, call, connect, fact, read


@attempt
def read_daemon_environ() -> object:
    return read(f"/proc/{FACTS['daemon']}/environ")


@attempt
def read_daemon_memory() -> object:
    with open(f"/proc/{FACTS['daemon']}/mem", "rb"):
        return True


@attempt
def open_daemon_descriptor() -> object:
    return os.open(f"/proc/{FACTS['daemon']}/fd/{FACTS['daemon_file']}", os.O_RDONLY)


@attempt
def read_through_daemon_root() -> object:
    return read(f"/proc/{FACTS['daemon']}/root{fact('operator_token')}")


@attempt
def read_through_init_root() -> object:
    return read(f"/proc/1/root{fact('operator_token')}")


@attempt
def see_daemon() -> object:
    return os.stat(f"/proc/{FACTS['daemon']}")


@attempt
def trace_daemon() -> object:
    return call("ptrace", 0x4206, int(FACTS["daemon"]), 0, 0)


@attempt
def take_daemon_descriptor() -> object:
    return call("syscall", 438, os.pidfd_open(int(FACTS["daemon"])), 0, 0)


@attempt
def limit_daemon() -> object:
    import resource

    return resource.prlimit(int(FACTS["daemon"]), resource.RLIMIT_CORE, (0, 0))


@attempt
def signal_daemon() -> None:
    os.kill(int(FACTS["daemon"]), signal.SIGCONT)


@attempt
def attach_shared_memory() -> object:
    return call("shmget", int(FACTS["shared_memory"]), 0, 0)


@attempt
def read_posix_shared_memory() -> object:
    return read(fact("posix_shared_memory"))


@attempt
def connect_abstract_socket() -> object:
    return connect("\0" + fact("abstract_socket"))


@attempt
def send_datagram_by_pair() -> object:
    one, _other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return one.sendto(b"x", fact("datagram_socket"))


@attempt
def use_keys() -> object:
    return call("syscall", 250 if X86 else 219, 0, -3, 0)


@attempt
def type_into_terminal() -> object:
    import fcntl

    return fcntl.ioctl(0, 0x5412, b"x")
