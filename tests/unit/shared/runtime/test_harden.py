"""Hardening, seen from outside the process that does it."""

from __future__ import annotations

import subprocess
import sys

_PROBE = """
import ctypes, os, resource
from shared.runtime.harden import harden_process
harden_process()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), oct(os.umask(0)), resource.getrlimit(resource.RLIMIT_CORE))
"""


def test_a_hardened_process_dumps_nothing_and_creates_private_files() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE], capture_output=True, text=True, check=True, timeout=30
    )

    assert done.stdout.strip() == "0 0o77 (0, 0)"
