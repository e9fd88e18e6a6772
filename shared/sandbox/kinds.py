"""What keeps a sandboxed process in on this machine, and what it does not keep."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The means."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True)
class Isolation:
    """What there is.

    Attributes:
        kind: the means.
        reason: why it is not a better one, a sentence without its full stop; empty for namespaces.
        landlock_abi: the version of Landlock, 0 without; with namespaces it keeps abstract sockets out.
        limits: what this kind does not keep apart here, a phrase each.
    """

    kind: Kind
    reason: str = ""
    landlock_abi: int = 0
    limits: tuple[str, ...] = ()
