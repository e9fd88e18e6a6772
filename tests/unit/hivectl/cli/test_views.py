"""Agents as the CLI shows them, and the files they are read from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.hivectl.agent_view import order_tree, read_surface_urls, state_word, view_agent
from services.hivectl.hive_file import BrokerPart, HiveFile, read_hive_file, read_secret
from shared.errors import Misconfigured
from shared.layout import HiveLayout
from shared.wire.agents import Agent, Grants


def _agent(row: int, name: str, parent: str | None = None, *, destroyed: bool = False) -> Agent:
    return Agent(
        id=row,
        name=name,
        parent=parent,
        port_block=row,
        running=True,
        wanted=True,
        destroyed=destroyed,
        created_at=1,
        grants=Grants(groups=[], capabilities=[]),
    )


def test_tree_puts_children_below_their_parent_and_loses_nobody() -> None:
    agents = [
        _agent(1, "ruth"),
        _agent(2, "a", "ruth"),
        _agent(3, "b", "ruth"),
        _agent(4, "c", "a"),
        _agent(5, "orphan", "gone"),
        _agent(6, "x", "y"),
        _agent(7, "y", "x"),
    ]
    shown = [(depth, agent.name) for depth, agent in order_tree(agents)]
    assert shown[:4] == [(0, "ruth"), (1, "a"), (2, "c"), (1, "b")]
    assert sorted(name for _, name in shown) == sorted(agent.name for agent in agents)


def test_destroyed_namesake_is_listed_beside_the_living_one() -> None:
    agents = [_agent(1, "ruth"), _agent(2, "iris", "ruth", destroyed=True), _agent(3, "iris", "ruth")]
    assert [(agent.id, state_word(agent)) for _, agent in order_tree(agents)] == [
        (1, "running"),
        (2, "destroyed"),
        (3, "running"),
    ]


def test_view_has_urls_and_paths_and_never_a_header(tmp_path: Path) -> None:
    config = tmp_path / "agents" / "iris" / "mcp.json"
    config.parent.mkdir(parents=True)
    entry = {
        "type": "http",
        "url": "http://127.0.0.1:7100/mcp",
        "headers": {"Authorization": "Bearer s3cret"},
    }
    config.write_text(json.dumps({"mcpServers": {"hyperhive": entry}}))
    hive = HiveFile(broker=BrokerPart(url="http://127.0.0.1:7000", operator_token_file=Path("/x")))
    view = view_agent(_agent(1, "iris"), hive, HiveLayout(tmp_path))
    assert view["urls"] == {"hyperhive": "http://127.0.0.1:7100/mcp"}
    assert view["mcp_config"] == str(config)
    assert view["state"] == "running"
    assert "s3cret" not in json.dumps(view)


@pytest.mark.parametrize("content", ["", "[]", '{"mcpServers": []}', '{"mcpServers": {"a": 1}}', "{"])
def test_malformed_mcp_json_is_a_clear_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(content)
    with pytest.raises(Misconfigured, match="no MCP configuration"):
        read_surface_urls(path)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("{", "not JSON"),
        ("{}", "broker"),
        ('{"broker": {"url": "ftp://x", "operator_token_file": "/x"}}', r"broker\.url"),
        ('{"broker": {"url": "http://u:p@x", "operator_token_file": "/x"}}', r"broker\.url"),
    ],
)
def test_wrong_hive_json_says_where(tmp_path: Path, content: str, match: str) -> None:
    (tmp_path / "hive.json").write_text(content)
    with pytest.raises(Misconfigured, match=match):
        read_hive_file(HiveLayout(tmp_path))


def test_secret_is_read_without_its_line_end_and_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("abc\n")
    assert read_secret(path) == "abc"
    path.write_text("\n")
    with pytest.raises(Misconfigured, match="empty"):
        read_secret(path)
    with pytest.raises(Misconfigured, match="cannot be read"):
        read_secret(tmp_path / "absent")
