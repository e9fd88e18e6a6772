"""The one JSON shape of an error over HTTP: `{code, message, details, request_id}`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from shared.errors import HiveError
from shared.runtime.log import request_id

INTERNAL_MESSAGE = "something went wrong here; the log has the reason under this request_id"


class ErrorAnswer(Response):
    """An error as a response; what cannot be put in UTF-8 is escaped, so that rendering never fails."""

    media_type = "application/json"

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        body = {
            "code": code,
            "message": message,
            "details": dict(details or {}),
            "request_id": request_id.get(),
        }
        # ASCII output: a lone surrogate in a key that the caller chose is no reason for a second failure.
        super().__init__(json.dumps(body, default=str), status, headers)


def answer_error(error: HiveError) -> ErrorAnswer:
    """An expected failure as a response. The text of a 500 is fixed: it may name our files and settings."""
    headers = {}
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if (seconds := error.details.get("retry_after_seconds")) is not None:
        headers["Retry-After"] = str(seconds)
    if error.http_status == 500:
        return ErrorAnswer(500, "internal", INTERNAL_MESSAGE)
    return ErrorAnswer(error.http_status, error.code, error.message, details=error.details, headers=headers)
