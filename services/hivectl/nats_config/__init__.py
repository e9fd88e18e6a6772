"""The embedded NATS server: its program, its configuration, and how readers are let in and shut out."""

from __future__ import annotations

from services.hivectl.nats_config.config import BROKER_USER, PASSWORD, SYS_USER, render_config
from services.hivectl.nats_config.reload import ACTIVATION_SECONDS, activate_reader, shut_out_reader
from services.hivectl.nats_config.server import find_nats_server

__all__ = [
    "ACTIVATION_SECONDS",
    "BROKER_USER",
    "PASSWORD",
    "SYS_USER",
    "activate_reader",
    "find_nats_server",
    "render_config",
    "shut_out_reader",
]
