"""The scripted model: what it plays, what it keeps apart, and that a script not followed is a failure."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.support.messages_api import ScriptedModel
from tests.support.script import Fail, ModelRequest, Say, Together, Use


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as running:
        yield running


def ask(
    model: ScriptedModel, text: str, *, headers: dict[str, str] | None = None, **more: Any
) -> httpx2.Response:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}], **more}
    return httpx2.post(f"{model.url}/v1/messages?beta=true", json=body, headers=headers, timeout=10)


def test_steps_are_played_in_order(model: ScriptedModel) -> None:
    model.extend(Use("mcp__demo__add", {"a": 1}), Say("three"))
    first, second = ask(model, "one").json(), ask(model, "two").json()
    assert (first["stop_reason"], first["content"][0]["input"]) == ("tool_use", {"a": 1})
    assert (second["stop_reason"], second["content"][0]["text"]) == ("end_turn", "three")


def test_a_streamed_answer_carries_the_same_blocks(model: ScriptedModel) -> None:
    model.extend(Use("mcp__demo__add", {"a": 1}))
    response = ask(model, "one", stream=True)
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert response.headers["content-type"] == "text/event-stream"
    assert json.loads(deltas[0]["partial_json"]) == {"a": 1}
    assert [event["type"] for event in events][-2:] == ["message_delta", "message_stop"]


def test_side_requests_consume_no_step(model: ScriptedModel) -> None:
    model.extend(Say("main"))
    assert "<summary>" in ask(model, "Please create a detailed summary of the conversation").text
    assert ask(model, "nested", headers={"x-claude-code-agent-id": "a1"}).status_code == 200
    assert ask(model, "nested", system=[{"type": "text", "text": "cc_is_subagent=true"}]).status_code == 200
    count = httpx2.post(f"{model.url}/v1/messages/count_tokens", json={"messages": []})
    assert count.json()["input_tokens"] >= 1
    assert ask(model, "hello").json()["content"][0]["text"] == "main"
    assert [r.kind for r in model.requests] == ["compaction", "agent", "agent", "count_tokens", "main"]


def test_a_byte_identical_retry_gets_the_same_answer(model: ScriptedModel) -> None:
    model.extend(Say("once"), Say("twice"))
    assert ask(model, "same").json()["content"] == ask(model, "same").json()["content"]
    assert ask(model, "other").json()["content"][0]["text"] == "twice"


def test_a_retry_after_an_error_gets_the_next_step(model: ScriptedModel) -> None:
    model.extend(Fail(529, "Overloaded", "overloaded_error", {"retry-after": "0"}), Say("recovered"))
    refused = ask(model, "same")
    assert (refused.status_code, refused.json()["error"]["type"]) == (529, "overloaded_error")
    assert refused.headers["retry-after"] == "0"
    assert ask(model, "same").json()["content"][0]["text"] == "recovered"


def test_an_input_is_computed_from_what_was_shown(model: ScriptedModel) -> None:
    model.extend(Use("ack", lambda request: {"up_to": int(request.last_result.text)}))
    messages = [
        {"role": "user", "content": "go"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "41"}]},
    ]
    response = httpx2.post(f"{model.url}/v1/messages", json={"model": "m", "messages": messages})
    assert response.json()["content"][0]["input"] == {"up_to": 41}


def test_several_tools_are_called_in_one_answer(model: ScriptedModel) -> None:
    model.extend(Together([Use("slow"), Use("fast")]))
    blocks = ask(model, "both").json()["content"]
    assert [block["name"] for block in blocks] == ["slow", "fast"]
    assert len({block["id"] for block in blocks}) == 2


def test_a_held_step_waits_for_its_event(model: ScriptedModel) -> None:
    gate = threading.Event()
    model.extend(Say("late", until=gate))
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(ask, model, "hello")
        model.wait_for_main(1)
        assert not pending.done()
        gate.set()
        assert pending.result(10).json()["content"][0]["text"] == "late"


def test_the_request_shows_tools_system_and_results() -> None:
    body = {
        "system": [{"type": "text", "text": "be brief"}],
        "tools": [{"name": "add", "input_schema": {}}],
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t",
                        "is_error": True,
                        "content": [{"type": "text", "text": "no"}],
                    }
                ],
            },
        ],
    }
    request = ModelRequest("main", "/v1/messages", {}, body)
    assert (request.system, list(request.tools)) == ("be brief", ["add"])
    assert (request.last_result.text, request.last_result.is_error) == ("no", True)


def test_steps_left_over_fail_the_script() -> None:
    with pytest.raises(AssertionError, match="1 steps were not played"), ScriptedModel([Say("x")]):
        pass


def test_asking_beyond_the_script_fails_it() -> None:
    with pytest.raises(AssertionError, match="more often than the script says"), ScriptedModel() as model:
        assert ask(model, "hello").status_code == 400


def test_a_failing_step_reaches_the_test() -> None:
    def broken(request: ModelRequest) -> dict[str, Any]:
        raise ValueError("no tool results")

    with pytest.raises(AssertionError, match="no tool results"), ScriptedModel([Use("x", broken)]) as model:
        assert ask(model, "hello").status_code == 400
