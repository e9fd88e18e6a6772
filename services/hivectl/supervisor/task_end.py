"""Ends the background tasks of agents, which outlive the surfaces that started them."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from shared.errors import HiveError
from shared.layout import DAEMONS_DIR, HiveLayout
from shared.tasks.endings import end_all
from shared.wire.names import check_agent_name

_log = structlog.get_logger(__name__)


def list_agents_on_disk(layout: HiveLayout) -> list[str]:
    """The agents whose daemons have kept something."""
    found = sorted(path.parent.name for path in (layout.root / "agents").glob(f"*/{DAEMONS_DIR}"))
    return [name for name in found if _is_agent_name(name)]


def _is_agent_name(name: str) -> bool:
    try:
        check_agent_name(name)
    except ValueError:
        return False
    return True


def end_tasks(layout: HiveLayout, agent: str, *, reason: str, grace_seconds: float) -> Sequence[str]:
    """End all tasks of an agent whose surfaces are down; blocks. Answers what could not be ended."""
    data_dir = layout.agent(agent).daemons_dir
    try:
        return end_all(data_dir, reason, grace_seconds)
    except (HiveError, OSError) as exc:
        # The agent has ended all the same, and says so.
        _log.exception("tasks_not_ended", agent=agent)
        return [f"the tasks of {agent}: {exc}"]
