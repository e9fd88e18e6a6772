"""Agent names on the command line, checked before they travel."""

from __future__ import annotations

import click

from shared.wire.names import check_agent_name


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
