"""Exceptions become answers here, for all routes, registered by one function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match

from shared.errors import HiveError, InvalidInput
from shared.runtime.answers import ErrorAnswer, answer_error
from shared.runtime.log import get_logger

_MAX_SHOWN = 5
_MAX_PART = 64
_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
# Messages of pydantic that repeat what was sent; all its others name only what was expected.
_ECHOING = {
    "union_tag_invalid": "must be one of {expected_tags}",
    "json_invalid": "is not valid JSON: {error}",
}

log = get_logger()


def register_error_handlers(app: FastAPI) -> None:
    """Make every expected failure of `app` an `ErrorAnswer`; the unexpected ones are `RequestScope`'s."""
    app.add_exception_handler(HiveError, _on_hive_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)


async def _on_hive_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HiveError)
    if exc.http_status >= 500:
        log.warning(
            "request_failed", method=request.method, path=request.url.path, code=exc.code, reason=exc.message
        )
    return answer_error(exc)


async def _on_invalid(_request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)
    return answer_error(InvalidInput(explain_validation(exc.errors())))


async def _on_http_error(request: Request, exc: Exception) -> Response:
    """The framework's own: no such path, no such method, a body that cannot be parsed at all."""
    assert isinstance(exc, HTTPException)
    status = exc.status_code
    if status == 404:
        return ErrorAnswer(404, "not_found", "no such path")
    if status == 405:
        headers = {**(exc.headers or {}), "Allow": ", ".join(_list_methods(request))}
        return ErrorAnswer(405, "method_not_allowed", "this path has no such method", headers=headers)
    if status == 400:
        return ErrorAnswer(400, "invalid_input", "the body is not valid JSON, or is nested too deeply")
    known = HTTPStatus(status)
    return ErrorAnswer(status, known.name.lower(), known.phrase, headers=exc.headers)


def _list_methods(request: Request) -> list[str]:
    """All that the path has; the framework names those of the first of its routes alone."""
    return [
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL for route in _routes(request)
        )
    ]


def _routes(request: Request) -> Sequence[BaseRoute]:
    routes: Sequence[BaseRoute] = request.app.routes
    return routes


def explain_validation(errors: Sequence[Mapping[str, Any]]) -> str:
    """Render pydantic's errors as `field: what was expected; ...`, never with the input that was wrong."""
    shown = [f"{_name(error)}: {_expectation(error)}" for error in errors[:_MAX_SHOWN]]
    if len(errors) > _MAX_SHOWN:
        shown.append(f"and {len(errors) - _MAX_SHOWN} more")
    return "; ".join(shown)


def _name(error: Mapping[str, Any]) -> str:
    """The path of a field, `messages.3.body`; parameters say that they are one: `query name`."""
    place, *path = [str(part)[:_MAX_PART] for part in error["loc"]] or ["body"]
    if error["type"] == "json_invalid":
        return "body"
    dotted = ".".join(path)
    if place == "body":
        return dotted or "body"
    return f"{place} {dotted}".strip()


def _expectation(error: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx") or {}
    if kind in _ECHOING:
        return _ECHOING[kind].format_map({"expected_tags": "", "error": "", **context})
    if kind == "extra_forbidden":
        return "unknown field; remove it"
    if kind == "missing":
        return "is required"
    return str(error["msg"]).removeprefix("Value error, ")
