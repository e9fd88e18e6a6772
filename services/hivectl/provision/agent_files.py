"""An agent's files: made together with its row at the broker, completed after a crash, put away at its end.

The token's file comes first, so that no agent exists whose token nobody has; `mcp.json` comes last, and says
that the rest is there.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from services.hivectl.provision.owned import make_owned_dir, write_owned
from services.hivectl.provision.records import refresh_hive_file
from services.hivectl.provision.root import hive_lock
from services.hivectl.provision.surfaces import write_mcp_config
from services.hivectl.provision.tokens import (
    confirm_token,
    finish_rotation,
    next_token_file,
    read_token,
    replace_token,
)
from shared.errors import Conflict, HiveError, NotFound, OutcomeUnknown, Unauthenticated, Unavailable
from shared.layout import AgentLayout, HiveLayout, PortPlan, check_socket_path
from shared.runtime.credential import hash_token, new_token, retiring_path
from shared.runtime.files import remove_private
from shared.wire.agents import Agent, CreateAgent, RotateToken


class AgentRegistry(Protocol):
    """The part of the operator's client that is needed here."""

    def list_agents(self) -> list[Agent]:
        """All living agents."""

    def get_agent(self, name: str) -> Agent:
        """The row, or `NotFound`."""

    def create_agent(self, request: CreateAgent) -> Agent:
        """A new row, or `Conflict`."""

    def rotate_token(self, name: str, request: RotateToken) -> None:
        """Accept a new token; repeating it changes nothing."""


def add_agent(
    layout: HiveLayout,
    registry: AgentRegistry,
    ports: PortPlan,
    name: str,
    *,
    parent: str | None = None,
    wanted: bool = True,
) -> Agent:
    """Create an agent and its files. Without `parent` it stands below the root agent, if there is one.

    `wanted` says whether the next `up` is to start it.

    Raises:
        Conflict: when there is one of that name; nothing was changed.
        Misconfigured: when its sockets' paths would be too long.
        HiveError: what the broker refused; nothing was changed.
    """
    paths = layout.agent(name)
    check_socket_path(paths.agent_socket)
    check_socket_path(paths.core_socket)
    with hive_lock(layout):
        if paths.mcp_config.exists() and _is_known(registry, name):
            raise Conflict(f"there is an agent {name!r} already", details={"agent": name})
        # Left by a call that was killed, when the row may be there too, with the hash of this very token; or
        # the broker's database was restored from a backup, and forgot an agent whose work is here.
        unfinished = paths.token_file.exists()
        _make_dirs(paths)
        if not unfinished:
            write_owned(paths.token_file, new_token().encode() + b"\n")
        token = read_token(paths, mend="remove it, and try again")
        try:
            above = parent or _find_root(registry)
            agent = registry.create_agent(
                CreateAgent(name=name, token_sha256=hash_token(token), parent=above, wanted=wanted)
            )
        except Conflict:
            if not unfinished:
                _undo(paths)
                raise
            agent = registry.get_agent(name)
            registry.rotate_token(name, RotateToken(token_sha256=hash_token(token), grace_seconds=0))
        except OutcomeUnknown:
            # There may be a row with this token's hash: the next call completes it.
            raise
        except HiveError:
            if not unfinished:
                _undo(paths)
            raise
        write_mcp_config(paths, ports, agent.port_block, read_token(paths))
        refresh_hive_file(layout)
    return agent


def ensure_agents(
    layout: HiveLayout, registry: AgentRegistry, ports: PortPlan, agents: Iterable[Agent]
) -> dict[str, HiveError]:
    """Complete the files of agents that the broker knows: `up` does it for all, as ports may have changed.

    A rotation that was interrupted is brought to its end, and the broker told which tokens count: those of
    the files, whatever a database says that was restored from a backup. A lost one is replaced at once.

    Returns:
        What is wrong with those whose files could not be completed, by name; the others are complete.

    Raises:
        HiveError: when the broker went away or takes nothing from us.
    """
    failed: dict[str, HiveError] = {}
    with hive_lock(layout):
        for agent in agents:
            try:
                _ensure_agent(layout.agent(agent.name), registry, ports, agent)
            except (Unavailable, OutcomeUnknown, Unauthenticated):
                raise
            except HiveError as exc:
                failed[agent.name] = exc
        refresh_hive_file(layout)
    return failed


def _ensure_agent(paths: AgentLayout, registry: AgentRegistry, ports: PortPlan, agent: Agent) -> None:
    _make_dirs(paths)
    if not paths.token_file.exists():
        replace_token(paths, registry, agent.name)
    finish_rotation(paths, registry, agent.name)
    confirm_token(paths, registry, agent.name)
    write_mcp_config(paths, ports, agent.port_block, read_token(paths))


def archive_agent(layout: HiveLayout, name: str, agent_id: int) -> None:
    """Put the files of an agent that is being destroyed away, without its credentials. Nothing to do is fine.

    They go before the broker frees the name: a later agent of that name must never find this one's token.
    """
    paths = layout.agent(name)
    with hive_lock(layout):
        if paths.home.exists():
            for secret in (
                paths.mcp_config,
                next_token_file(paths),
                retiring_path(paths.token_file),
                paths.token_file,
            ):
                remove_private(secret)
            _move_away(paths, layout.root / "destroyed" / f"{name}.{agent_id}")
        refresh_hive_file(layout)


def _is_known(registry: AgentRegistry, name: str) -> bool:
    try:
        registry.get_agent(name)
    except NotFound:
        return False
    return True


def _find_root(registry: AgentRegistry) -> str | None:
    return next((agent.name for agent in registry.list_agents() if agent.parent is None), None)


def _make_dirs(paths: AgentLayout) -> None:
    for path in _agent_dirs(paths):
        make_owned_dir(path)


def _agent_dirs(paths: AgentLayout) -> tuple[Path, ...]:
    return (paths.home, paths.state_dir, paths.claude_dir, paths.daemons_dir, paths.run)


def _undo(paths: AgentLayout) -> None:
    """Remove what was made for a name that turned out to be taken; directories in use stay."""
    remove_private(paths.token_file)
    for path in reversed(_agent_dirs(paths)):
        with contextlib.suppress(OSError):
            path.rmdir()


def _move_away(paths: AgentLayout, target: Path) -> None:
    make_owned_dir(target.parent)
    number = 0
    free = target
    # Where a destruction was interrupted, and its agent brought up again in between, the name is taken.
    while free.exists():
        number += 1
        free = target.with_name(f"{target.name}.{number}")
    try:
        paths.home.rename(free)
        # Sockets only, which nobody serves any more.
        shutil.rmtree(paths.run, ignore_errors=True)
    except OSError as exc:
        raise HiveError(
            f"{paths.home} cannot be moved to {target}: {exc.strerror}", code="storage_failed"
        ) from exc
