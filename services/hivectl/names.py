"""Agent names on the command line: checked before they travel, near misses answered with what is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from services.hivectl.client import OperatorClient
from shared.errors import HiveError, NotFound
from shared.wire.names import check_agent_name, find_near_names


class AgentNameType(click.ParamType[str]):
    """An agent's name; anything else is a usage error that says the rule."""

    name = "NAME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the rule; whether there is such an agent only the broker knows."""
        try:
            return check_agent_name(str(value))
        except ValueError as exc:
            self.fail(f"an agent's name {exc}", param, ctx)


AGENT_NAME = AgentNameType()


@contextmanager
def suggesting(client: OperatorClient, name: str) -> Iterator[None]:
    """Add near names, or the way to list all, to a `NotFound` about the agent `name`.

    Raises:
        NotFound: with the suggestion; the same code and details.
    """
    try:
        yield
    except NotFound as exc:
        raise NotFound(
            f"there is no agent {name!r}; {_hint(client, name)}",
            code=exc.code,
            details={**exc.details, "agent": name},
        ) from exc


def _hint(client: OperatorClient, name: str) -> str:
    try:
        known = [agent.name for agent in client.list_agents()]
    except HiveError:
        return "`hivectl agent list` shows all"
    near = find_near_names(name, known)
    return f"did you mean {' or '.join(near)}?" if near else "`hivectl agent list` shows all"
