"""What the fork server imports, and whether that is still what lies on disk."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

# Libraries and `shared` alone: a unit's own code is imported by the unit (units never import units). The last
# ones are loaded by name at run time by the libraries that use them. A test holds this list complete.
PRELOADED = (
    "shared.client",
    "shared.daemon.control",
    "shared.daemon.grants",
    "shared.daemon.kept",
    "shared.daemon.reports",
    "shared.daemon.surface",
    "shared.mcp.host",
    "shared.prose",
    "shared.revision",
    "shared.runtime.answers",
    "shared.runtime.backoff",
    "shared.runtime.calls",
    "shared.runtime.commands",
    "shared.runtime.credential",
    "shared.runtime.files",
    "shared.runtime.harden",
    "shared.runtime.http",
    "shared.runtime.ids",
    "shared.runtime.line_server",
    "shared.runtime.link",
    "shared.runtime.log",
    "shared.runtime.serve",
    "shared.runtime.settings",
    "shared.runtime.sockets",
    "shared.tasks.engine",
    "shared.tasks.mirror",
    "shared.tasks.output.search",
    "shared.tasks.output.views",
    "shared.wire.todos",
    "anyio._backends._asyncio",
    "fastapi.telemetry._runtime",
    "h11",
    "httpcore2",
    "pwd",
    "pydantic.v1",
    "runpy",
    "sqlite3",
    "truststore",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvloop",
)


class CodeOnDisk:
    """The files of everything imported so far: a fork of them must not run beside newer ones."""

    def __init__(self) -> None:
        self._known = {path: _stamp(path) for path in _files()}

    def find_changed(self) -> Path | None:
        """A file that was replaced, changed or removed since; None when all are as they were."""
        return next((path for path, stamp in self._known.items() if _stamp(path) != stamp), None)


def preload() -> CodeOnDisk:
    """Import all of it; note the files."""
    for name in PRELOADED:
        importlib.import_module(name)
    return CodeOnDisk()


def _files() -> set[Path]:
    files = {
        Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))
    }
    return files | {Path(sys.executable)}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
