"""What a daemon asks the engine for, and what the engine may spend."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from shared.tasks.model import PROTOCOL, Launch

_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyz23456789"
_ID_LENGTH: Final = 12


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """One task to run.

    Attributes:
        argv: the program, as an absolute path, and its arguments.
        title: one line for lists and todos.
        cwd: absolute.
        env: the whole environment.
        has_stdin: whether input can be sent; else it reads the end of its input at once.
        timeout_seconds: from its start; None for no limit.
    """

    argv: list[str]
    title: str
    cwd: str
    env: dict[str, str]
    has_stdin: bool = False
    timeout_seconds: float | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TaskRequest:
        return cls(**json.loads(text))

    def build_launch(self, task_id: str, directory: Path, *, output_bytes: int, limits: TaskLimits) -> Launch:
        """What a supervisor is told, whose record lies in `directory`."""
        return Launch(
            protocol=PROTOCOL,
            id=task_id,
            directory=str(directory),
            argv=self.argv,
            cwd=self.cwd,
            env=self.env,
            stdin=self.has_stdin,
            timeout_seconds=self.timeout_seconds,
            grace_seconds=limits.grace_seconds,
            output_bytes=output_bytes,
            min_free_bytes=limits.min_free_bytes,
            limits=dict(limits.processes),
        )


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """What tasks may take. Sizes are bytes; `processes` are the limits of each process, by name.

    Attributes:
        output_bytes: of one task that are kept.
        quota_bytes: of all ended tasks that are kept.
        retention_seconds: for which an ended task that was read stays readable; unread ones stay four times
            as long.
    """

    max_running: int = 32
    max_queued: int = 200
    grace_seconds: float = 5.0
    output_bytes: int = 64 << 20
    quota_bytes: int = 1 << 30
    min_free_bytes: int = 256 << 20
    retention_seconds: int = 7 * 86_400
    processes: Mapping[str, int] = field(default_factory=dict[str, int])


def new_task_id() -> str:
    """12 characters that are easy to tell apart: 60 random bits, so unique in any hive."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))
