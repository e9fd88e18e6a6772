"""Whoever ends an agent's tasks waits for their supervisors, however many descriptors it has open itself."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import time
from collections.abc import Iterator

import pytest

from shared.tasks.endings import _wait_for_all

# Beyond what select(2) takes.
HIGH = 1_500


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= HIGH + 1:
        pytest.skip(f"no more than {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, HIGH + 10), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def high_pair() -> tuple[socket.socket, socket.socket]:
    """A connection whose first end has a high number."""
    ours, theirs = socket.socketpair()
    with ours:
        return socket.socket(fileno=fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, HIGH)), theirs


def test_it_waits_until_each_has_hung_up(many_files: None) -> None:
    ours, theirs = high_pair()
    theirs.sendall(b'{"ok": true}\n')
    theirs.close()
    began = time.monotonic()
    _wait_for_all([ours], began + 60)
    assert time.monotonic() - began < 30
    assert ours.fileno() == -1


def test_one_that_never_hangs_up_is_waited_for_no_longer_than_said(many_files: None) -> None:
    ours, theirs = high_pair()
    _wait_for_all([ours], time.monotonic() + 0.1)
    with theirs:
        assert theirs.recv(1) == b""
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(HIGH)
