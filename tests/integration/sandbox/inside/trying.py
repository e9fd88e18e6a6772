"""What all attempts share: the register, the facts of the place, and calls by name. Standard library only."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

FACTS: dict[str, Any] = {}
ATTEMPTS: dict[str, Callable[[], object]] = {}
_LIBC = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"


def attempt(function: Callable[[], object]) -> Callable[[], object]:
    """Register an attempt: one that returns has succeeded, one that raises was refused."""
    ATTEMPTS[function.__name__.replace("_", "-")] = function
    return function


def call(name: str, *arguments: object) -> int:
    result = int(getattr(_LIBC, name)(*arguments))
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


def read(path: str) -> bytes:
    found = Path(path).read_bytes()
    if not found:
        raise FileNotFoundError(path)
    return found


def fact(name: str) -> str:
    return str(FACTS[name])


def own(name: str) -> str:
    """A path in the state directory, which the attempts of each kind share."""
    return f"{FACTS['state']}/{FACTS['kind']}-{name}"


def connect(address: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(5)
        peer.connect(address)
        return peer.recv(100)
