"""Notices, read from JetStream."""

from services.hivectl.bus.connection import NoticeBus, ReaderLogin, StoredNotice, subject_filter
from services.hivectl.bus.tail import tail

__all__ = ["NoticeBus", "ReaderLogin", "StoredNotice", "subject_filter", "tail"]
