"""Asks what sandbox tasks have here; a process of its own tries it, as only one with one thread can."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

_SECONDS: Final = 10.0
# Of the bash surface; `up` passes it on.
SETTING: Final = "HIVE_BASH_SANDBOX"
_OFF: Final = ("0", "false", "no", "off", "f", "n")
_UNKNOWN: Final = "not isolated: the sandbox could not be tried"


@dataclass(frozen=True)
class Sandbox:
    """What there is: one line, and whether it is any."""

    line: str
    exists: bool


class SandboxProbe:
    """Begins at once; `read` waits for the answer."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "shared.sandbox", "--detect"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def read(self) -> Sandbox:
        """What it found; that nothing was found when it does not say, or when it is turned off here."""
        if os.environ.get(SETTING, "").strip().lower() in _OFF:
            self._process.kill()
            self._process.communicate()
            return Sandbox(f"not isolated: {SETTING} is off", exists=False)
        try:
            line, _ = self._process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            line = ""
        return Sandbox(line.strip() or _UNKNOWN, exists=bool(line) and self._process.returncode == 0)
