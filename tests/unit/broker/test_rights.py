"""Permissions: what a change makes of them, and what a refusal tells."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from services.broker.service.rights import apply_change, may_reach, narrow, require_capability, require_tool
from services.broker.store.agents import AgentRow
from shared.errors import Forbidden, InvalidInput
from shared.permissions import GROUPS, Capability, ToolGroup
from shared.wire.agents import AddPath, Grants, PermissionsChange

GRANTS = Grants(groups=[ToolGroup.META], capabilities=[], allowed_recipients=["iris"], version=4)
RUTH = AgentRow(
    id=1,
    name="ruth",
    parent_id=None,
    parent=None,
    port_block=0,
    created_at=0,
    destroyed_at=None,
    running=False,
    wanted=True,
    grants=GRANTS,
    boot=None,
    revision=None,
    told_revision=None,
    behind_revision=None,
    status_text="",
    status_set_at=None,
    turn_state=None,
    turn_state_since=None,
    urgent_handed_id=0,
    urgent_handings=0,
    limits_lifted_until=0,
)


@pytest.mark.parametrize("group", [group for group, row in GROUPS.items() if row.tools])
def test_every_gated_tool_is_refused_by_the_name_of_its_group(group: ToolGroup) -> None:
    nobody = replace(RUTH, grants=Grants(groups=[], capabilities=[]))
    for tool in GROUPS[group].tools:
        require_tool(replace(RUTH, grants=Grants(groups=[group], capabilities=[])), tool)
        with pytest.raises(Forbidden, match=f"hivectl agent permissions ruth --add-group {group}"):
            require_tool(nobody, tool)


def test_tools_in_no_group_are_always_allowed() -> None:
    for tool in ("set_status", "compact", "mark_todos_done"):
        require_tool(replace(RUTH, grants=Grants(groups=[], capabilities=[])), tool)


def test_a_missing_capability_is_named_with_what_it_is_for() -> None:
    with pytest.raises(Forbidden, match=r"`broadcast` \(may send to \*\)"):
        require_capability(RUTH, Capability.BROADCAST)


def test_the_operator_is_always_reachable_and_an_empty_list_restricts_nothing() -> None:
    assert may_reach(RUTH, "iris")
    assert may_reach(RUTH, "operator")
    assert not may_reach(RUTH, "otto")
    assert may_reach(replace(RUTH, grants=Grants(groups=[], capabilities=[])), "otto")


def test_what_a_daemon_asks_for_narrows_and_never_widens() -> None:
    assert narrow(GRANTS, None).groups == [ToolGroup.META]
    assert narrow(GRANTS, frozenset({ToolGroup.INBOX})).groups == []
    assert narrow(GRANTS, frozenset(ToolGroup)).groups == [ToolGroup.META]


def test_a_change_adds_removes_and_counts_up() -> None:
    change = PermissionsChange(
        add_groups=[ToolGroup.INBOX],
        remove_groups=[ToolGroup.META],
        add_capabilities=[Capability.URGENT],
        add_recipients=["anna"],
    )
    assert apply_change(GRANTS, change) == Grants(
        groups=[ToolGroup.INBOX],
        capabilities=[Capability.URGENT],
        allowed_recipients=["anna", "iris"],
        version=5,
    )


def test_a_change_that_changes_nothing_leaves_the_version() -> None:
    same = PermissionsChange(add_groups=[ToolGroup.META], remove_capabilities=[Capability.URGENT])
    assert apply_change(GRANTS, same) is GRANTS


@pytest.mark.requirement("paths.granted")
def test_paths_are_opened_changed_and_closed() -> None:
    opened = apply_change(
        GRANTS, PermissionsChange(add_paths=[AddPath(path="/srv//b/"), AddPath(path="/srv/a", mode="rw")])
    )
    assert [(one.path, one.mode) for one in opened.paths] == [("/srv/a", "rw"), ("/srv/b", "ro")]
    changed = PermissionsChange(add_paths=[AddPath(path="/srv/b", mode="rw")], remove_paths=["/srv/a"])
    assert [(one.path, one.mode) for one in apply_change(opened, changed).paths] == [("/srv/b", "rw")]
    assert apply_change(opened, PermissionsChange(remove_paths=["/elsewhere"])) is opened


@pytest.mark.requirement("paths.granted")
def test_a_path_that_meets_the_hives_own_files_is_refused() -> None:
    change = PermissionsChange(add_paths=[AddPath(path="/srv/hive/agents")])
    with pytest.raises(InvalidInput, match="path /srv/hive/agents lies in HIVE_ROOT"):
        apply_change(GRANTS, change, check=lambda _: "lies in")


@pytest.mark.parametrize("path", ["srv", "", "~/x", "/a/../b", "/a\x00b", "/a\nb", "/" + "x" * 5000])
def test_what_is_no_plain_absolute_path_is_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        AddPath(path=path)


@pytest.mark.parametrize(
    "change",
    [
        {"add_groups": [ToolGroup.META], "remove_groups": [ToolGroup.META]},
        {"add_recipients": ["otto"], "remove_recipients": ["otto"]},
        {"remove_recipients": ["iris"]},
        {"add_recipients": ["NOBODY"]},
        {"add_recipients": [f"a{number}" for number in range(200)]},
        {"add_paths": [{"path": "/a"}], "remove_paths": ["/a/"]},
        {"add_paths": [{"path": "/a"}, {"path": "/a", "mode": "rw"}]},
    ],
)
def test_a_change_that_contradicts_itself_or_lifts_a_limit_unsaid_is_refused(
    change: dict[str, object],
) -> None:
    with pytest.raises(InvalidInput):
        apply_change(GRANTS, PermissionsChange.model_validate(change))
