"""A fork server of the test's own, with a directory of modules that it and what it forks can import."""

from __future__ import annotations

import ctypes
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from services.hivectl.supervisor.children import ChildRegister
from services.hivectl.supervisor.fork_server.client import ForkServer
from services.hivectl.supervisor.log_file import LogFile
from services.hivectl.supervisor.orphans import OrphanReaper, become_subreaper
from services.hivectl.supervisor.spawn import Child, UnitSpec
from shared.layout import HiveLayout

_PR_SET_CHILD_SUBREAPER = 36


class Nursery:
    """A running fork server, and all processes it has given."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.modules = directory / "modules"
        self.modules.mkdir()
        self.children: list[Child] = []
        self._register = ChildRegister(HiveLayout(directory))
        self.reaper = OrphanReaper(self._register.has)
        (directory / "run").mkdir()
        self.server = ForkServer(
            LogFile(directory / "fork-server.log"),
            {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.modules), "OF_THE_SERVER": "1"},
            directory,
            adopt=self.adopt,
            hold=self.reaper.hold,
        )

    def adopt(self, child: Child) -> None:
        self.children.append(child)
        self._register.add(child)

    @property
    def server_process(self) -> Child:
        return [child for child in self.children if child.name == "fork-server"][-1]

    def write_module(self, name: str, text: str) -> Path:
        path = self.modules / f"{name}.py"
        path.write_text(text)
        return path

    def spec(self, text: str, *, inherited_fd: int | None = None, **env: str) -> UnitSpec:
        """A unit that is a module with this text."""
        self.write_module("tiny_unit", text)
        return UnitSpec(
            "tiny",
            env=env,
            log=LogFile(self.directory / "tiny.log"),
            cwd=self.directory,
            module="tiny_unit",
            inherited_fd=inherited_fd,
        )

    async def fork(self, text: str, *, inherited_fd: int | None = None, **env: str) -> Child:
        child = await self.server.fork(self.spec(text, inherited_fd=inherited_fd, **env))
        assert child is not None
        return child

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                await self.server.run(tasks)
                try:
                    yield
                finally:
                    with anyio.CancelScope(shield=True):
                        await self.server.stop()
                    for child in self.children:
                        if child.status is None:
                            child.kill()
                            child.reap()


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    assert become_subreaper()
    try:
        yield Nursery(tmp_path)
    finally:
        # Other tests expect that orphans are somebody else's.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
