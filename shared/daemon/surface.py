"""What a daemon is to its `__main__`, and where it keeps its private state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp

from shared.layout import DAEMONS_DIR
from shared.runtime.files import make_private_dir


@dataclass(frozen=True)
class Surface:
    """The app, and what `__main__` must do with it at a stop."""

    app: ASGIApp
    stop: Callable[[], None]


def open_data_dir(data_dir: Path | None, *, token_file: Path) -> Path:
    """The private directory of the agent's daemons, made where it is not there yet.

    It lies beside the token, out of the agent's reach, unless a setting says otherwise.
    """
    found = data_dir or token_file.parent / DAEMONS_DIR
    make_private_dir(found)
    return found
