"""Ports for what tests start, from blocks that belong to this process alone.

To ask the kernel for a free port and close it again is a race: before it is used the kernel may give it to
another test process, or to an outgoing connection. A block is leased for as long as the process lives, and
lies below the ports of outgoing connections. Where a test keeps its listening socket, port 0 does as well.
"""

from __future__ import annotations

import itertools
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from tests.support.waiting import eventually

BLOCK = 200
# The default hive lies below, `bench` takes what it needs from 26000 on.
BASES = range(10_000, 26_000, BLOCK)
# How many bases a process hands out before one comes again: what it was for may be down for a moment.
_KEPT = 4


@contextmanager
def leased(base: int, *, within: float = 0) -> Iterator[None]:
    """Have the ports from `base` on to ourselves, among processes of tests, for the length of the block.

    The lease is an abstract unix socket: its name belongs to one process in this network namespace, as ports
    do, and the kernel takes it back however the process ends.

    Raises:
        TimeoutError: when somebody else has them for longer than `within` seconds.
    """
    with socket.socket(socket.AF_UNIX) as lease:
        eventually(lambda: _take(lease, base), within=within, what=f"the ports from {base} on are ours")
        yield


def _take(lease: socket.socket, base: int) -> bool:
    try:
        lease.bind(f"\0hyperhive-test-ports-{base}")
    except OSError:
        return False
    return True


class Ports:
    """The blocks of this process."""

    def __init__(self, bases: Iterable[int] = BASES) -> None:
        self._bases = list(bases)
        self._leases: list[socket.socket] = []
        self._used: deque[int] = deque()
        self._singles: Iterator[int] | None = None

    def find_base(self) -> int:
        """The base of a block all of whose ports are free; not one of those handed out last.

        Raises:
            RuntimeError: when other processes have all blocks.
        """
        if len(self._used) >= _KEPT:
            for base in self._used:
                if are_free(range(base, base + BLOCK)):
                    self._used.remove(base)
                    self._used.append(base)
                    return base
        self._used.append(self._lease())
        return self._used[-1]

    def find_port(self) -> int:
        """A port on which nobody listens, and which nobody else is given; the least recently used."""
        if self._singles is None:
            base = self._lease()
            self._singles = itertools.cycle(range(base, base + BLOCK))
        for port in itertools.islice(self._singles, BLOCK):
            if are_free([port]):
                return port
        raise RuntimeError("each port of the block is in use")

    def close(self) -> None:
        """Give the blocks back."""
        for lease in self._leases:
            lease.close()

    def _lease(self) -> int:
        for base in self._bases:
            lease = socket.socket(socket.AF_UNIX)
            if _take(lease, base) and are_free(range(base, base + BLOCK)):
                self._leases.append(lease)
                return base
            lease.close()
        raise RuntimeError(f"no free block of ports from {self._bases[0]} on")


def are_free(ports: Iterable[int]) -> bool:
    """Whether one could listen on all of them now."""
    with ExitStack() as held:
        for port in ports:
            try:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                return False
    return True


_PORTS = Ports()
find_port_base = _PORTS.find_base
free_port = _PORTS.find_port
