"""What a log line looks like, and what must never be in one."""

from __future__ import annotations

import io
import json
import logging
import re
from typing import Any

import pytest

from shared.runtime.log import LogLevel, configure_logging, get_logger, request_id


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def configured(
    level: LogLevel = "info", *, agent: str | None = "iris", stream: io.StringIO | None = None
) -> io.StringIO:
    out = stream or io.StringIO()
    configure_logging("bash", agent=agent, level=level, stream=out)
    return out


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_an_event_is_one_json_line_with_who_when_and_what() -> None:
    out = configured()

    get_logger("a.module").info("task_finished", id=7, text="two\nlines\x1b[31m")

    [line] = lines(out)
    at = line.pop("at")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", at)
    assert line == {
        "event": "task_finished",
        "level": "info",
        "unit": "bash",
        "agent": "iris",
        "id": 7,
        "text": "two\nlines\x1b[31m",
    }


def test_agent_and_request_id_are_there_only_when_known() -> None:
    out = configured(agent=None)
    log = get_logger()

    log.info("one")
    reset = request_id.set("r1")
    log.info("two")
    request_id.reset(reset)

    assert [("agent" in line, line.get("request_id")) for line in lines(out)] == [
        (False, None),
        (False, "r1"),
    ]


def test_levels_below_the_configured_one_are_silent() -> None:
    out = configured("warning")
    log = get_logger()

    log.info("no")
    log.warning("yes")

    assert [line["event"] for line in lines(out)] == ["yes"]


def test_libraries_are_heard_from_warning_on_even_at_debug() -> None:
    out = configured("debug")

    for name in ("httpcore2.http11", "httpx2", "mcp.server", "sqlalchemy.engine", "nats"):
        logging.getLogger(name).debug("Authorization: Bearer secret")
        logging.getLogger(name).info("parameters")
    logging.getLogger("nats").warning("lost %s", "it")

    [line] = lines(out)
    assert (line["event"], line["logger"], line["unit"]) == ("lost it", "nats", "bash")


def test_uvicorn_goes_the_same_way_and_its_access_log_does_not() -> None:
    out = configured()

    logging.getLogger("uvicorn.error").error("bad request")
    logging.getLogger("uvicorn.access").warning("GET /?token=1")

    assert [line["event"] for line in lines(out)] == ["bad request"]
    assert not logging.getLogger("uvicorn.access").hasHandlers()


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_locals_are_never_shown(stream: type[io.StringIO]) -> None:
    out = configured(stream=stream())

    def fail() -> None:
        hidden = "planted" + "-secret"
        raise ValueError(f"of length {len(hidden)}")

    try:
        fail()
    except ValueError:
        get_logger().exception("failed")

    assert "of length 14" in out.getvalue()
    assert "planted-secret" not in out.getvalue()


def test_a_terminal_gets_no_control_characters_from_values() -> None:
    out = configured(stream=Terminal())

    get_logger().info("named", name="\x1b]0;owned\x07\r")

    assert "\x1b]0;" not in out.getvalue()
    assert "\x07" not in out.getvalue()


def test_what_json_cannot_hold_is_still_logged() -> None:
    out = configured()

    get_logger().info("odd", half="\ud800", thing=object, number=float("nan"))

    assert "odd" in out.getvalue()


def test_warnings_become_lines() -> None:
    out = configured()

    logging.getLogger("py.warnings").warning("%s", "old.py:1: DeprecationWarning: old")

    assert [line["logger"] for line in lines(out)] == ["py.warnings"]


def test_a_closed_stream_stops_nobody() -> None:
    out = configured()
    out.close()

    get_logger().info("nobody_hears")


def test_configuring_again_replaces() -> None:
    configured()
    out = configured()

    get_logger().info("once")

    assert len(lines(out)) == 1


def test_a_value_that_cannot_be_shown_fails_nobody() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("secret")

    out = configured()

    get_logger().info("task_finished", of=Broken())

    assert lines(out) == [{"event": "task_finished", "level": "info", "unshown": "RuntimeError"}]
