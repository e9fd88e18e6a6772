"""The definitions a model pays for on every turn, and arguments that are checked strictly.

After a wording change: `UPDATE_SNAPSHOTS=1 make test ARGS=tests/e2e/test_envelope.py`, then review the diff.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.access import LEGACY, MODERN, AgentAccess
from tests.support.claude import Era

SNAPSHOT = Path(__file__).parent / "snapshots" / "tools_list.json"
# What a model is shown of a tool; a token of such JSON is about 3.5 bytes.
SHOWN = ("name", "description", "inputSchema")
MAX_SHOWN_BYTES = 3900


@pytest.mark.requirement("envelope.definitions")
@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_definitions_are_as_reviewed(ruth: AgentAccess, era: Era) -> None:
    listed = ruth.list_tools(era)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        # Sorted, for the eras order the keys of a schema differently.
        SNAPSHOT.write_text(json.dumps(listed, indent=2, ensure_ascii=False, sort_keys=True) + "\n")
    assert listed == json.loads(SNAPSHOT.read_text())


@pytest.mark.requirement("envelope.size")
def test_definitions_stay_within_their_budget(ruth: AgentAccess) -> None:
    shown = [{key: tool[key] for key in SHOWN} for tool in ruth.list_tools()]
    size = len(json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode())
    assert size <= MAX_SHOWN_BYTES


@pytest.mark.requirement("envelope.strict-arguments")
@pytest.mark.parametrize("era", [MODERN, LEGACY])
@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("send", {"to": "iris"}, "`body` is missing"),
        ("send", {"to": "iris", "body": "x", "subject": "y"}, "`subject` is not an argument"),
        ("send", {"to": "iris", "body": 3}, "`body`"),
        ("send", {"to": "iris", "body": "x", "urgent": "yes"}, "`urgent`"),
        ("send", {"to": "iris", "body": "x", "in_reply_to": "9"}, "`in_reply_to`"),
        ("send", {"to": "iris", "body": "x", "in_reply_to": 2**63}, "`in_reply_to`"),
        ("send", {"to": "iris", "body": "nul \0"}, "`body`"),
        ("send", {"to": "iris", "body": " \n"}, "`body`"),
        ("send", {"to": ["iris"], "body": "x"}, "`to`"),
        ("recv", {"max": 0}, "`max`"),
        ("recv", {"max": 1.5}, "`max`"),
        ("recv", {"max": True}, "`max`"),
        ("ack_until", {}, "`up_to` is missing"),
        ("ack_until", {"up_to": -1}, "`up_to`"),
        ("get_agent_meta", {"agent": "iris"}, "`agent` is not an argument"),
        ("set_status", {"text": None}, "`text`"),
    ],
)
def test_wrong_arguments_are_errors_that_say_what_is_expected(
    ruth: AgentAccess, era: Era, tool: str, arguments: dict[str, Any], said: str
) -> None:
    text = ruth.call(tool, era=era, **arguments).error()
    assert said in text
    assert f"Expected: {tool}(" in text
    assert len(text) < 1000


@pytest.mark.requirement("envelope.strict-arguments")
def test_a_whole_number_written_as_a_fraction_is_a_number(ruth: AgentAccess) -> None:
    ruth.call("recv", max=2.0).ok()
