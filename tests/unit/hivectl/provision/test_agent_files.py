"""An agent's files are complete or will be, whenever the call that makes them is cut off."""

import json
from pathlib import Path

import pytest

from services.hivectl.provision import (
    add_agent,
    archive_agent,
    ensure_agents,
    ensure_hive_files,
    list_blocks,
    rotate_token,
    write_hive_file,
)
from shared.errors import Conflict, HiveError, Misconfigured, NotFound, OutcomeUnknown
from shared.layout import HiveLayout, PortPlan
from shared.runtime.credential import TokenFile, hash_token
from tests.unit.hivectl.provision.registry import Registry

PORTS = PortPlan(9000)


@pytest.fixture
def layout(tmp_path: Path) -> HiveLayout:
    layout = HiveLayout(tmp_path / "a hive")
    ensure_hive_files(layout)
    write_hive_file(layout, PORTS, None)
    return layout


def read_token(layout: HiveLayout, name: str) -> str:
    return layout.agent(name).token_file.read_text().strip()


def assert_consistent(layout: HiveLayout, registry: Registry, name: str, *, block: int = 0) -> None:
    """The token is one that the broker knows, and both configurations say the same."""
    token = read_token(layout, name)
    assert registry.current[name] == hash_token(token)
    entry = json.loads(layout.agent(name).mcp_config.read_text())["mcpServers"]["hyperhive"]
    assert entry == {
        "type": "http",
        "url": f"http://127.0.0.1:{9100 + 10 * block}/mcp",
        "headers": {"Authorization": f"Bearer {token}"},
        "alwaysLoad": True,
        "timeout": 45000,
    }
    assert name in json.loads(layout.hive_json.read_text())["agents"]


def test_a_new_agent_has_private_files_and_is_in_hive_json(layout: HiveLayout) -> None:
    registry = Registry()
    agent = add_agent(layout, registry, PORTS, "iris", parent="ruth")
    assert agent.parent == "ruth"
    assert_consistent(layout, registry, "iris")
    paths = layout.agent("iris")
    assert {path.stat().st_mode & 0o777 for path in (paths.token_file, paths.mcp_config)} == {0o600}
    for directory in (paths.home, paths.state_dir, paths.claude_dir, paths.daemons_dir, paths.run):
        assert directory.stat().st_mode & 0o777 == 0o700
    assert json.loads(layout.hive_json.read_text())["agents"]["iris"] == {
        "mcp_config": str(paths.mcp_config),
        "state_dir": str(paths.state_dir),
        "token_file": str(paths.token_file),
        "agent_socket": str(paths.agent_socket),
        "core_socket": str(paths.core_socket),
    }
    assert list_blocks(layout, PORTS) == {"iris": 0}


def test_without_a_parent_an_agent_stands_below_the_root(layout: HiveLayout) -> None:
    registry = Registry()
    assert add_agent(layout, registry, PORTS, "ruth").parent is None
    assert add_agent(layout, registry, PORTS, "iris").parent == "ruth"
    assert add_agent(layout, registry, PORTS, "fred", parent="iris").parent == "iris"
    assert add_agent(layout, registry, PORTS, "gina").parent == "ruth"


def test_up_starts_an_agent_unless_it_was_made_to_stay_down(layout: HiveLayout) -> None:
    registry = Registry()
    assert add_agent(layout, registry, PORTS, "iris").wanted
    assert not add_agent(layout, registry, PORTS, "fred", wanted=False).wanted


def test_a_name_that_is_taken_changes_nothing(layout: HiveLayout) -> None:
    registry = Registry()
    add_agent(layout, registry, PORTS, "iris")
    token = read_token(layout, "iris")
    with pytest.raises(Conflict, match="already"):
        add_agent(layout, registry, PORTS, "iris")
    assert read_token(layout, "iris") == token
    assert_consistent(layout, registry, "iris")


def test_a_name_that_the_broker_refuses_leaves_no_files(layout: HiveLayout) -> None:
    registry = Registry()
    add_agent(layout, registry, PORTS, "iris")
    elsewhere = HiveLayout(layout.root.parent / "other")
    ensure_hive_files(elsewhere)
    write_hive_file(elsewhere, PORTS, None)
    with pytest.raises(Conflict):
        add_agent(elsewhere, registry, PORTS, "iris")
    assert not elsewhere.agent("iris").home.exists()


@pytest.mark.parametrize("when", ["fail_before", "fail_after"])
def test_a_call_that_broke_off_is_completed_by_the_next(layout: HiveLayout, when: str) -> None:
    registry = Registry()
    getattr(registry, when).add("create_agent")
    with pytest.raises(OutcomeUnknown):
        add_agent(layout, registry, PORTS, "iris")
    token = read_token(layout, "iris")
    add_agent(layout, registry, PORTS, "iris")
    assert read_token(layout, "iris") == token
    assert_consistent(layout, registry, "iris")


def test_up_completes_an_agent_whose_files_were_not_finished(layout: HiveLayout) -> None:
    registry = Registry()
    agent = add_agent(layout, registry, PORTS, "iris")
    layout.agent("iris").mcp_config.unlink()
    ensure_agents(layout, registry, PORTS, [agent])
    assert_consistent(layout, registry, "iris")


def test_a_lost_token_is_replaced_at_once(layout: HiveLayout) -> None:
    registry = Registry()
    agent = add_agent(layout, registry, PORTS, "iris")
    layout.agent("iris").token_file.unlink()
    ensure_agents(layout, registry, PORTS, [agent])
    assert_consistent(layout, registry, "iris")
    assert not registry.retiring


def test_other_ports_reach_mcp_json(layout: HiveLayout) -> None:
    registry = Registry()
    agent = add_agent(layout, registry, PortPlan(8000), "iris")
    ensure_agents(layout, registry, PORTS, [agent])
    assert_consistent(layout, registry, "iris")


def test_a_rotated_token_is_everywhere_and_the_old_one_stays_for_a_while(layout: HiveLayout) -> None:
    registry = Registry()
    add_agent(layout, registry, PORTS, "iris")
    old = read_token(layout, "iris")
    rotate_token(layout, registry, PORTS, "iris", now=False)
    assert_consistent(layout, registry, "iris")
    daemon = TokenFile(layout.agent("iris").token_file)
    assert read_token(layout, "iris") != old
    assert daemon.accepts(old)
    assert registry.retiring["iris"] == hash_token(old)


def test_rotated_twice_each_old_token_has_its_ten_minutes(layout: HiveLayout) -> None:
    registry = Registry()
    add_agent(layout, registry, PORTS, "iris")
    tokens = [read_token(layout, "iris")]
    daemon = TokenFile(layout.agent("iris").token_file)
    for _ in range(2):
        rotate_token(layout, registry, PORTS, "iris", now=False)
        tokens.append(read_token(layout, "iris"))
    assert [daemon.accepts(token) for token in tokens] == [True, True, True]
    rotate_token(layout, registry, PORTS, "iris", now=True)
    assert [daemon.accepts(token) for token in tokens] == [False, False, False]


def test_with_now_the_old_token_ends_at_once(layout: HiveLayout) -> None:
    registry = Registry()
    add_agent(layout, registry, PORTS, "iris")
    old = read_token(layout, "iris")
    rotate_token(layout, registry, PORTS, "iris", now=True)
    assert_consistent(layout, registry, "iris")
    assert not TokenFile(layout.agent("iris").token_file).accepts(old)
    assert not registry.retiring


@pytest.mark.parametrize("when", ["fail_before", "fail_after"])
def test_a_rotation_that_broke_off_is_completed_by_up(layout: HiveLayout, when: str) -> None:
    registry = Registry()
    agent = add_agent(layout, registry, PORTS, "iris")
    old = read_token(layout, "iris")
    getattr(registry, when).add("rotate_token")
    with pytest.raises(OutcomeUnknown):
        rotate_token(layout, registry, PORTS, "iris", now=False)
    assert read_token(layout, "iris") == old
    ensure_agents(layout, registry, PORTS, [agent])
    assert_consistent(layout, registry, "iris")
    assert read_token(layout, "iris") != old
    assert TokenFile(layout.agent("iris").token_file).accepts(old)
    assert not layout.agent("iris").token_file.with_name("token.next").exists()


def test_a_rotation_cut_off_after_the_new_token_was_written_keeps_both_notes_right(
    layout: HiveLayout,
) -> None:
    registry = Registry()
    agent = add_agent(layout, registry, PORTS, "iris")
    old = read_token(layout, "iris")
    rotate_token(layout, registry, PORTS, "iris", now=False)
    paths = layout.agent("iris")
    paths.token_file.with_name("token.next").write_text(read_token(layout, "iris"))
    ensure_agents(layout, registry, PORTS, [agent])
    assert_consistent(layout, registry, "iris")
    assert TokenFile(paths.token_file).accepts(old)


def test_the_token_of_the_file_counts_and_not_one_of_a_restored_database(layout: HiveLayout) -> None:
    registry = Registry()
    agent = add_agent(layout, registry, PORTS, "iris")
    old = registry.current["iris"]
    rotate_token(layout, registry, PORTS, "iris", now=True)
    registry.current["iris"] = old
    ensure_agents(layout, registry, PORTS, [agent])
    assert_consistent(layout, registry, "iris")
    assert not registry.retiring


def test_a_token_that_goes_on_for_a_while_still_does_after_an_up(layout: HiveLayout) -> None:
    registry = Registry()
    agent = add_agent(layout, registry, PORTS, "iris")
    old = registry.current["iris"]
    rotate_token(layout, registry, PORTS, "iris", now=False)
    ensure_agents(layout, registry, PORTS, [agent])
    assert registry.retiring == {"iris": old}


def test_a_token_of_older_files_is_replaced(layout: HiveLayout) -> None:
    registry = Registry()
    agent = add_agent(layout, registry, PORTS, "iris")
    old = read_token(layout, "iris")
    rotate_token(layout, registry, PORTS, "iris", now=False)
    layout.agent("iris").token_file.write_text(old)
    ensure_agents(layout, registry, PORTS, [agent])
    assert_consistent(layout, registry, "iris")
    assert read_token(layout, "iris") != old


def test_an_agent_that_the_broker_forgot_is_made_anew_with_its_work(layout: HiveLayout) -> None:
    registry = Registry()
    add_agent(layout, registry, PORTS, "iris")
    (layout.agent("iris").state_dir / "notes").write_text("work")
    registry.agents.clear()
    registry.current.clear()
    add_agent(layout, registry, PORTS, "iris")
    assert_consistent(layout, registry, "iris")
    assert (layout.agent("iris").state_dir / "notes").read_text() == "work"


def test_no_agent_no_rotation(layout: HiveLayout) -> None:
    with pytest.raises(NotFound):
        rotate_token(layout, Registry(), PORTS, "nobody", now=False)
    assert not layout.agent("nobody").home.exists()


def test_a_destroyed_agent_leaves_its_work_and_no_credential(layout: HiveLayout) -> None:
    registry = Registry()
    add_agent(layout, registry, PORTS, "iris")
    rotate_token(layout, registry, PORTS, "iris", now=False)
    (layout.agent("iris").state_dir / "notes.md").write_text("kept")
    archive_agent(layout, "iris", 7)
    away = layout.root / "destroyed" / "iris.7"
    assert (away / "state" / "notes.md").read_text() == "kept"
    assert sorted(path.name for path in away.iterdir()) == ["claude", "daemons", "state"]
    assert not layout.agent("iris").home.exists()
    assert not layout.agent("iris").run.exists()
    assert json.loads(layout.hive_json.read_text())["agents"] == {}
    archive_agent(layout, "iris", 7)


def test_a_second_life_of_a_name_gets_another_token(layout: HiveLayout) -> None:
    registry = Registry()
    add_agent(layout, registry, PORTS, "iris")
    first = read_token(layout, "iris")
    archive_agent(layout, "iris", 1)
    del registry.agents["iris"]
    add_agent(layout, registry, PORTS, "iris")
    assert read_token(layout, "iris") != first


def test_a_destruction_repeated_after_an_interruption_puts_the_rest_away_too(layout: HiveLayout) -> None:
    registry = Registry()
    agent = add_agent(layout, registry, PORTS, "iris")
    archive_agent(layout, "iris", agent.id)
    ensure_agents(layout, registry, PORTS, [agent])
    archive_agent(layout, "iris", agent.id)
    assert sorted(path.name for path in (layout.root / "destroyed").iterdir()) == ["iris.1", "iris.1.1"]


def test_a_path_too_long_for_a_socket_is_said_before_anything_is_made(tmp_path: Path) -> None:
    deep = HiveLayout(tmp_path / ("d" * 60) / ("e" * 60))
    ensure_hive_files(deep)
    write_hive_file(deep, PORTS, None)
    registry = Registry()
    with pytest.raises(Misconfigured, match="107"):
        add_agent(deep, registry, PORTS, "iris")
    assert not registry.agents
    assert not deep.agent("iris").home.exists()


def test_a_root_that_cannot_be_made_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HiveError, match="--root"):
        ensure_hive_files(HiveLayout(tmp_path / "file" / "hive"))


def damage(path: Path, how: str) -> None:
    if how == "a directory":
        path.unlink(missing_ok=True)
        path.mkdir()
    else:
        path.write_text(how)


@pytest.mark.parametrize("how", ["", "two words", "a directory"])
@pytest.mark.parametrize("file", ["token", "token.next", "mcp.json"])
def test_damaged_files_of_one_agent_keep_no_other_from_being_completed(
    layout: HiveLayout, file: str, how: str
) -> None:
    registry = Registry()
    agents = [add_agent(layout, registry, PORTS, name) for name in ("ruth", "iris", "fred")]
    damage(layout.agent("iris").home / file, how)
    failed = ensure_agents(layout, registry, PortPlan(9000), agents)
    if file == "mcp.json" and how != "a directory":
        assert failed == {}
        assert_consistent(layout, registry, "iris", block=1)
    else:
        assert list(failed) == ["iris"]
        assert str(layout.agent("iris").home / file) in failed["iris"].message
    assert_consistent(layout, registry, "ruth")
    assert_consistent(layout, registry, "fred", block=2)


@pytest.mark.parametrize("directory", ["state", "claude", "daemons"])
def test_so_does_something_else_in_the_place_of_a_directory(layout: HiveLayout, directory: str) -> None:
    registry = Registry()
    agents = [add_agent(layout, registry, PORTS, name) for name in ("ruth", "iris")]
    (layout.agent("ruth").home / directory).rmdir()
    (layout.agent("ruth").home / directory).write_text("in the way")
    assert list(ensure_agents(layout, registry, PORTS, agents)) == ["ruth"]
    assert_consistent(layout, registry, "iris", block=1)


def test_a_broker_that_goes_away_meanwhile_is_no_damage_of_an_agent(layout: HiveLayout) -> None:
    registry = Registry()
    agent = add_agent(layout, registry, PORTS, "iris")
    registry.fail_before.add("rotate_token")
    with pytest.raises(OutcomeUnknown):
        ensure_agents(layout, registry, PORTS, [agent])


@pytest.mark.parametrize("file", ["token", "token.next"])
def test_a_rotation_replaces_a_damaged_token(layout: HiveLayout, file: str) -> None:
    registry = Registry()
    agent = add_agent(layout, registry, PORTS, "iris")
    before = read_token(layout, "iris")
    (layout.agent("iris").home / file).write_text("damaged")
    failed = ensure_agents(layout, registry, PORTS, [agent])
    assert failed["iris"].message.endswith(
        "holds no token; remove it, then `hivectl token rotate iris` and `hivectl agent start iris`"
    )
    rotate_token(layout, registry, PORTS, "iris", now=False)
    assert_consistent(layout, registry, "iris")
    assert read_token(layout, "iris") != before
    # Nobody can say any more which token went before.
    assert registry.retiring == {}
    assert ensure_agents(layout, registry, PORTS, [agent]) == {}


def test_a_damaged_token_left_by_an_add_says_that_it_may_be_removed(layout: HiveLayout) -> None:
    registry = Registry()
    registry.fail_before.add("create_agent")
    with pytest.raises(OutcomeUnknown):
        add_agent(layout, registry, PORTS, "iris")
    layout.agent("iris").token_file.write_text("")
    with pytest.raises(Misconfigured, match="is empty; remove it, and try again"):
        add_agent(layout, registry, PORTS, "iris")
    layout.agent("iris").token_file.unlink()
    add_agent(layout, registry, PORTS, "iris")
    assert_consistent(layout, registry, "iris")
