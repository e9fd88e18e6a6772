"""The one error hierarchy: every expected failure has a code, an HTTP status and a text that says what to do.

Imports nothing of ours. Adapters turn foreign exceptions into these once; HTTP and MCP render them once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class HiveError(Exception):
    """An expected failure, safe to show to whoever asked.

    Args:
        message: one or two sentences for the caller: what was wrong and what is right.
        code: a stable snake_case word for programs; defaults to the class's own.
        details: small JSON-ready facts (names, limits), never secrets or bodies.
    """

    default_code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500

    def __init__(
        self, message: str, *, code: str | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.details: dict[str, Any] = dict(details or {})


class InvalidInput(HiveError):
    """The request cannot be understood or breaks a limit."""

    default_code = "invalid_input"
    http_status = 422


class Unauthenticated(HiveError):
    """No credential, or one that is not (or no longer) valid. The text gives no hint which."""

    default_code = "unauthenticated"
    http_status = 401


class Forbidden(HiveError):
    """The caller is known and may not do this; the text names what would allow it."""

    default_code = "forbidden"
    http_status = 403


class NotFound(HiveError):
    """No such thing, or none that the caller may see: the two look the same."""

    default_code = "not_found"
    http_status = 404


class Conflict(HiveError):
    """The state of things does not admit it: exists already, another body under this key, wrong state."""

    default_code = "conflict"
    http_status = 409


class LimitExceeded(HiveError):
    """A rate, count or size limit was reached; `details["retry_after_seconds"]` where waiting helps."""

    default_code = "limit_exceeded"
    http_status = 429


class Unavailable(HiveError):
    """Something we depend on is down or slow; nothing was done, trying again is safe."""

    default_code = "unavailable"
    http_status = 503


class OutcomeUnknown(HiveError):
    """The connection broke after the request had left: it may or may not have taken effect."""

    default_code = "outcome_unknown"
    http_status = 504


class Misconfigured(HiveError):
    """Settings or files are wrong; the text names the setting and what was expected."""

    default_code = "misconfigured"
    http_status = 500


_CLASSES: tuple[type[HiveError], ...] = (
    InvalidInput,
    Unauthenticated,
    Forbidden,
    NotFound,
    Conflict,
    LimitExceeded,
    Unavailable,
    OutcomeUnknown,
    Misconfigured,
)
_BY_STATUS: dict[int, type[HiveError]] = {
    400: InvalidInput,
    413: LimitExceeded,
    **{cls.http_status: cls for cls in reversed(_CLASSES) if cls is not Misconfigured},
}


def error_from_wire(status: int, body: Mapping[str, Any]) -> HiveError:
    """Rebuild the error that `{code, message, details}` under an HTTP `status` stands for.

    An unknown status becomes a plain `HiveError`, so that a newer peer never breaks an older one.
    """
    cls = _BY_STATUS.get(status, HiveError)
    details = body.get("details")
    return cls(
        str(body.get("message") or f"request failed with status {status}"),
        code=str(body.get("code") or cls.default_code),
        details=details if isinstance(details, dict) else None,
    )
