"""Policies as data, what the operator's paths may be, and what is said about a kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.errors import Misconfigured
from shared.layout import HiveLayout
from shared.sandbox import MEND, Isolation, Kind, Policy, build_policy, default_protected, describe
from shared.sandbox.syscalls import build_filter

LAYOUT = HiveLayout(Path("/srv/hive"))


def test_a_policy_survives_json_also_with_names_that_are_no_text() -> None:
    policy = Policy("/h", ("/h/s",), ("/a \n\udcff",), ("/h/r/a.sock",), "/h/t", ("/p",))

    assert Policy.from_json(policy.to_json()) == policy


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"home": "/h"}', "null"])
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match="no sandbox policy"):
        Policy.from_json(text)


@pytest.mark.parametrize("path", ["relative", "", "/nul\0"])
def test_only_absolute_paths_are_taken(path: str) -> None:
    with pytest.raises(Misconfigured, match="absolute"):
        Policy("/h", ("/h/s", path), (), (), "/h/t")


def test_an_agents_policy_names_what_is_its_own_and_what_was_added() -> None:
    policy = build_policy(
        LAYOUT,
        "iris",
        temporary=Path("/srv/hive/agents/iris/tmp"),
        extra_readable=["/data"],
        extra_writable=["/work"],
        own_writable=["/srv/hive/agents/iris/claude"],
    )

    assert policy.writable == ("/srv/hive/agents/iris/state", "/srv/hive/agents/iris/claude", "/work")
    assert "/data" in policy.readable
    assert policy.sockets == ("/srv/hive/run/agents/iris/agent.sock", "/srv/hive/run/agents/iris/mcp.sock")
    assert policy.protected == default_protected()


@pytest.mark.parametrize(
    "path", ["/srv/hive", "/srv/hive/agents/bob/state", "/srv/hive/agents/../operator", "/srv/x/../hive"]
)
def test_nothing_of_the_hive_can_be_added(path: str) -> None:
    policy = build_policy(LAYOUT, "iris", temporary=Path("/t"), extra_readable=[path], extra_writable=[path])

    assert not [p for p in (*policy.readable, *policy.writable[1:]) if Path(p).is_relative_to(LAYOUT.root)]


def test_credentials_and_shell_history_are_protected_by_default() -> None:
    protected = default_protected(Path("/home/op"))

    assert {"/home/op/.ssh", "/home/op/.bash_history", "/home/op/.aws", "/home/op/.claude"} <= set(protected)


def test_each_kind_is_described_in_one_line_and_none_says_what_to_do() -> None:
    assert describe(Isolation(Kind.NAMESPACES)) == "tasks run isolated (namespaces)"
    second = describe(Isolation(Kind.LANDLOCK, "user namespaces are refused", 7, ("names of files",)))
    assert second == (
        "tasks run isolated (landlock), not kept apart: names of files; user namespaces are refused"
    )
    assert describe(Isolation(Kind.NONE, "no kernel")) == f"not isolated: no kernel; {MEND}"


def test_the_filter_is_a_whole_program_and_stricter_without_namespaces() -> None:
    with_namespaces, without = build_filter(namespaces=True), build_filter(namespaces=False)

    assert len(with_namespaces) % 8 == len(without) % 8 == 0
    assert len(without) > len(with_namespaces)
