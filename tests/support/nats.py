"""A real nats-server on a loopback port, with the configuration that `hivectl up` would give it.

The test is its parent: it ends it by its process id, kills it, suspends it, starts it again on the same port.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
import nats.errors
from nats.aio.client import Client

from services.hivectl.nats_config import BROKER_USER, SYS_USER, find_nats_server, render_config
from shared.wire.notices import inbox_prefix_of, reader_identity
from tests.support.ports import free_port
from tests.support.waiting import eventually

START_SECONDS = 10.0
STOP_SECONDS = 10.0


@dataclass
class NatsServer:
    """The server of one hive, and the credentials it knows."""

    directory: Path
    port: int
    hive: str = "h1"
    broker_password: str = "broker-" + "b" * 16
    sys_password: str = "sys-" + "s" * 16
    readers: dict[str, str] = field(default_factory=lambda: {"default": "default-" + "d" * 16})
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def config(self) -> Path:
        return self.directory / "nats.conf"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def write_config(self) -> None:
        """Write what the fields say; a running server needs a reload to see it."""
        text = render_config(
            port=self.port,
            http=None,
            store_dir=self.directory / "store",
            server_name="test",
            hive=self.hive,
            broker_password=self.broker_password,
            sys_password=self.sys_password,
            readers=self.readers,
        )
        self.config.write_text(text)
        for name, password in (("broker", self.broker_password), ("sys", self.sys_password)):
            (self.directory / f"{name}.password").write_text(password)

    def start(self) -> None:
        """Start and wait until it greets."""
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [find_nats_server(None), "-c", self.config], stdout=log, stderr=log, start_new_session=True
            )
        eventually(self._greets, within=START_SECONDS, what="nats-server")

    def kill(self) -> None:
        """`kill -9`, and wait until it is gone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it if it runs; kill it if it does not end."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def reload(self) -> None:
        self.signal(signal.SIGHUP)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, such as SIGSTOP: then it accepts connections and says nothing."""
        os.kill(self.pid, number)

    @asynccontextmanager
    async def connect(self, user: str, password: str) -> AsyncIterator[tuple[Client, list[str]]]:
        """A plain nats-py client, and what the server complained about to it, as it comes."""
        complaints: list[str] = []

        async def note(error: Exception) -> None:
            complaints.append(str(error))

        client = await nats.connect(
            self.url,
            user=user,
            password=password,
            inbox_prefix=inbox_prefix_of(user),
            error_cb=note,
            max_reconnect_attempts=-1,
            reconnect_time_wait=0,
        )
        try:
            yield client, complaints
        finally:
            # After the server has gone closing raises.
            with suppress(nats.errors.Error, OSError):
                await client.close()

    @asynccontextmanager
    async def reader(self, name: str = "default") -> AsyncIterator[tuple[Client, list[str]]]:
        """The same, as a reader of notices."""
        async with self.connect(self.identity(name), self.readers[name]) as connected:
            yield connected

    @asynccontextmanager
    async def broker(self) -> AsyncIterator[tuple[Client, list[str]]]:
        """The same, as the broker's user."""
        async with self.connect(BROKER_USER, self.broker_password) as connected:
            yield connected

    def identity(self, name: str = "default") -> str:
        return reader_identity(self.hive, name)

    def settings(self) -> dict[str, Any]:
        """What a broker's settings say of this server."""
        return {
            "hive_name": self.hive,
            "nats_url": self.url,
            "nats_user": BROKER_USER,
            "nats_password_file": self.directory / "broker.password",
            "nats_sys_user": SYS_USER,
            "nats_sys_password_file": self.directory / "sys.password",
        }

    def log(self) -> str:
        return (self.directory / "log").read_text()

    def _greets(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            return connection.recv(5) == b"INFO "


@contextmanager
def nats_server(directory: Path, *, start: bool = True, **fields: object) -> Iterator[NatsServer]:
    """A server with its files in `directory`; ended with the block."""
    directory.mkdir(parents=True, exist_ok=True)
    server = NatsServer(directory, free_port(), **fields)  # type: ignore[arg-type]
    server.write_config()
    if start:
        server.start()
    try:
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.signal(signal.SIGCONT)
        server.stop()


async def barrier(client: Client) -> None:
    """Wait until the server has taken in what was sent before.

    nats-py 2.16 sends the PING of `flush()` ahead of what is still in its own buffer, so one is not enough.
    """
    await client.flush()
    await client.flush()
