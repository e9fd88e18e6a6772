"""JSON-RPC messages as MCP has them: whether a body is one, and in plain words why not. Pure functions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from mcp import types
from pydantic import TypeAdapter, ValidationError

_JSON: TypeAdapter[Any] = TypeAdapter(Any)
_KINDS: Final[dict[type, str]] = {str: "a string", dict: "an object"}
_ID_KIND: Final = "a string or a whole number"
# What methods take, as far as the SDK has no words of its own for what is wrong: kind, and whether needed.
_Params = dict[str, tuple[type[str] | type[dict[Any, Any]], bool]]
_PARAMS: Final[dict[str, _Params]] = {
    "tools/list": {"cursor": (str, False)},
    "tools/call": {"name": (str, True), "arguments": (dict, False)},
}
_HANDSHAKE_PARAMS: Final[dict[str, _Params]] = {
    **_PARAMS,
    "initialize": {
        "protocolVersion": (str, True),
        "capabilities": (dict, True),
        "clientInfo": (dict, True),
    },
}

RequestId = str | int


@dataclass(frozen=True)
class Fault:
    """Why a body is refused. `id` is that of the request where it can be read."""

    code: int
    message: str
    id: RequestId | None = None
    data: dict[str, Any] | None = None


def parse_message(body: bytes, *, is_handshake: bool) -> dict[str, Any] | Fault:
    """The request or notification that a body is, or what is wrong with it; the text repeats nothing of it.

    Args:
        body: as it came.
        is_handshake: whether it is of the era in which `initialize` is a method.
    """
    try:
        message = _JSON.validate_json(body)
    except ValidationError as exc:
        reason = str(exc.errors(include_url=False, include_input=False)[0]["ctx"]["error"])
        return _diagnose(body, reason, is_handshake=is_handshake)
    return _check(message, is_handshake=is_handshake) or message


def _diagnose(body: bytes, reason: str, *, is_handshake: bool) -> Fault:
    """Why a body could not be parsed. What a more tolerant parser reads has an id."""
    try:
        message = json.loads(body.decode())
    except UnicodeDecodeError as exc:
        return Fault(types.PARSE_ERROR, f"the body is not UTF-8 at byte {exc.start}; send JSON in UTF-8")
    except (ValueError, RecursionError):
        return Fault(types.PARSE_ERROR, f"the body cannot be read as JSON: {reason}")
    if "recursion limit" in reason:
        what = "is nested too deeply"
    else:
        what = "contains half a surrogate pair; send valid Unicode"
    fault = _check(message, is_handshake=is_handshake)
    request_id = message.get("id") if isinstance(message, dict) else None
    if fault is not None or request_id is None or not _is_storable(request_id):
        return Fault(types.INVALID_REQUEST, f"the message {what}")
    return Fault(types.INVALID_PARAMS, f"the request {what}", request_id)


def _check(message: Any, *, is_handshake: bool) -> Fault | None:  # noqa: ANN401 - any JSON value
    """Whether a JSON value is a request or notification, by JSON-RPC 2.0, sections 4 and 5.1."""
    if isinstance(message, list):
        return Fault(types.INVALID_REQUEST, "batches are not part of the protocol; send each request alone")
    if not isinstance(message, dict):
        return Fault(types.INVALID_REQUEST, "the body must be one request or notification, a JSON object")
    request_id = message.get("id")
    if not _is_id(request_id):
        request_id = None
    if (wrong := _find_wrong_envelope(message)) is not None:
        return Fault(types.INVALID_REQUEST, wrong, request_id)
    methods = _HANDSHAKE_PARAMS if is_handshake else _PARAMS
    known = methods.get(message["method"], {}) if "id" in message else {}
    wrong = _find_wrong_param(message.get("params"), known)
    return None if wrong is None else Fault(types.INVALID_PARAMS, wrong, request_id)


def _find_wrong_envelope(message: dict[str, Any]) -> str | None:
    if message.get("jsonrpc") != "2.0":
        return '`jsonrpc` must be "2.0"'
    if "id" in message and not _is_id(message["id"]):
        return f"`id` must be {_ID_KIND}"
    if "method" not in message and ("result" in message or "error" in message):
        return "this is a response, and nothing was asked"
    if not isinstance(message.get("method"), str):
        return "`method` is missing, or is no string"
    return None


def _find_wrong_param(params: Any, known: _Params) -> str | None:  # noqa: ANN401 - any JSON value
    if params is None:
        params = {}
    if not isinstance(params, dict):
        return "`params` must be an object"
    meta = params.get("_meta", {})
    if not isinstance(meta, dict):
        return "`params._meta` must be an object"
    if not _is_id(meta.get("progressToken", 0)):
        return f"`params._meta.progressToken` must be {_ID_KIND}"
    for name, (kind, is_needed) in known.items():
        value = params.get(name)
        if value is None and is_needed:
            return f"`params.{name}` is missing; it must be {_KINDS[kind]}"
        if value is not None and not isinstance(value, kind):
            return f"`params.{name}` must be {_KINDS[kind]}"
    return None


def _is_id(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _is_storable(request_id: RequestId) -> bool:
    return isinstance(request_id, int) or request_id.encode(errors="replace").decode() == request_id
