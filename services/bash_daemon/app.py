"""Composition root of the bash surface: the only place where its objects are wired."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from fastapi import FastAPI

from services.bash_daemon.config import Settings
from services.bash_daemon.routes import ApiRoutes
from services.bash_daemon.service.bash import BashService
from services.bash_daemon.service.confinement import Confinement
from services.bash_daemon.service.reading import OutputReader
from services.bash_daemon.service.surroundings import Surroundings
from services.bash_daemon.tools import build_shell_tools
from shared.client import BrokerClient
from shared.daemon.control import ControlLink
from shared.daemon.grants import GrantsKeeper
from shared.daemon.kept import KeptState
from shared.daemon.reports import TaskReports
from shared.daemon.surface import Surface, open_data_dir
from shared.mcp.host import ToolHost
from shared.revision import revision
from shared.runtime.credential import TokenFile
from shared.runtime.files import make_private_dir
from shared.runtime.http import create_surface_app
from shared.runtime.ids import new_ulid
from shared.tasks.endings import find_end
from shared.tasks.engine import TaskEngine
from shared.tasks.mirror import take_mirror
from shared.tasks.registry import TaskRegistry
from shared.tasks.request import TaskLimits
from shared.tasks.storage import TaskStorage
from shared.wire.agents import GrantedPath
from shared.wire.control import Hello, Report
from shared.wire.tasks import TaskMirror

UNIT: Final = "bash"
_OUTPUT: Final = "harness/bash-tasks"


def create_surface(settings: Settings) -> Surface:
    """Wire the surface. Opens its store; dials nobody before the app's lifespan begins."""
    boot = new_ulid()
    token = TokenFile(settings.token_file)
    data_dir = open_data_dir(settings.data_dir, token_file=settings.token_file)
    kept = KeptState(data_dir / "bash.sqlite")
    broker = BrokerClient(settings.url, token, unit=UNIT, boot=boot)
    tasks = _open_tasks(settings, data_dir, paths=lambda: grants.paths)
    tools = build_shell_tools(tasks.service)
    grants = GrantsKeeper(
        kept,
        tools=[tool.name for tool in tools],
        requested=settings.tool_groups,
        on_change=lambda: host.notify_tools_changed(),  # noqa: PLW0108 - `host` is bound below
    )
    host = ToolHost(
        UNIT, version=revision(), tools=tools, visible=grants.visible_tools, explain=grants.explain
    )

    async def take_snapshot() -> TaskMirror:
        return take_mirror(tasks.registry)

    async def note_connect() -> None:
        reports.note()

    link = ControlLink(
        broker,
        hello=Hello(
            unit=UNIT,
            boot=boot,
            revision=revision(),
            tool_groups=None if settings.tool_groups is None else sorted(settings.tool_groups),
        ),
        on_grants=grants.apply,
        describe=lambda: Report(unit=UNIT, boot=boot),
        on_connect=note_connect,
        on_kill_task=partial(tasks.engine.begin_kill, reason="the operator ended it"),
    )
    reports = TaskReports(broker, take_snapshot, is_connected=lambda: link.connected)
    tasks.engine.watch(reports.note)

    def describe() -> dict[str, Any]:
        return {
            "name": settings.label,
            "revision": revision(),
            "boot": boot,
            "broker_connected": link.connected,
            "sandbox": settings.sandbox,
            "grants_version": grants.version,
        }

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with host.run(), broker, tasks.engine.run(), anyio.create_task_group() as group:
            group.start_soon(link.run)
            group.start_soon(reports.run)
            yield
            group.cancel_scope.cancel()
        tasks.registry.close()
        kept.close()

    app = create_surface_app(
        unit=UNIT, label=settings.label, token=token, lifespan=lifespan, shortcut=host.before
    )
    app.include_router(ApiRoutes(describe).build())
    return Surface(app, host.close_streams)


@dataclass(frozen=True)
class _Tasks:
    """What the app serves, runs and closes."""

    engine: TaskEngine
    registry: TaskRegistry
    service: BashService


def _open_tasks(settings: Settings, data_dir: Path, *, paths: Callable[[], Iterable[GrantedPath]]) -> _Tasks:
    """Wire them. Opens the registry; starts nothing."""
    limits = TaskLimits(
        max_running=settings.max_running_tasks,
        max_queued=settings.max_queued_tasks,
        grace_seconds=settings.kill_grace_seconds,
        output_bytes=settings.max_output_bytes,
        quota_bytes=settings.output_quota_bytes,
        min_free_bytes=settings.min_free_bytes,
        retention_seconds=settings.retention_days * 86_400,
        processes={
            name: value
            for name, value in (
                ("memory_bytes", settings.max_memory_bytes),
                ("cpu_seconds", settings.max_cpu_seconds),
            )
            if value
        },
    )
    registry = TaskRegistry(data_dir / f"{UNIT}-tasks.sqlite")
    storage = TaskStorage(settings.state_dir, _OUTPUT, registry=registry, limits=limits)
    reader = OutputReader(storage, partial(find_end, data_dir, UNIT))
    temporary = data_dir / "tmp"
    make_private_dir(temporary)
    confinement = Confinement(
        settings.root,
        settings.state_dir,
        sockets=(settings.agent_socket, settings.core_socket),
        temporary=temporary,
        secrets=(settings.token_file, data_dir),
    )
    engine = TaskEngine(
        UNIT,
        data_dir=data_dir,
        registry=registry,
        storage=storage,
        limits=limits,
        policy=(lambda: confinement.build_policy(paths())) if settings.sandbox else lambda: None,
        agent_socket=settings.agent_socket,
        describe=reader.describe,
    )
    surroundings = Surroundings(
        settings.label,
        settings.state_dir,
        agent_socket=settings.agent_socket,
        core_socket=settings.core_socket,
        max_environment_bytes=settings.max_environment_bytes,
    )
    service = BashService(
        engine, registry, reader, surroundings, max_command_bytes=settings.max_command_bytes
    )
    return _Tasks(engine, registry, service)
