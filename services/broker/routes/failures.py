"""Error answers, declared beside the routes so that the OpenAPI document is complete."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class ErrorBody(BaseModel):
    """What every refusal looks like."""

    code: str = Field(description="a stable word for programs")
    message: str = Field(description="what was wrong and what is right, for people and models")
    details: dict[str, Any] = Field(description="small facts, such as the limit that was reached")
    request_id: str | None = Field(description="what the log has it under")


Responses = dict[int | str, dict[str, Any]]

_MEANINGS = {
    400: "the body is no JSON that can be read: not UTF-8, nested too deeply, a number without end",
    401: "no valid credential for this tree",
    403: "a group, capability or recipient is missing, or the request came from another origin",
    404: "no such thing, or none that the caller may see",
    408: "the body did not arrive in time",
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
# 504 also of a route that only reads: the broker was stopped before it could answer.
_ALWAYS = (401, 403, 421, 422, 500, 503, 504)
_WITH_BODY = (400, 408, 413, 415)


def _header(description: str, kind: str = "string") -> dict[str, Any]:
    return {"description": description, "schema": {"type": kind}}


_HEADERS = {
    401: {"WWW-Authenticate": {**_header("always `Bearer`"), "required": True}},
    429: {"Retry-After": _header("seconds, where waiting helps", "integer")},
}


def declare(*statuses: int, body: bool = False) -> Responses:
    """The `responses` of a route: those every route has, its own, and with `body` those of a bad body."""
    wanted = {*_ALWAYS, *statuses, *(_WITH_BODY if body else ())}
    return {status: _describe(status) for status in sorted(wanted)}


def _describe(status: int) -> dict[str, Any]:
    answer: dict[str, Any] = {"model": ErrorBody, "description": _MEANINGS[status]}
    return {**answer, "headers": _HEADERS[status]} if status in _HEADERS else answer
