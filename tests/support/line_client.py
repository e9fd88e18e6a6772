"""A client of the JSON-lines sockets, as any program in an agent's sandbox would be one."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SECONDS = 10.0


class LineClient:
    """One connection."""

    def __init__(self, path: Path, *, seconds: float = SECONDS) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(seconds)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise
        self._answers = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._answers.close()
        self.socket.close()

    def write(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def read(self) -> Any:
        """The next answer; None when the other side has closed."""
        line = self._answers.readline()
        return json.loads(line) if line else None

    def ask(self, cmd: str, **fields: Any) -> Any:
        """Send one command; answers what came back, whether it is ok or not."""
        self.write(json.dumps({"cmd": cmd, **fields}).encode() + b"\n")
        return self.read()


def ask(path: Path, cmd: str, **fields: Any) -> Any:
    """One command over a connection of its own."""
    with LineClient(path) as client:
        return client.ask(cmd, **fields)
