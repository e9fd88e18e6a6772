"""Requests that nobody thought of: seeded, bounded, the same in every run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.hostile.surface import ERAS, PLANTED, Surface, call, request, routing
from tests.support.access import LEGACY, MODERN
from tests.support.claude import Era

TOOLS = ("send", "recv", "ack_until", "get_agent_meta", "set_status")
ARGUMENTS = ("to", "body", "in_reply_to", "urgent", "max", "up_to", "name", "text", PLANTED)
METHODS = ("tools/call", "tools/list", "ping", "initialize", "server/discover", "notifications/initialized")

bounded = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    # The one surface is meant to be shared by all examples, and starting it takes its time.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

# Lone surrogates, too: `json.dumps` writes them as escapes.
texts = st.text(st.characters(codec=None, categories=None), max_size=40)
integers = st.integers() | st.sampled_from([0, 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**4_000])
scalars = st.none() | st.booleans() | integers | st.floats() | texts | st.just(PLANTED)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
eras = st.sampled_from(ERAS)
# Names of arguments, some of them right, with anything at all for a value.
arguments = st.dictionaries(st.sampled_from(ARGUMENTS), values, max_size=5)


@st.composite
def messages(draw: Callable[[st.SearchStrategy[Any]], Any]) -> dict[str, Any]:
    """A JSON-RPC message with some of its parts replaced or missing."""
    message = {
        "jsonrpc": draw(st.just("2.0") | values),
        "id": draw(st.integers(0, 9) | values),
        "method": draw(st.sampled_from(METHODS) | texts),
        "params": draw(
            st.fixed_dictionaries(
                {"_meta": st.just(call("x")["params"]["_meta"]) | values},
                optional={"name": st.sampled_from(TOOLS) | values, "arguments": arguments | values},
            )
            | values
        ),
    }
    return {name: part for name, part in message.items() if draw(st.integers(0, 9))}


@bounded
@given(tool=st.sampled_from(TOOLS), given_arguments=arguments, era=eras)
def test_arguments(surface: Surface, tool: str, given_arguments: dict[str, Any], era: Era) -> None:
    message = request("tools/call", name=tool, arguments=given_arguments)

    (reply,) = surface.exchange(surface.rpc(message, era))

    assert reply.status in (200, 400)


@bounded
@given(message=messages(), era=eras)
def test_messages(surface: Surface, message: dict[str, Any], era: Era) -> None:
    headers = [header for header in routing_of(message, era) if header.isprintable()]

    (reply,) = surface.exchange(surface.post(json.dumps(message).encode(), *headers))

    assert reply.status in (200, 202, 400, 404)


@bounded
@given(
    edits=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), st.binary(max_size=30)), max_size=4),
    era=eras,
)
def test_bytes(surface: Surface, edits: list[tuple[float, int, bytes]], era: Era) -> None:
    data = surface.rpc(call("get_agent_meta"), era)
    for place, length, put in edits:
        start = int(place * len(data))
        data = data[:start] + put + data[start + length :]

    with surface.connection() as wire:
        wire.send(data)
        wire.finish()


@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_serves_after_all_that(surface: Surface, era: Era) -> None:
    (reply,) = surface.exchange(surface.rpc(call("set_status", text="still here"), era))

    assert not reply.message["result"]["isError"]


def routing_of(message: dict[str, Any], era: Era) -> list[str]:
    """Right headers where the message has what they repeat as text of one line."""
    params = message.get("params")
    named = {"method": message.get("method"), "params": params if isinstance(params, dict) else {}}
    try:
        headers = routing(named, era)
        return [header.encode("latin-1").decode("latin-1") for header in headers]
    except UnicodeEncodeError:
        return routing({}, era)
