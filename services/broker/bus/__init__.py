"""NATS, seen from the services: `NoticeBus` publishes notices and keeps the stream. It takes no commands."""

from __future__ import annotations

from services.broker.bus.login import BusLogin, Credential, build_login
from services.broker.bus.notices import NoticeBus, StoredNotice

__all__ = ["BusLogin", "Credential", "NoticeBus", "StoredNotice", "build_login"]
