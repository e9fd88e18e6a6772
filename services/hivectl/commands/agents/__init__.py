"""`hivectl agent`: the group. Commands are loaded on use; `agent NAME VERB` works as well."""

from __future__ import annotations

import click

from services.hivectl.command import HiveGroup, Lazy
from shared.wire.names import check_agent_name, find_near_names

_HERE = "services.hivectl.commands.agents"


def _is_agent_name(word: str) -> bool:
    try:
        check_agent_name(word)
    except ValueError:
        return False
    return True


class AgentGroup(HiveGroup):
    """Accepts both orders: a word that is no command but could be a name may stand before the verb."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Swap name and verb where only that reading makes sense."""
        known = self.list_commands(ctx)
        if len(args) > 1 and args[0] not in known and _is_agent_name(args[0]):
            if args[1] in known:
                args = [args[1], args[0], *args[2:]]
            elif _is_agent_name(args[1]) and not find_near_names(args[0], known):
                # `agent iris stpo`: the second word is the mistaken verb.
                raise click.exceptions.NoSuchCommand(args[1], possibilities=known, ctx=ctx)
        return super().resolve_command(ctx, args)


agent = AgentGroup(
    name="agent",
    help="Add, show, start, stop and destroy agents.\n\n"
    "The name may also stand first: `agent iris stop`. What is asked of one agent is done in order: a "
    "command waits until the one before has ended, three minutes at most; `kill` and `destroy` cut it short.",
    lazy={
        "add": Lazy(f"{_HERE}.add", "add", "Create an agent and start it."),
        "list": Lazy(f"{_HERE}.show", "list_", "All agents, as a tree."),
        "show": Lazy(f"{_HERE}.show", "show", "One agent in full."),
        "start": Lazy(f"{_HERE}.jobs", "start", "Start an agent's processes."),
        "stop": Lazy(f"{_HERE}.jobs", "stop", "Stop an agent gracefully; it stays stopped."),
        "kill": Lazy(f"{_HERE}.jobs", "kill", "End an agent's processes at once; it stays stopped."),
        "restart": Lazy(f"{_HERE}.jobs", "restart", "Stop an agent gracefully and start it again."),
        "destroy": Lazy(f"{_HERE}.jobs", "destroy", "End an agent for good."),
        "permissions": Lazy(f"{_HERE}.permissions", "permissions", "Show or change what an agent may do."),
        "inbox": Lazy(f"{_HERE}.mailbox", "inbox", "Look into an agent's inbox without touching it."),
    },
    examples=(
        ("hivectl agent add iris", ""),
        ("hivectl agent list", ""),
        ("hivectl agent stop iris", ""),
        ("hivectl agent permissions iris --add-capability urgent", ""),
    ),
)
