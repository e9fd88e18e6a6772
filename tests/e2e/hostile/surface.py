"""A real `hive-mcp-http` under attack: raw requests to it, and what must hold of it throughout."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.support.access import LEGACY, MODERN, AgentAccess
from tests.support.claude import Era
from tests.support.raw import Reply, Wire, check_harmless, wire_to
from tests.support.units import Unit, Units, running_units
from tests.support.waiting import eventually

Json = dict[str, Any]

# Stands in everything hostile that is sent; must never be in a log.
PLANTED: Final = "planted-7331"
ERAS: tuple[Era, ...] = (MODERN, LEGACY)
# The surface's own connections to the broker come and go.
SPARE_DESCRIPTORS = 8
_META: Json = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_ESTABLISHED, _CLOSE_WAIT = "01", "08"


class Surface:
    """The process of one agent's surface, and its broker."""

    def __init__(self, units: Units, agent: AgentAccess) -> None:
        self.units = units
        self.agent = agent
        self.unit: Unit = units.surfaces[agent.name]
        self.port = self.unit.listener.getsockname()[1]

    # -- requests as bytes

    def head(self, line: str = "POST /mcp HTTP/1.1", *headers: str) -> bytes:
        """A head that the guard lets in, without the empty line after it."""
        own = [f"Host: 127.0.0.1:{self.port}", f"Authorization: Bearer {self.agent.token}"]
        kinds = ["Content-Type: application/json", "Accept: application/json, text/event-stream"]
        return "".join(f"{text}\r\n" for text in (line, *own, *kinds, *headers)).encode("latin-1")

    def post(self, body: bytes, *headers: str) -> bytes:
        """A whole request to the MCP endpoint."""
        return self.head("POST /mcp HTTP/1.1", *headers, f"Content-Length: {len(body)}") + b"\r\n" + body

    def rpc(self, message: Json, era: Era, *headers: str) -> bytes:
        """A JSON-RPC message with the headers that its era asks for."""
        return self.post(json.dumps(message).encode(), *routing(message, era), *headers)

    # -- exchanges

    def exchange(self, *parts: bytes, count: int = 1) -> list[Reply]:
        """Send these bytes over a connection of their own; what is answered must be harmless."""
        with wire_to(self.port) as wire:
            for part in parts:
                wire.send(part)
            wire.read(count)
        check_harmless(wire.replies)
        return wire.finals

    @contextmanager
    def connection(self) -> Iterator[Wire]:
        """A connection to talk over; what was answered must be harmless."""
        with wire_to(self.port) as wire:
            yield wire
        check_harmless(wire.replies)

    # -- what must hold

    def check_serving(self) -> None:
        """A normal call is answered, in both eras."""
        for era in ERAS:
            (reply,) = self.exchange(self.rpc(call("get_agent_meta"), era))
            assert reply.message["result"]["structuredContent"]["name"] == self.agent.name

    def count_connections(self) -> int:
        """How many connections to its port are open, as the kernel sees it (proc(5), net/tcp)."""
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        own = f":{self.port:04X}"
        return sum(row[1].endswith(own) and row[3] in (_ESTABLISHED, _CLOSE_WAIT) for row in rows)

    def count_descriptors(self) -> int | None:
        """How many files it has open; None where only root may look: it is not dumpable."""
        with suppress(PermissionError):
            return len(list(Path(f"/proc/{self.unit.pid}/fd").iterdir()))
        return None

    def wait_finished(self, request_id: str) -> None:
        """Wait until the request of that id has ended on the server's side."""

        def finished() -> bool:
            lines = [line for line in self.unit.log_text().splitlines() if f'"{request_id}"' in line]
            return any('"request_finished"' in line for line in lines)

        eventually(finished, what=f"request {request_id} ends")


def call(tool: str, /, *, id: Any = 1, **arguments: Any) -> Json:  # noqa: A002 - the protocol's word
    """A tool call that is right in both eras."""
    return request("tools/call", id=id, name=tool, arguments=arguments)


def request(method: str, /, *, id: Any = 1, **params: Any) -> Json:  # noqa: A002 - the protocol's word
    """A request that is right in both eras."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": _META, **params}}


def routing(message: Json, era: Era) -> list[str]:
    """The headers by which a message is routed in the modern era; the handshake era needs none."""
    if era == LEGACY:
        return []
    headers = [f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {message.get('method')}"]
    params = message.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    return headers if name is None else [*headers, f"Mcp-Name: {name}"]


@contextmanager
def surface_under_attack() -> Iterator[Surface]:
    """A surface that logs all it can; whatever was done to it, at the end it stands as it stood before."""
    with running_units("ruth") as units:
        attacked = units.add("iris", parent="ruth", HIVE_LOG_LEVEL="debug")
        surface = Surface(units, attacked)
        surface.check_serving()
        files = surface.count_descriptors()
        yield surface
        surface.check_serving()
        eventually(lambda: surface.count_connections() == 0, what="all connections are closed")
        if files is not None:
            assert (surface.count_descriptors() or 0) <= files + SPARE_DESCRIPTORS
        surface.unit.signal(signal.SIGTERM)
        assert surface.unit.wait() == 0
        log = surface.unit.log_text()
        (stopped,) = [line for line in log.splitlines() if '"stop_started"' in line]
        assert json.loads(stopped)["requests"] == 0
        for text in (log, units.broker.log_text()):
            wrong = [line for line in text.splitlines() if PLANTED in line or "Traceback" in line]
            assert not wrong, wrong[:3]
