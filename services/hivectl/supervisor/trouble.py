"""Says once that something has begun to fail, and once that it goes well again; nothing in between."""

from __future__ import annotations

from typing import Any, Protocol


class Log(Protocol):
    """The two methods of a logger that are needed here."""

    def warning(self, event: str, **facts: Any) -> Any:  # noqa: ANN401 (structlog's)
        """Note something that is wrong."""

    def info(self, event: str, **facts: Any) -> Any:  # noqa: ANN401 (structlog's)
        """Note something that is as it should be."""


class Trouble:
    """What one thing that is tried over and over fails with now.

    Args:
        log: where to.
        failed: the event when it begins to fail, or fails with another code.
        recovered: the event when it goes well again; it tells how often it had failed.
    """

    def __init__(self, log: Log, *, failed: str, recovered: str) -> None:
        self._log = log
        self._failed = failed
        self._recovered = recovered
        self._code: str | None = None
        self._attempts = 0

    def note(self, code: str, **facts: Any) -> None:  # noqa: ANN401 (structlog's)
        """It failed."""
        self._attempts += 1
        if code != self._code:
            self._code = code
            self._log.warning(self._failed, code=code, **facts)

    def clear(self) -> None:
        """It went well."""
        if self._code is not None:
            self._log.info(self._recovered, after=self._code, attempts=self._attempts)
        self._code, self._attempts = None, 0
