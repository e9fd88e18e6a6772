"""A real nats-server, a real database, and what the broker puts between them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.notices.parts import Parts, running_bus
from tests.support.nats import NatsServer, nats_server


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The event loop that the broker runs on: its transports fail in other ways than asyncio's own."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """A server with the readers `default` and `other`."""
    readers = {"default": "default-" + "d" * 16, "other": "other-" + "o" * 16}
    with nats_server(tmp_path / "nats", readers=readers) as server:
        yield server


@pytest.fixture
async def parts(server: NatsServer, tmp_path: Path) -> AsyncIterator[Parts]:
    """A database, and a bus that is connected to the server, with consumers for both readers."""
    async with running_bus(server, tmp_path) as parts:
        await parts.bus.wait_connected()
        for name in server.readers:
            await parts.bus.ensure_reader(server.identity(name))
        yield parts
