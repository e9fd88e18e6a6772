"""How one stream of a task ended: the facts for the durable record of the task.

Plain classes: for the supervisor, importing `dataclasses` would cost more than all its own code.
"""

from __future__ import annotations


class Gap:
    """Bytes of the stream that were not kept: from `at`, `dropped_bytes` of them."""

    __slots__ = ("at", "dropped_bytes")

    def __init__(self, at: int, dropped_bytes: int) -> None:
        self.at = at
        self.dropped_bytes = dropped_bytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gap) and (other.at, other.dropped_bytes) == (self.at, self.dropped_bytes)

    def __hash__(self) -> int:
        return hash((self.at, self.dropped_bytes))

    def __repr__(self) -> str:
        return f"Gap(at={self.at}, dropped_bytes={self.dropped_bytes})"


class StreamEnd:
    """What was written in all, and what of it was kept: the head, then, after at most one gap, the tail.

    Args:
        total_bytes: written by the task.
        head_bytes: the first part that was kept whole.
        dropped_bytes: not kept, right after the head.
        reason: why bytes were dropped; None where none were.
        removed: the file was deleted or replaced while the task ran.
    """

    __slots__ = ("dropped_bytes", "head_bytes", "reason", "removed", "total_bytes")

    def __init__(
        self,
        total_bytes: int,
        head_bytes: int,
        dropped_bytes: int = 0,
        reason: str | None = None,
        *,
        removed: bool = False,
    ) -> None:
        self.total_bytes = total_bytes
        self.head_bytes = head_bytes
        self.dropped_bytes = dropped_bytes
        self.reason = reason
        self.removed = removed

    @property
    def gap(self) -> Gap | None:
        """What is missing, if anything."""
        return Gap(self.head_bytes, self.dropped_bytes) if self.dropped_bytes else None

    @property
    def tail_start(self) -> int:
        """Where the kept tail starts in the stream; `total_bytes` where there is none."""
        return self.head_bytes + self.dropped_bytes

    def to_record(self) -> dict[str, int | str | bool | None]:
        """As JSON-ready values; `from_record` reads them back."""
        return {field: getattr(self, field) for field in self.__slots__}

    @classmethod
    def from_record(cls, record: dict[str, int | str | bool | None]) -> StreamEnd:
        """Read what `to_record` made; nonsense becomes a stream of nothing."""
        total, head, dropped = (
            max(0, int(record.get(field) or 0)) for field in ("total_bytes", "head_bytes", "dropped_bytes")
        )
        reason = record.get("reason")
        return cls(
            total,
            min(head, total),
            min(dropped, max(0, total - head)),
            str(reason) if reason else None,
            removed=bool(record.get("removed")),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamEnd) and other.to_record() == self.to_record()

    def __hash__(self) -> int:
        return hash(tuple(self.to_record().values()))

    def __repr__(self) -> str:
        return f"StreamEnd({', '.join(f'{name}={value!r}' for name, value in self.to_record().items())})"
