"""A client of a scripted broker, under a token in a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from shared.client import BrokerClient
from shared.runtime.credential import TokenFile
from shared.runtime.files import write_private
from tests.unit.shared.client.talk import BOOT, OLD

DEADLINE = 0.6


@pytest.fixture
def token(tmp_path: Path) -> Path:
    write_private(tmp_path / "token", OLD.encode())
    return tmp_path / "token"


@pytest.fixture
async def connect(token: Path) -> AsyncIterator[Callable[..., BrokerClient]]:
    made: list[BrokerClient] = []

    def build(url: str, deadline_seconds: float = DEADLINE, **more: Any) -> BrokerClient:
        made.append(
            BrokerClient(
                url, TokenFile(token), unit="bash", boot=BOOT, deadline_seconds=deadline_seconds, **more
            )
        )
        return made[-1]

    with anyio.fail_after(15):
        yield build
        for client in made:
            await client.aclose()
