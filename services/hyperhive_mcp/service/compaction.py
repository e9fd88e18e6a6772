"""Whether the context is to be compacted at the end of the turn: the flag that tool, socket and operator set.

The turn loop reads and clears it. Without one no turn was ever measured, and every wish is refused.
"""

from __future__ import annotations

from functools import partial

import anyio

from services.hyperhive_mcp.store import StateStore
from shared.errors import Conflict

THRESHOLD_PERCENT = 66


class Compaction:
    """The gate and the flag, which survives a restart."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        # Of the effective window, as the last completed turn left it.
        self.fill_percent: float | None = None

    async def request(self) -> None:
        """Set the flag.

        Raises:
            Conflict: when no turn was completed, or the last one left room enough.
        """
        if self.fill_percent is None:
            raise Conflict(
                "not compacted: no turn of a turn loop has completed here, so nothing is known of a context",
                code="no_turn",
            )
        if self.fill_percent <= THRESHOLD_PERCENT:
            raise Conflict(
                f"not compacted: the last turn used {self.fill_percent:.0f} % of the context, and it is "
                f"compacted above {THRESHOLD_PERCENT} % only; go on working",
                code="context_not_full",
            )
        await anyio.to_thread.run_sync(partial(self._store.save_compaction, wanted=True))

    async def is_wanted(self) -> bool:
        """Whether the flag is set."""
        return await anyio.to_thread.run_sync(self._store.is_compaction_wanted)

    async def clear(self) -> None:
        """Take the flag back: it is done."""
        await anyio.to_thread.run_sync(partial(self._store.save_compaction, wanted=False))
