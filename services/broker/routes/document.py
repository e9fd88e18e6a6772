"""The OpenAPI document: what FastAPI makes of the routes, told once where it would tell it again and again.

Errors become shared responses, bounds become whole numbers; paths outside the trees and the lines of the
control stream, which no route's types say, are added.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from shared.wire.control import ControlEvent
from shared.wire.model import MAX_ID

# Grows when something changes that an older client cannot live with; the paths begin with it.
API_VERSION = "1"
_SCHEMAS = "#/components/schemas/"
_DESCRIPTION = """\
Two trees that share no route: `/v1/agent` under an agent's token, `/v1/operator` under the operator's. Bodies
are JSON of at most 1 MiB; unknown fields are refused. Every answer has `X-Request-Id`: the caller's own, if
it sent one of 1 to 64 of `[A-Za-z0-9_-]`. Errors have one shape, `ErrorBody`; what HTTP itself forbids is
answered before any route: 400 for what is no HTTP, 431 for a head over 64 KiB, 405 for another method."""


def name_operation(route: APIRoute) -> str:
    """A stable `operationId`: the tree and the handler's name, as in `agent_send`."""
    return f"{route.path_format.split('/')[2]}_{route.name}"


def get_document(app: FastAPI) -> dict[str, Any]:
    """The document of a broker's app; made once."""
    if app.openapi_schema is None:
        app.openapi_schema = _refine(app.openapi())
    return app.openapi_schema


def _refine(made: dict[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = _tidy(made)
    document["info"] = {"title": "hyperhive broker", "version": API_VERSION, "description": _DESCRIPTION}
    components = document["components"]
    lines = _tidy(TypeAdapter(ControlEvent).json_schema(ref_template=_SCHEMAS + "{model}"))
    components["schemas"] = {**lines.pop("$defs"), **components["schemas"], "ControlEvent": lines}
    components["responses"] = _share_errors(document["paths"])
    document["paths"] |= {"/healthz": _open_path("get_health", "ok"), "/readyz": _ready_path()}
    return document


def _tidy(node: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Bounds as the whole numbers they were (FastAPI's models make floats of them), no made-up titles."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if isinstance(node, float) and node.is_integer():
        return min(int(node), MAX_ID)
    if not isinstance(node, dict):
        return node
    # A property that is called `title` has a schema for its value.
    return {key: _tidy(item) for key, item in node.items() if key != "title" or isinstance(item, dict)}


def _share_errors(paths: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Move the error answers out of the operations; answers with them, by status."""
    shared: dict[str, Any] = {}
    for methods in paths.values():
        for operation in methods.values():
            for status, answer in operation["responses"].items():
                if status >= "400":
                    shared[f"Error{status}"] = answer
                    operation["responses"][status] = {"$ref": f"#/components/responses/Error{status}"}
    return dict(sorted(shared.items()))


def _ready_path() -> dict[str, Any]:
    path = _open_path("get_readiness", "ready")
    path["get"]["responses"]["503"] = _status_answer("not ready")
    return path


def _open_path(name: str, status: str) -> dict[str, Any]:
    refused = {code: {"$ref": f"#/components/responses/Error{code}"} for code in ("403", "421")}
    answers = {"200": _status_answer(status), **refused}
    operation = {
        "operationId": f"open_{name}",
        "description": "Whether the broker lives, or can serve; for anybody.",
        "tags": ["open"],
        "security": [],
        "responses": answers,
    }
    return {"get": operation}


def _status_answer(status: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"status": {"const": status}},
        "required": ["status"],
        "additionalProperties": False,
    }
    return {"description": f"the broker is {status}", "content": {"application/json": {"schema": schema}}}
