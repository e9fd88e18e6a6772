"""The agent's one-line status: kept in its state directory, pushed at once or at the next connect.

Never waits for a broker that is down.
"""

from __future__ import annotations

import time
import unicodedata
from functools import partial
from pathlib import Path

import anyio
import structlog

from services.hyperhive_mcp.store import StateStore
from shared.client import BrokerClient
from shared.errors import HiveError, InvalidInput
from shared.runtime.files import write_private
from shared.wire.messages import StatusText

PUSH_DEADLINE_SECONDS = 1

log = structlog.get_logger(__name__)


class StatusService:
    """`set_status`: works while the broker is down."""

    def __init__(self, broker: BrokerClient, store: StateStore, *, state_dir: Path) -> None:
        self._broker = broker
        self._store = store
        self._file = state_dir / "hyperhive-status"

    async def set(self, text: str) -> str:
        """Set the status, or clear it with an empty text.

        Raises:
            InvalidInput: when the text is not one line.
        """
        if any(unicodedata.category(char) in {"Cc", "Zl", "Zp"} for char in text):
            raise InvalidInput("`text` must be one line without control characters; say it in one line")
        status = StatusText(text=text.strip(), set_at=int(time.time()))
        await anyio.to_thread.run_sync(partial(write_private, self._file, status.text.encode()))
        await anyio.to_thread.run_sync(partial(self._store.save_unpushed_status, status))
        done = "Status set." if status.text else "Status cleared."
        return (
            done if await self.push() else f"{done} The broker is not reachable; it is told when it is back."
        )

    async def push(self) -> bool:
        """Tell the broker what it does not know yet; False when it cannot be told now."""
        try:
            status = await anyio.to_thread.run_sync(self._store.find_unpushed_status)
            if status is None:
                return True
            with anyio.fail_after(PUSH_DEADLINE_SECONDS):
                await self._broker.set_status(status)
        except (HiveError, TimeoutError) as exc:
            log.warning("status_not_pushed", reason=str(exc))
            return False
        try:
            await anyio.to_thread.run_sync(partial(self._store.drop_unpushed_status, status))
        except HiveError as exc:
            # It is told once more at the next connect, which changes nothing.
            log.warning("pushed_status_not_dropped", reason=exc.message)
        return True
