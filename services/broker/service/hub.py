"""The open control streams: one a daemon. In memory only; what counts is in the database and pushed anew.

A stream holds one slot for grants, so a slow reader costs no memory and gets the latest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio

from services.broker.service.rights import narrow
from shared.permissions import ToolGroup
from shared.wire.agents import Grants
from shared.wire.control import GrantsPush, Hello, Ping, Unit

PING_SECONDS = 10.0


class ControlStream:
    """One daemon's stream: what goes down it, and which grants the daemon has confirmed."""

    def __init__(self, agent_id: int, hello: Hello, *, ping_seconds: float = PING_SECONDS) -> None:
        self.agent_id = agent_id
        self.unit: Unit = hello.unit
        self.boot = hello.boot
        self.confirmed = -1
        self.is_closed = False
        self._requested: frozenset[ToolGroup] | None = (
            None if hello.tool_groups is None else frozenset(hello.tool_groups)
        )
        self._ping_seconds = ping_seconds
        self._latest = -1
        self._waiting: Grants | None = None
        self._news = anyio.Event()

    def push(self, grants: Grants) -> None:
        """Put grants in the slot unless later ones were there already."""
        if grants.version > self._latest:
            self._latest = grants.version
            self._waiting = narrow(grants, self._requested)
            self._news.set()

    def close(self) -> None:
        self.is_closed = True
        self._news.set()

    async def events(self) -> AsyncIterator[GrantsPush | Ping]:
        """What to send, a ping where there was nothing for a while; ends when the stream is closed."""
        while not self.is_closed:
            grants, self._waiting = self._waiting, None
            if grants is not None:
                yield GrantsPush(grants=grants)
                continue
            self._news = anyio.Event()
            with anyio.move_on_after(self._ping_seconds) as waited:
                await self._news.wait()
            if waited.cancelled_caught:
                yield Ping()


class ControlHub:
    """All streams of this broker. For the event loop only."""

    def __init__(self) -> None:
        self._streams: dict[int, dict[Unit, ControlStream]] = {}
        self._changed: dict[int, anyio.Event] = {}
        self._is_closed = False

    def add(self, stream: ControlStream) -> None:
        """Take a stream in; an earlier one of the same daemon ends."""
        units = self._streams.setdefault(stream.agent_id, {})
        if (earlier := units.get(stream.unit)) is not None:
            earlier.close()
        units[stream.unit] = stream
        if self._is_closed:
            stream.close()
        self._note_change(stream.agent_id)

    def remove(self, stream: ControlStream) -> None:
        """Forget a stream that has ended; one that has taken its place stays."""
        stream.close()
        units = self._streams.get(stream.agent_id, {})
        if units.get(stream.unit) is stream:
            del units[stream.unit]
            if not units:
                del self._streams[stream.agent_id]
        self._note_change(stream.agent_id)

    def find_boot(self, agent_id: int, unit: Unit) -> str | None:
        """The start of the daemon whose stream is open."""
        stream = self._streams.get(agent_id, {}).get(unit)
        return None if stream is None else stream.boot

    def list_connected(self) -> frozenset[int]:
        """The agents whose hyperhive daemon is connected: these run, whatever the driver says."""
        return frozenset(key for key, units in self._streams.items() if "hyperhive" in units)

    def is_running(self, agent_id: int) -> bool:
        return "hyperhive" in self._streams.get(agent_id, {})

    def list_units(self, agent_id: int) -> list[str]:
        return sorted(self._streams.get(agent_id, {}))

    def push(self, agent_id: int, grants: Grants) -> None:
        """Send grants down all streams of an agent."""
        for stream in self._streams.get(agent_id, {}).values():
            stream.push(grants)

    def confirm(self, agent_id: int, unit: Unit, boot: str, version: int) -> None:
        """Note that a daemon has put grants in force."""
        stream = self._streams.get(agent_id, {}).get(unit)
        if stream is not None and stream.boot == boot and version > stream.confirmed:
            stream.confirmed = version
            self._note_change(agent_id)

    async def wait_confirmed(self, agent_id: int, version: int, *, seconds: float) -> bool:
        """Wait until every connected daemon of an agent has confirmed grants of `version` or later."""
        with anyio.move_on_after(seconds):
            while not self._all_confirmed(agent_id, version):
                await self._changed.setdefault(agent_id, anyio.Event()).wait()
        return self._all_confirmed(agent_id, version)

    def close_agent(self, agent_id: int) -> None:
        """End an agent's streams: its daemons dial again, with a credential that is checked anew."""
        for stream in self._streams.get(agent_id, {}).values():
            stream.close()

    def close(self) -> None:
        """End all streams, also those yet to come."""
        self._is_closed = True
        for agent_id in self._streams:
            self.close_agent(agent_id)

    def _all_confirmed(self, agent_id: int, version: int) -> bool:
        streams = self._streams.get(agent_id, {}).values()
        return all(stream.is_closed or stream.confirmed >= version for stream in streams)

    def _note_change(self, agent_id: int) -> None:
        if (event := self._changed.pop(agent_id, None)) is not None:
            event.set()
