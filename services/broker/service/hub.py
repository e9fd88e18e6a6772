"""The open control streams: one a daemon, at this broker or at another one on the same database."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio

from services.broker.service.stream import ControlStream
from services.broker.store.streams import OpenStream
from shared.wire.agents import Grants
from shared.wire.control import Unit


class ControlHub:
    """All streams that are known of. For the event loop only."""

    def __init__(self) -> None:
        self._streams: dict[int, dict[Unit, ControlStream]] = {}
        self._elsewhere: dict[int, dict[str, OpenStream]] = {}
        self._changed: dict[int, anyio.Event] = {}
        self._is_closed = False
        self.on_change: Callable[[], None] = lambda: None

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

    def list_streams(self) -> list[ControlStream]:
        """The streams of this broker."""
        return [stream for units in self._streams.values() for stream in units.values()]

    def set_elsewhere(self, streams: Iterable[OpenStream]) -> None:
        """Take note of the streams at other brokers, all that there are."""
        before = self._elsewhere
        there: dict[int, dict[str, OpenStream]] = {}
        for stream in streams:
            there.setdefault(stream.agent_id, {})[stream.unit] = stream
        # In one step: other threads look.
        self._elsewhere = there
        for agent_id in before.keys() | self._elsewhere.keys():
            if before.get(agent_id) != self._elsewhere.get(agent_id):
                self._wake(agent_id)

    def find_boot(self, agent_id: int, unit: Unit) -> str | None:
        """The start of the daemon whose stream is open; of two the later."""
        here = self._streams.get(agent_id, {}).get(unit)
        there = self._elsewhere.get(agent_id, {}).get(unit)
        return max((stream.boot for stream in (here, there) if stream is not None), default=None)

    def list_connected(self) -> frozenset[int]:
        """The agents whose hyperhive daemon is connected: these run, whatever the driver says."""
        here = (agent_id for agent_id, units in self._streams.items() if "hyperhive" in units)
        there = (agent_id for agent_id, units in self._elsewhere.items() if "hyperhive" in units)
        return frozenset((*here, *there))

    def is_running(self, agent_id: int) -> bool:
        return "hyperhive" in self.list_units(agent_id)

    def find(self, agent_id: int, unit: Unit) -> ControlStream | None:
        """The stream of a daemon that is open at this broker."""
        return self._streams.get(agent_id, {}).get(unit)

    def is_afar(self, agent_id: int) -> bool:
        """Whether the agent's stream is or may be at another broker; for any thread."""
        return agent_id not in self._streams or agent_id in self._elsewhere

    def list_units(self, agent_id: int) -> list[str]:
        return sorted({*self._streams.get(agent_id, ()), *self._elsewhere.get(agent_id, ())})

    def push(self, agent_id: int, grants: Grants) -> None:
        """Send grants down all streams of an agent."""
        for stream in self._streams.get(agent_id, {}).values():
            stream.push(grants)

    def confirm(self, agent_id: int, unit: Unit, boot: str, version: int) -> bool:
        """Note that a daemon has put grants in force; says whether its stream is here."""
        stream = self._streams.get(agent_id, {}).get(unit)
        if stream is None or stream.boot != boot:
            return False
        if version > stream.confirmed:
            stream.confirmed = version
            self._note_change(agent_id)
        return True

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

    def close_all(self) -> None:
        """End all streams that are open now."""
        for stream in self.list_streams():
            stream.close()

    def close(self) -> None:
        """End all streams, also those yet to come."""
        self._is_closed = True
        self.close_all()

    def _all_confirmed(self, agent_id: int, version: int) -> bool:
        here = self._streams.get(agent_id, {}).values()
        there = self._elsewhere.get(agent_id, {}).values()
        return all(stream.is_closed or stream.confirmed >= version for stream in here) and all(
            stream.confirmed >= version for stream in there
        )

    def _note_change(self, agent_id: int) -> None:
        self._wake(agent_id)
        self.on_change()

    def _wake(self, agent_id: int) -> None:
        if (event := self._changed.pop(agent_id, None)) is not None:
            event.set()
