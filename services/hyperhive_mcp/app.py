"""Composition root of the hyperhive surface: the only place where its objects are wired."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import anyio
from fastapi import FastAPI

from services.hyperhive_mcp.agent_socket import AgentSocket
from services.hyperhive_mcp.config import Settings
from services.hyperhive_mcp.routes import ApiRoutes
from services.hyperhive_mcp.service.compaction import Compaction
from services.hyperhive_mcp.service.inbox import InboxService
from services.hyperhive_mcp.service.long_texts import LongTexts
from services.hyperhive_mcp.service.loose_ends import BrokerSource, LooseEndService, TaskSource, TodoSource
from services.hyperhive_mcp.service.reminders import ReminderService
from services.hyperhive_mcp.service.schedules import ScheduleService
from services.hyperhive_mcp.service.status import StatusService
from services.hyperhive_mcp.service.todo_reports import TodoReports
from services.hyperhive_mcp.service.todos import TodoService
from services.hyperhive_mcp.service.turns import TurnStatus
from services.hyperhive_mcp.service.unknown_sends import UnknownSends
from services.hyperhive_mcp.service.wake import WakeLevel
from services.hyperhive_mcp.spill import ReminderDirectory, SpillDirectory
from services.hyperhive_mcp.store import StateStore, TodoStore
from services.hyperhive_mcp.tools.mail import build_mail_tools
from services.hyperhive_mcp.tools.planning import build_planning_tools
from services.hyperhive_mcp.tools.schedules import build_schedule_tools
from services.hyperhive_mcp.tools.todos import build_todo_tools
from shared.client import BrokerClient
from shared.daemon.control import ControlLink
from shared.daemon.grants import GrantsKeeper
from shared.daemon.surface import Surface, open_data_dir
from shared.mcp.host import ToolHost
from shared.revision import revision
from shared.runtime.credential import TokenFile
from shared.runtime.http import create_surface_app
from shared.runtime.ids import new_ulid
from shared.wire.control import Hello, Report

UNIT: Final = "hyperhive"


def create_surface(settings: Settings) -> Surface:
    """Wire the surface. Opens its store; dials nobody before the app's lifespan begins."""
    boot = new_ulid()
    token = TokenFile(settings.token_file)
    data_dir = open_data_dir(settings.data_dir, token_file=settings.token_file)
    store = StateStore(data_dir / "hyperhive.sqlite")
    todo_store = TodoStore(data_dir / "todos.sqlite")
    broker = BrokerClient(settings.url, token, unit=UNIT, boot=boot)
    status = StatusService(broker, store, state_dir=settings.state_dir)
    turns = TurnStatus()
    texts = LongTexts(broker, SpillDirectory(settings.state_dir))
    unknown = UnknownSends(broker, store)
    reminders = ReminderService(broker, ReminderDirectory(settings.state_dir))
    inbox = InboxService(broker, texts, unknown, boot=boot, on_acked=reminders.sweep)
    todos = TodoService(todo_store)
    compaction = Compaction(store)
    loose_ends = LooseEndService([BrokerSource(broker, reminders), TodoSource(todos), TaskSource(data_dir)])
    tools = [
        *build_mail_tools(inbox, status, broker),
        *build_planning_tools(reminders, loose_ends),
        *build_schedule_tools(ScheduleService(broker)),
        *build_todo_tools(todos, compaction),
    ]
    grants = GrantsKeeper(
        store,
        tools=[tool.name for tool in tools],
        requested=settings.tool_groups,
        on_change=lambda: host.notify_tools_changed(),  # noqa: PLW0108 - `host` is bound below
    )
    host = ToolHost(
        UNIT, version=revision(), tools=tools, visible=grants.visible_tools, explain=grants.explain
    )
    requested = None if settings.tool_groups is None else sorted(settings.tool_groups)

    async def catch_up() -> None:
        reports.note()
        await status.push()
        await unknown.push()
        await texts.sweep()
        await reminders.sweep()

    link = ControlLink(
        broker,
        hello=Hello(unit=UNIT, boot=boot, revision=revision(), tool_groups=requested),
        on_grants=grants.apply,
        on_inbox=lambda pending: wake.set_mail(pending),  # noqa: PLW0108 - `wake` is bound below
        describe=lambda: Report(unit=UNIT, boot=boot, turn_state=turns.state, turn_state_since=turns.since),
        on_connect=catch_up,
        on_ping=unknown.push,
    )

    wake = WakeLevel(todos, turns, count_mail=broker.count_pending, is_connected=lambda: link.connected)
    inbox.on_handled = wake.note_handled
    reports = TodoReports(broker, todos, is_connected=lambda: link.connected)

    def describe() -> dict[str, Any]:
        return {
            "name": settings.label,
            "turn_state": turns.state,
            "turn_state_since": turns.since,
            "revision": revision(),
            "boot": boot,
            "broker_connected": link.connected,
            "grants_version": grants.version,
        }

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with host.run(), broker, AsyncExitStack() as served:
            if settings.agent_socket is not None:
                await served.enter_async_context(
                    AgentSocket(todos, compaction, describe, _stop_process).serve(settings.agent_socket)
                )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(link.run)
                tasks.start_soon(reports.run)
                yield
                tasks.cancel_scope.cancel()
        store.close()
        todo_store.close()

    app = create_surface_app(
        unit=UNIT, label=settings.label, token=token, lifespan=lifespan, shortcut=host.before
    )

    app.include_router(ApiRoutes(describe, wake).build())

    def stop() -> None:
        host.close_streams()
        wake.close()

    return Surface(app, stop)


def _stop_process() -> None:
    signal.raise_signal(signal.SIGTERM)
