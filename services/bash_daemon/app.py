"""Composition root of the bash surface: the only place where its objects are wired."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from fastapi import FastAPI

from services.bash_daemon.config import Settings
from services.bash_daemon.routes import ApiRoutes
from services.bash_daemon.tools import build_tools
from shared.client import BrokerClient
from shared.daemon.control import ControlLink
from shared.daemon.grants import GrantsKeeper
from shared.daemon.kept import KeptState
from shared.daemon.surface import Surface, open_data_dir
from shared.mcp.host import ToolHost
from shared.revision import revision
from shared.runtime.credential import TokenFile
from shared.runtime.http import create_http_app
from shared.runtime.ids import new_ulid
from shared.wire.control import Hello, Report

UNIT: Final = "bash"


def create_surface(settings: Settings) -> Surface:
    """Wire the surface. Opens its store; dials nobody before the app's lifespan begins."""
    boot = new_ulid()
    token = TokenFile(settings.token_file)
    data_dir = open_data_dir(settings.data_dir, token_file=settings.token_file)
    kept = KeptState(data_dir / "bash.sqlite")
    broker = BrokerClient(settings.url, token, unit=UNIT, boot=boot)
    tools = build_tools()
    grants = GrantsKeeper(
        kept,
        tools=[tool.name for tool in tools],
        requested=settings.tool_groups,
        on_change=lambda: host.notify_tools_changed(),  # noqa: PLW0108 - `host` is bound below
    )
    host = ToolHost(
        UNIT, version=revision(), tools=tools, visible=grants.visible_tools, explain=grants.explain
    )
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
        on_connect=anyio.lowlevel.checkpoint,
    )

    def describe() -> dict[str, Any]:
        return {
            "name": settings.label,
            "revision": revision(),
            "boot": boot,
            "broker_connected": link.connected,
            "grants_version": grants.version,
        }

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with host.run(), broker, anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            yield
            tasks.cancel_scope.cancel()
        kept.close()

    async def authenticate(_path: str, presented: str) -> object | None:
        return settings.label if token.accepts(presented) else None

    app = create_http_app(
        unit=UNIT,
        lifespan=lifespan,
        authenticate=authenticate,
        ready=lambda: True,
        shortcut=host.before,
    )
    app.include_router(ApiRoutes(describe).build())
    return Surface(app, host.close_streams)
