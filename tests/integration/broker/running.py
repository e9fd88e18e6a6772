"""A broker on a real port and a real SQLite file, in the test's own event loop; the test turns its clock."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import uvicorn
from fastapi import FastAPI

from services.broker.app import create_app
from services.broker.config import Settings
from shared.revision import revision
from shared.runtime.credential import hash_token, new_token

START_SECONDS = 10
BOOTS = tuple(f"01ARZ3NDEKTSV4RRFFQ69G5FA{last}" for last in "123456789")


@dataclass
class TurnedClock:
    """Unix seconds that pass only when the test says so."""

    now: int = 1_800_000_000

    def __call__(self) -> int:
        return self.now


@dataclass(frozen=True)
class Peer:
    """Whoever speaks to the broker under a credential, in one of its trees."""

    http: httpx2.AsyncClient
    tree: str
    token: str
    name: str = "operator"

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        """A request in the peer's own tree, whatever comes of it."""
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        if body is not None:
            more["json"] = body
        return await self.http.request(method, f"{self.tree}{path}", headers=headers, **more)

    async def get(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The same, which must succeed; answers its JSON."""
        response = await self.ask(method, path, body, **more)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    async def refused(self, status: int, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The same, which must fail with `status`; answers the error's JSON."""
        response = await self.ask(method, path, body, **more)
        assert response.status_code == status, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()

    async def send(self, to: str, body: str = "hello", **more: Any) -> int:
        """Send one message; answers its id."""
        return int((await self.get("POST", "/messages", {"to": to, "body": body, **more}))["sent"][0]["id"])

    async def recv(self, most: int = 5, **more: Any) -> list[int]:
        """Take rows; answers their ids in the order in which they came."""
        result = await self.get("POST", "/inbox/recv", {"max": most, **more})
        return [row["id"] for row in result["messages"]]

    async def ack(self, up_to: int) -> Any:
        return await self.get("POST", "/inbox/ack", {"up_to": up_to})


class Stream:
    """A daemon's open control stream."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def next_grants(self) -> dict[str, Any]:
        """The grants of the next event that holds some."""
        with anyio.fail_after(5):
            async for line in self._lines:
                event = httpx2.Response(200, content=line).json()
                if event["type"] == "grants":
                    return dict(event["grants"])
        raise AssertionError("the stream ended")

    async def next_pending(self) -> int:
        """How many messages wait, by the next event that says so."""
        with anyio.fail_after(5):
            async for line in self._lines:
                event = httpx2.Response(200, content=line).json()
                if event["type"] == "inbox":
                    return int(event["pending"])
        raise AssertionError("the stream ended")

    async def next_kill(self) -> str:
        """The task that is to be ended, by the next event that says so."""
        with anyio.fail_after(5):
            async for line in self._lines:
                event = httpx2.Response(200, content=line).json()
                if event["type"] == "kill_task":
                    return str(event["id"])
        raise AssertionError("the stream ended")

    async def drain(self) -> None:
        """Read until the broker ends the stream."""
        with anyio.fail_after(5):
            async for _ in self._lines:
                pass


@dataclass
class Broker:
    """The running broker, and how to reach it."""

    app: FastAPI
    url: str
    http: httpx2.AsyncClient
    settings: Settings
    clock: TurnedClock
    operator: Peer
    agents: dict[str, Peer] = field(default_factory=dict)

    async def add(self, name: str, parent: str | None = None) -> Peer:
        """Create an agent."""
        token = new_token()
        body = {"name": name, "token_sha256": hash_token(token), "parent": parent}
        await self.operator.get("POST", "/agents", body)
        self.agents[name] = Peer(self.http, "/v1/agent", token, name)
        return self.agents[name]

    async def permit(self, name: str, **change: Any) -> Any:
        return await self.operator.get("PATCH", f"/agents/{name}/permissions", change)

    @asynccontextmanager
    async def connect(self, peer: Peer, boot: str = BOOTS[0], **hello: Any) -> AsyncIterator[Stream]:
        """Open a control stream as one of the agent's daemons."""
        body = {"unit": "hyperhive", "boot": boot, "revision": revision(), **hello}
        headers = {"Authorization": f"Bearer {peer.token}"}
        async with self.http.stream("POST", "/v1/agent/control", headers=headers, json=body) as response:
            assert response.status_code == 200, (await response.aread()).decode()
            yield Stream(response.aiter_lines())


class _Server(uvicorn.Server):
    """uvicorn that says when it has started and leaves signals to pytest."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = anyio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


@asynccontextmanager
async def running_broker(
    root: Path, clock: TurnedClock | None = None, **settings: Any
) -> AsyncIterator[Broker]:
    """Run a broker on `root` until the block ends."""
    chosen = Settings(root=root, **settings)
    clock = clock or TurnedClock()
    app = create_app(chosen, clock=clock)
    # With the protocol named, asyncio turns Nagle's algorithm off, which costs 40 ms a request.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = _Server(uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=2))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [listener])
        with anyio.fail_after(START_SECONDS):
            await server.is_up.wait()
        # To load the authorities' certificates takes longer than most tests.
        async with httpx2.AsyncClient(base_url=url, timeout=10, trust_env=False, verify=False) as http:
            operator = Peer(http, "/v1/operator", chosen.operator_token.read_text())
            yield Broker(app, url, http, chosen, clock, operator)
            app.state.stop()
            server.should_exit = True
    listener.close()
