"""Error answers, declared beside the routes so that the OpenAPI document is complete."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class ErrorBody(BaseModel):
    """What every refusal looks like."""

    code: str
    message: str
    details: dict[str, Any]
    request_id: str | None


Responses = dict[int | str, dict[str, Any]]

_MEANINGS = {
    401: "no valid credential for this tree",
    403: "a group, capability or recipient is missing, or the request came from another origin",
    404: "no such thing, or none that the caller may see",
    409: "the state of things does not admit it",
    413: "the body is too large",
    415: "the body is not application/json",
    421: "the Host header is not a loopback name with this port",
    422: "the request breaks a rule; the text names the field and what was expected",
    429: "a limit was reached; the text says which",
    500: "a fault of the broker; the log has the reason under the request id",
    503: "the database or the broker is not available; nothing was done",
    504: "it may or may not have been done",
}
_ALWAYS = (401, 403, 421, 422, 500, 503)
_WITH_BODY = (413, 415)


def declare(*statuses: int, body: bool = False) -> Responses:
    """The `responses` of a route: those every route has, its own, and with `body` those of a bad body."""
    wanted = {*_ALWAYS, *statuses, *(_WITH_BODY if body else ())}
    return {status: {"model": ErrorBody, "description": _MEANINGS[status]} for status in sorted(wanted)}
