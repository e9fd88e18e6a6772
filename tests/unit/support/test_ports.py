"""Ports of tests: two processes of tests are never given the same, and none comes again at once."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ports import BASES, BLOCK, Ports, are_free, leased

ROOT = Path(__file__).parents[3]
# At the end of the range, away from what tests beside this one take.
FEW = BASES[-8:]
_ELSEWHERE = """
import sys
from tests.support.ports import Ports
ports = Ports(map(int, sys.argv[1:]))
print(ports.find_base(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def ports() -> Iterator[Ports]:
    ports = Ports(FEW)
    yield ports
    ports.close()


def test_a_block_that_one_process_has_is_given_to_no_other(ports: Ports) -> None:
    command = [sys.executable, "-c", _ELSEWHERE, *map(str, FEW)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        with pytest.raises(TimeoutError), leased(theirs):
            pass
        assert ports.find_base() != theirs
        other.kill()
    with leased(theirs, within=5):
        pass


def test_a_base_comes_again_only_after_several_others(ports: Ports) -> None:
    bases = [ports.find_base() for _ in range(8)]
    assert len(set(bases[:4])) == 4
    assert bases[4:] == bases[:4]


def test_a_base_in_use_is_passed_over(ports: Ports) -> None:
    bases = [ports.find_base() for _ in range(4)]
    with socket.create_server(("127.0.0.1", bases[0] + 22)):
        assert ports.find_base() == bases[1]


def test_ports_go_round_in_a_block_of_their_own(ports: Ports) -> None:
    base = ports.find_base()
    found = [ports.find_port() for _ in range(BLOCK)]
    assert sorted(found) == list(range(found[0], found[0] + BLOCK))
    assert not base <= found[0] < base + BLOCK
    with socket.create_server(("127.0.0.1", found[0])):
        assert not are_free([found[0]])
        assert ports.find_port() == found[1]


def test_no_block_left_is_said() -> None:
    ports = Ports([BASES[-1]])
    with leased(BASES[-1]), pytest.raises(RuntimeError, match="no free block"):
        ports.find_base()
