"""Messages from `system`: JSON with an `event`, into an inbox however full it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from services.broker.store import Tx
from services.broker.store.agents import AgentRow
from services.broker.store.messages import NewMessage
from shared.wire.names import SYSTEM


def send_system_message(tx: Tx, to: AgentRow | None, body: Mapping[str, Any], *, at: int) -> None:
    """Put one into an agent's inbox; where there is no such agent any more, nobody gets it."""
    if to is None:
        return
    tx.messages.insert(
        NewMessage(
            sender=SYSTEM,
            sender_agent_id=None,
            recipient=to.name,
            recipient_agent_id=to.id,
            body=json.dumps(body),
            sent_at=at,
        )
    )
