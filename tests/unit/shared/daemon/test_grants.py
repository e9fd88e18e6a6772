"""A grant counts once pushed, survives a restart, and is only ever narrowed by the daemon's own setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from shared.daemon import grants as module
from shared.daemon.grants import GrantsKeeper
from shared.daemon.kept import KeptState
from shared.permissions import AGENT_DEFAULT, ToolGroup
from shared.wire.agents import Grants

pytestmark = pytest.mark.anyio

TOOLS = ("send", "recv", "ack_until", "get_agent_meta", "set_status")


class Rig:
    """A keeper on a real store, counting how often clients are told."""

    def __init__(self, path: Path, requested: frozenset[ToolGroup] | None = None) -> None:
        self.told = 0
        self.store = KeptState(path / "s.sqlite")
        self.keeper = GrantsKeeper(self.store, tools=TOOLS, requested=requested, on_change=self._tell)

    async def _tell(self) -> None:
        self.told += 1


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Rig]]:
    """Starts keepers on one and the same store, as one daemon after the other would."""
    with ExitStack() as opened:

        def start(requested: frozenset[ToolGroup] | None = None) -> Rig:
            rig = Rig(tmp_path, requested)
            opened.callback(rig.store.close)
            return rig

        yield start


def grants(*groups: ToolGroup, version: int = 1) -> Grants:
    return Grants(groups=list(groups), capabilities=[], version=version)


async def test_a_push_takes_effect_at_once_and_tells_clients_only_of_a_change(
    start: Callable[..., Rig],
) -> None:
    rig = start()
    await rig.keeper.apply(grants(ToolGroup.META))
    assert await rig.keeper.visible_tools() == {"get_agent_meta", "set_status"}
    await rig.keeper.apply(grants(ToolGroup.META, ToolGroup.FORGE, version=2))
    assert (rig.told, rig.keeper.version) == (1, 2)


async def test_grants_hold_after_a_restart_without_a_broker(start: Callable[..., Rig]) -> None:
    await start().keeper.apply(grants(ToolGroup.META))
    assert await start().keeper.visible_tools() == {"get_agent_meta", "set_status"}


async def test_a_push_counts_also_where_it_cannot_be_kept(start: Callable[..., Rig]) -> None:
    rig = start()
    await rig.keeper.apply(grants(ToolGroup.META, ToolGroup.MESSAGING))
    rig.store.close()
    await rig.keeper.apply(grants(ToolGroup.META, version=2))
    assert await rig.keeper.visible_tools() == {"get_agent_meta", "set_status"}
    assert (rig.told, rig.keeper.version) == (1, 2)


async def test_the_daemons_own_groups_narrow_and_never_widen(start: Callable[..., Rig]) -> None:
    rig = start(requested=frozenset({ToolGroup.META, ToolGroup.MESSAGING}))
    await rig.keeper.apply(grants(ToolGroup.META, ToolGroup.INBOX))
    assert await rig.keeper.visible_tools() == {"get_agent_meta", "set_status"}


@pytest.mark.requirement("permissions.who-narrowed")
async def test_a_refusal_says_who_took_the_tool_away(start: Callable[..., Rig]) -> None:
    by_setting = start(requested=frozenset({ToolGroup.META})).keeper
    by_operator = start(requested=frozenset({ToolGroup.META, ToolGroup.MESSAGING})).keeper
    for keeper in (by_setting, by_operator):
        await keeper.apply(grants(ToolGroup.META))
    assert "which the setting HIVE_TOOL_GROUPS of this surface leaves out" in by_setting.explain("send")
    assert "the operator can give it" not in by_setting.explain("send")
    assert by_operator.explain("send") == (
        "send needs tool group `messaging`, which this agent does not hold; the operator can give it"
    )


async def test_without_any_push_the_default_preset_is_offered(
    start: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PUSH_WAIT_SECONDS", 0)
    rig = start()
    assert rig.keeper.version is None
    assert await rig.keeper.visible_tools() == set(TOOLS)
    assert ToolGroup.MESSAGING in AGENT_DEFAULT
