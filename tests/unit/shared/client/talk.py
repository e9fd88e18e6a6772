"""What the client's tests say to a scripted broker, and what it answers when all is well."""

from __future__ import annotations

from shared.runtime.ids import new_ulid
from shared.wire.control import Hello
from shared.wire.messages import SendRequest

OLD, NEW = "o" * 43, "n" * 43
BOOT = new_ulid()
SENT = {"sent": [{"id": 7, "to": "iona", "recipient_state": "running"}]}
MESSAGE = {"id": 7, "sender": "iris", "recipient": "iona", "body": "", "sent_at": 1}
GRANTS = {"groups": ["messaging"], "capabilities": [], "version": 3}
SELF = {"id": 1, "name": "iris", "hive_name": "hive", "broker_revision": "0.1.0", "grants": GRANTS}
SEND = SendRequest(to="iona", body="hello")
HELLO = Hello(unit="bash", boot=BOOT, revision="0.1.0")
