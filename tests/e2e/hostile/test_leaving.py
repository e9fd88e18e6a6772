"""Callers who leave in the middle, in every way there is; their calls end with them."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from tests.e2e.hostile.surface import ERAS, Surface, call, request
from tests.support.access import MODERN
from tests.support.claude import Era
from tests.support.raw import wire_to
from tests.support.waiting import eventually

BOTH = pytest.mark.parametrize("era", ERAS)
MANY = 100


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("how", ["close", "half-close", "reset"])
def test_half_a_request_is_no_request(surface: Surface, share: float, how: str) -> None:
    whole = surface.rpc(call("set_status", text="half a request"), MODERN)

    with surface.connection() as wire:
        wire.send(whole[: int(len(whole) * share)])
        if how == "reset":
            wire.reset()
        elif how == "half-close":
            assert wire.finish() == []

    (meta,) = surface.exchange(surface.rpc(call("get_agent_meta"), MODERN))
    assert meta.message["result"]["structuredContent"]["status_text"] != "half a request"


@BOTH
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_call_ends_with_its_caller(surface: Surface, era: Era, how: str) -> None:
    request_id = f"leaver-{era}-{how}"
    with surface.units.broker.frozen():
        with wire_to(surface.port) as wire:
            wire.send(surface.rpc(call("get_agent_meta"), era, f"X-Request-Id: {request_id}"))
            eventually(lambda: request_id in surface.unit.log_text(), what="the call has begun")
            if how == "reset":
                wire.reset()
        # The broker cannot have answered it.
        surface.wait_finished(request_id)


@BOTH
def test_a_cancelled_notice_harms_no_other_call(surface: Surface, era: Era) -> None:
    request_id = f"cancelled-{era}"
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}
    with surface.connection() as wire:
        with surface.units.broker.frozen():
            wire.send(surface.rpc(call("get_agent_meta", id=77), era, f"X-Request-Id: {request_id}"))
            eventually(lambda: request_id in surface.unit.log_text(), what="the call has begun")
            (reply,) = surface.exchange(surface.rpc(notice, era))
            assert reply.status == 202
        (answer,) = wire.read()

    assert answer.message["result"]["structuredContent"]["name"] == surface.agent.name


def test_many_leave_at_once(surface: Surface) -> None:
    listen = surface.rpc(request("subscriptions/listen", notifications={"toolsListChanged": True}), MODERN)
    opened = surface.head("GET /mcp HTTP/1.1") + b"\r\n"
    with ExitStack() as leaving:
        wires = [leaving.enter_context(wire_to(surface.port)) for _ in range(MANY)]
        for number, wire in enumerate(wires):
            wire.send(opened if number % 3 == 0 else listen if number % 3 == 1 else listen[:-9])
        for number, wire in enumerate(wires):
            if number % 3 == 0:
                assert wire.read_head().status == 200
        surface.check_serving()
        for wire in wires[::2]:
            wire.reset()

    eventually(lambda: surface.count_connections() == 0, what="all connections are closed")


def test_a_slow_reader_holds_up_nobody(surface: Surface) -> None:
    listing = surface.post(json.dumps(request("tools/list")).encode())
    with wire_to(surface.port) as wire:
        # Answers that are not read fill the buffers of both sides.
        wire.send(listing * 500)
        surface.check_serving()
        wire.reset()
