"""The embedded NATS server: where its program is, what it is told, and how it takes in a new reader."""

from __future__ import annotations

from services.hivectl.nats_config.config import BROKER_USER, SYS_USER, render_config
from services.hivectl.nats_config.reload import activate_reader
from services.hivectl.nats_config.server import find_nats_server

__all__ = ["BROKER_USER", "SYS_USER", "activate_reader", "find_nats_server", "render_config"]
