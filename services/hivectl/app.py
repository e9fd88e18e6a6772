"""The root command: which commands there are. Each is imported only when it is used."""

from __future__ import annotations

import json

import click

from services.hivectl.command import HiveGroup, Lazy
from services.hivectl.session import Session
from shared.revision import distribution_version, own_commit, revision

_HERE = "services.hivectl.commands"


def _show_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    """Not eager, so that `--json` counts wherever it stands."""
    if not value or ctx.resilient_parsing:
        return
    if ctx.ensure_object(Session).as_json:
        known = {"version": distribution_version(), "commit": own_commit(), "revision": revision()}
        click.echo(json.dumps(known, indent=2))
    else:
        click.echo(f"hivectl {revision()}")
    ctx.exit()


cli = HiveGroup(
    name="hivectl",
    help="Run a hive of Claude Code agents and steer it.\n\n"
    "Every command takes --root and --json, before or after its name.",
    show_exit_codes=True,
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            callback=_show_version,
            help="Print the version, and the commit of a checkout.",
        )
    ],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    lazy={
        "up": Lazy(f"{_HERE}.up", "up", "Run the whole hive on this machine."),
        "down": Lazy(f"{_HERE}.down", "down", "Stop the hive that `up` runs."),
        "prepare": Lazy(
            f"{_HERE}.prepare", "prepare", "Write a hive's files, for units that systemd starts."
        ),
        "agent": Lazy(f"{_HERE}.agents", "agent", "Add, show, start, stop and destroy agents."),
        "send": Lazy(f"{_HERE}.send", "send", "Send a message to an agent as the operator."),
        "wake": Lazy(f"{_HERE}.wake", "wake", "Wake an agent by a message from a script."),
        "inbox": Lazy(f"{_HERE}.inbox", "inbox", "Read and answer what agents sent to the operator."),
        "search": Lazy(f"{_HERE}.search", "search", "Find messages by the words in them."),
        "todos": Lazy(f"{_HERE}.todos", "todos", "Show what an agent was told to look at."),
        "tasks": Lazy(f"{_HERE}.tasks", "tasks", "Show what runs in agents' background, and end it."),
        "audit": Lazy(f"{_HERE}.audit", "audit", "Show which messages were refused, and why."),
        "approvals": Lazy(f"{_HERE}.approvals", "approvals", "Answer what agents ask before they may act."),
        "schedules": Lazy(
            f"{_HERE}.schedules", "schedules", "Look at prompts that go to agents at a time, and cancel them."
        ),
        "reminders": Lazy(
            f"{_HERE}.reminders", "reminders", "Show what agents will remind themselves of, and cancel it."
        ),
        "notices": Lazy(f"{_HERE}.notices", "notices", "Follow what happens to agents, from JetStream."),
        "mcp-config": Lazy(
            f"{_HERE}.mcp_config", "mcp_config", "Say how claude connects to an agent's surfaces."
        ),
        "token": Lazy(f"{_HERE}.token", "token", "Replace an agent's credential."),
        "doctor": Lazy(f"{_HERE}.doctor", "doctor", "Check the hive, and say how to mend what is wrong."),
    },
    examples=(
        ("hivectl up", "run a hive with the agent ruth until Ctrl-C"),
        ("hivectl agent add iris", "add an agent below ruth and start it"),
        ('hivectl send iris "how far are you?"', "answers come with `hivectl inbox`"),
        ("hivectl --version --json", "`version`, `commit` and `revision`"),
        ("hivectl --json agent list", "the same as `hivectl agent list --json`"),
    ),
)
