"""Where the passwords of readers of notices lie: `nats/readers/NAME.password`, 0600, one file a reader.

The files are what counts: the server's configuration and the broker's durables follow from them.
"""

from __future__ import annotations

from pathlib import Path

from shared.layout import HiveLayout
from shared.wire.names import check_hive_name

_SUFFIX = ".password"
_REVOKED = ".revoked"


def readers_dir(layout: HiveLayout) -> Path:
    """Where they lie."""
    return layout.nats_dir / "readers"


def reader_file(layout: HiveLayout, name: str) -> Path:
    """The file with a reader's password."""
    return readers_dir(layout) / f"{name}{_SUFFIX}"


def revoked_file(layout: HiveLayout, name: str) -> Path:
    """Where the password waits of a reader that is being revoked: until nobody is let in with it."""
    return readers_dir(layout) / f"{name}{_REVOKED}"


def list_readers(layout: HiveLayout) -> list[str]:
    """The names of all readers that have a password. What is named otherwise is no reader's."""
    return _list(layout, _SUFFIX)


def list_revoked(layout: HiveLayout) -> list[str]:
    """The names of readers whose revocation has not come to its end."""
    return _list(layout, _REVOKED)


def _list(layout: HiveLayout, suffix: str) -> list[str]:
    names = (path.name.removesuffix(suffix) for path in readers_dir(layout).glob(f"*{suffix}"))
    return sorted(name for name in names if _is_name(name))


def _is_name(word: str) -> bool:
    try:
        check_hive_name(word)
    except ValueError:
        return False
    return True
