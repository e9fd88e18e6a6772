"""Which tools the agent may use now: the last push of the broker, kept on disk.

What was pushed stays valid while the broker is down.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

import anyio
import structlog

from shared.daemon.kept import KeptState
from shared.errors import HiveError
from shared.permissions import (
    AGENT_DEFAULT,
    ToolGroup,
    explain_missing_tool,
    find_group_of,
    is_tool_allowed,
    narrow_groups,
)
from shared.wire.agents import GrantedPath, Grants

FIRST_PUSH_WAIT_SECONDS = 5

log = structlog.get_logger(__name__)


class GrantsKeeper:
    """Holds the grants and answers which of the surface's tools are visible.

    Args:
        store: where the last push is kept.
        tools: names of all tools of this surface.
        requested: the groups of `HIVE_TOOL_GROUPS`, or None for all: they narrow, never widen.
        on_change: awaited after the set of visible tools has changed.
    """

    def __init__(
        self,
        store: KeptState,
        *,
        tools: Iterable[str],
        requested: frozenset[ToolGroup] | None,
        on_change: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._tools = frozenset(tools)
        self._requested = requested
        self._on_change = on_change
        # Tools that are in no group are there whatever the operator granted.
        self._is_gated = any(find_group_of(tool) is not None for tool in self._tools)
        self._known = anyio.Event()
        self._patient_until = time.monotonic() + FIRST_PUSH_WAIT_SECONDS
        self._grants = store.find_grants()
        self._visible = self._find_visible()
        if self._grants is not None:
            self._known.set()

    @property
    def version(self) -> int | None:
        """The version of the grants in force, None before the first push."""
        return None if self._grants is None else self._grants.version

    @property
    def paths(self) -> Sequence[GrantedPath]:
        """The paths that the operator opens; as in the last push, none before the first."""
        return () if self._grants is None else self._grants.paths

    async def apply(self, grants: Grants) -> None:
        """Take a push: durable first, then in force, then told to clients.

        In force also where the disk is full: what was taken away must not stay because of that.
        """
        try:
            await anyio.to_thread.run_sync(partial(self._store.save_grants, grants))
        except HiveError as exc:
            log.warning("grants_not_saved", version=grants.version, reason=exc.message)
        before = self._visible
        self._grants = grants
        self._visible = self._find_visible()
        self._known.set()
        if before != self._visible:
            log.info("grants_changed", version=grants.version, tools=sorted(self._visible))
            await self._on_change()

    async def visible_tools(self) -> frozenset[str]:
        """The tools that may be listed and called now.

        A daemon that never heard from its broker waits a little after its start for the first push, then
        offers the default preset: the broker checks every call again, and a clear error beats an empty list.
        """
        if self._is_gated and not self._known.is_set():
            with anyio.move_on_after(self._patient_until - time.monotonic()):
                await self._known.wait()
        return self._visible

    def explain(self, tool: str) -> str:
        """Why a tool is not visible: which of the two that could show it does not, and what would help."""
        return explain_missing_tool(tool, self._requested)

    def _find_visible(self) -> frozenset[str]:
        held = AGENT_DEFAULT if self._grants is None else frozenset(self._grants.groups)
        groups = narrow_groups(held, self._requested)
        return frozenset(tool for tool in self._tools if is_tool_allowed(tool, groups))
