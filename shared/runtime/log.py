"""Logging: one JSON line an event on stderr, a console on a terminal. Never tokens, bodies, output or locals.

Libraries are heard from `warning` on, whatever the level: below it some print headers and parameters.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import time
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LogLevel = Literal["debug", "info", "warning", "error"]

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
get_logger = structlog.get_logger

_LEVELS: dict[LogLevel, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_ours = logging.getLogger("hyperhive")
# What most processes have, set here, before they are forked.
_ours.setLevel(logging.INFO)
logging.getLogger("uvicorn").setLevel(logging.WARNING)
_render_stack = structlog.processors.StackInfoRenderer()
_to_json = json.JSONEncoder(default=repr).encode
# ESC and the like would let a logged name drive the operator's terminal; JSON escapes them anyway.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def configure_logging(
    unit: str, *, agent: str | None = None, level: LogLevel = "info", stream: TextIO | None = None
) -> None:
    """Set up logging of this process; calling it again replaces what was set up.

    Args:
        unit: bound to every line.
        agent: bound to every line, where the process serves one agent.
        level: of our own events.
        stream: where to; stderr by default.
    """
    out = stream or sys.stderr
    bind = _Bind(unit, agent)
    shared: list[Processor] = [structlog.stdlib.add_log_level, bind, _add_time, _render_stack]
    final: list[Processor]
    if out.isatty():
        renderer = structlog.dev.ConsoleRenderer(
            timestamp_key="at", exception_formatter=structlog.dev.plain_traceback
        )
        final = [_strip_control, renderer]
        ours = [*shared, *final]
    else:
        final = [structlog.processors.format_exc_info, _order, _render_json]
        ours = [_Whole(bind)]

    handler = logging.StreamHandler(out)
    meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    foreign = [_add_origin, *shared]
    formatter = structlog.stdlib.ProcessorFormatter
    handler.setFormatter(formatter(foreign_pre_chain=foreign, processors=[meta, *final]))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    _set_level(root, logging.WARNING)
    _set_level(_ours, _LEVELS[level])
    logging.captureWarnings(capture=True)
    # A closed stderr must not turn every log call into a traceback of its own.
    logging.raiseExceptions = False
    _route_uvicorn(level)
    structlog.configure(
        processors=ours,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_Lines(handler).get,
        cache_logger_on_first_use=False,
    )


def hears_debug() -> bool:
    """Whether events of level debug are written: to ask costs a fraction of telling nobody."""
    return _ours.isEnabledFor(logging.DEBUG)


class _Lines:
    """Where rendered events go: to the stream of the handler, under its lock, without a record for each."""

    def __init__(self, handler: logging.StreamHandler[TextIO]) -> None:
        self._handler = handler

    def get(self, *_names: str) -> _Lines:
        """Be the logger of all modules: none is named in a line."""
        return self

    def write(self, line: str) -> None:
        """One line; nobody fails because it cannot be written, as with any handler."""
        handler = self._handler
        with handler.lock or nullcontext(), suppress(Exception):
            handler.stream.write(line + "\n")
            handler.flush()

    debug = info = warning = error = critical = write


class _Whole:
    """All that is done to an event of ours that becomes JSON, in one step: each call has two."""

    def __init__(self, bind: _Bind) -> None:
        self._bind = bind

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> str:
        if "exc_info" in event or "stack_info" in event:
            event = _render_stack(logger, method, event)
            event = structlog.processors.format_exc_info(logger, method, event)
        what = event.pop("event")
        return _render_json(
            logger,
            method,
            self._bind(logger, method, {"at": _now(), "level": method, "event": what, **event}),
        )


def _route_uvicorn(level: LogLevel) -> None:
    """Let uvicorn's own lines through the root handler; drop its access log, ours has the request id."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"
        if name != "uvicorn":
            _set_level(logger, logging.NOTSET)
    _set_level(logging.getLogger("uvicorn"), logging.DEBUG if level == "debug" else logging.WARNING)
    logging.getLogger("uvicorn.error").filters[:] = [_is_no_cancellation]


def _set_level(logger: logging.Logger, level: int) -> None:
    """Set it if it is another: each time `logging` writes into every logger there is.

    In a forked process these are copies of as many pages.
    """
    if logger.level != level:
        logger.setLevel(level)


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Leave out the traceback of a request that the server itself cut: `request_cut` says it."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


class _Bind:
    """Adds who speaks, and on whose request."""

    def __init__(self, unit: str, agent: str | None) -> None:
        self._fixed = {"unit": unit} | ({"agent": agent} if agent else {})

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        for key, value in self._fixed.items():
            event.setdefault(key, value)
        if (current := request_id.get()) is not None:
            event.setdefault("request_id", current)
        return event


def _add_time(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event["at"] = _now()
    return event


_second: tuple[int, str] = (0, "")


def _now() -> str:
    """The time in RFC 3339, UTC, milliseconds; what is the same for a second is rendered once in it."""
    global _second  # noqa: PLW0603
    number, rest = divmod(time.time_ns(), 1_000_000_000)
    known, text = _second
    if number != known:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(number))
        _second = (number, text)
    return f"{text}.{rest // 1_000_000:03d}Z"


def _order(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """When, how bad and what come first, for whoever reads the lines as they are."""
    return {**{key: event[key] for key in ("at", "level", "event")}, **event}


def _render_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """One line; a value that cannot be shown is no reason to fail whoever logs it."""
    try:
        return _to_json(event)
    except Exception as exc:  # noqa: BLE001 - a value's own `repr`, or one that holds itself
        return _to_json(
            {"event": str(event["event"]), "level": event["level"], "unshown": type(exc).__name__}
        )


def _add_origin(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Which library a line comes from that is not ours."""
    record = event.get("_record")
    if isinstance(record, logging.LogRecord):
        event["logger"] = record.name
    return event


def _strip_control(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value)
    return event
