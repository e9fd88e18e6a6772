"""Renders docs/hivectl.md from the commands themselves: usage, options, examples, exit codes, JSON."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from services.hivectl.app import cli
from services.hivectl.command import HiveCommand, HiveGroup
from services.hivectl.doctor.catalogue import CATALOGUE
from services.hivectl.exits import MEANINGS

_EVERYWHERE = {"root", "as_json"}

_INTRO = """\
# hivectl

<!-- Made from the commands by `make generate`; a test fails when it is stale. -->

`hivectl` runs a hive and steers it. It finds the hive by `hive.json` in the root directory: `--root DIR`,
else `HIVE_ROOT`, else `$XDG_STATE_HOME/hyperhive` or `~/.local/state/hyperhive`. `--root` and `--json` are
accepted by every command, before and after its name. `--help` of each command says the same as this page;
`hivectl --version` says which version and commit it is.

It prints where credentials are, never the credentials. Whatever agents wrote is escaped before a terminal
sees it.
"""

_JSON = """\
## JSON

With `--json` the answer, and nothing else, is on standard output; notes and errors for people are on standard
error. Lists are a bare array, single things an object. Times are unix seconds, in notices RFC 3339. `--help`
is for people: it stays text with `--json`.

"""

_ANSWERS: dict[str, str] = {
    "`--version`": "`version` of the distribution, `commit` of a checkout or null, `revision`: both in one",
    "`up`": "`hive`, `root`, `broker` and `nats` (`url`), `agents` by name (`urls`, `mcp_config`, `claude`), "
    "`failed`: array of texts",
    "`down`": "`running`: false",
    "`prepare`": "`root`, `nats_config` (a path, or null), `broker_settings`: variables by name",
    "`agent list`": "array of agents: the registry's fields, `state` (`running`, `stopped`, `destroyed`), "
    "`urls` by surface, `mcp_config`, `state_dir`",
    "`agent show`, `agent add`": "one of these",
    "`agent start`, `stop`, `kill`, `restart`, `destroy`": "the job: `id`, `kind`, `agent`, `state` "
    "(`queued`, `claimed`, `done`, `failed`), `error`",
    "`agent permissions`": "`groups`, `capabilities`, `allowed_recipients`, `paths` (`path`, `mode`: `ro` or "
    "`rw`), `version`; after a change also `confirmed`",
    "`agent inbox`, `inbox`": "array of messages, newest last",
    "`send`, `inbox reply`": "`id`, `to`, `state` (`queued`), `recipient_state`; to `*` an object with an "
    "array of these, `sent`",
    "`inbox ack`": "`acked`, `stayed`, `stayed_count`, `acked_ids`",
    "`inbox parked`": "array of messages, newest last, with `failed_turns` and `parked_at`",
    "`inbox release`": "the message",
    "`search`": "array of messages, newest first, each with `snippet` and `matches`: begin and end of each "
    "hit in it",
    "`audit`": "array of `id`, `sender`, `recipient` (`?`: a name that nobody has), `code`, `reason`, "
    "`size`, `count`, `first_at`, `last_at`, newest last",
    "`approvals list`": "array of `id`, `kind` (`schedule_prompt`, `tool_permission`), `agent`, `status` "
    "(`pending`, `approved`, `denied`, `expired`, `cancelled`), `summary`, `created_at`, `deadline_at`, "
    "`decided_at`, `decided_by`, `note`, newest last",
    "`approvals show`, `approve`, `deny`": "one of these, with `content`: what was submitted",
    "`schedules list`": "array of `id`, `owner`, `status` (`pending`, `active`, `done`, `denied`, "
    "`cancelled`), `targets` (`name`, `cancelled`), `body`, `description`, `next_fire_at`, "
    "`interval_seconds`, `created_at`, `last_fired_at`, `fires`, `last_result`, `approval`, newest first",
    "`tasks`": "`tasks`: array of `agent`, `surface`, `id`, `state` (`pending`, `running`, `done`, "
    "`timed_out`, `interrupted`, `killed`, `failed`), `title`, `created_at`, `started_at`, `ended_at`, "
    "`exit_code`, `signal`; "
    "`surfaces`: array of `agent`, `surface`, `running`, `pending`, `as_of`, `connected`; `more`",
    "`tasks kill`": "`agent`, `id`, `surface`, `delivered`, `outcome` (`killing`, `over`)",
    "`reminders`": "array of `id`, `agent`, `body`, `created_at`, `due_at`, `spill` (its file, or null), "
    "`held`, soonest first",
    "`notices tail`": "one CloudEvent a line, as they come",
    "`notices grant`": "`name`, `url`, `user`, `password_file` (null where there is none), `inbox_prefix`, "
    "`durable`, `ready`",
    "`notices readers`": "array of these",
    "`notices revoke`": "`name`, `revoked`: true",
    "`mcp-config`": "`path`, `command`, `urls`",
    "`token rotate`": "`agent`, `token_file`, `mcp_config`, `old_token_valid`",
    "`doctor`": "`ok`, and `checks`: array of `name`, `ok`, `severity` (`info`, `warning`, `error`), "
    "`detail`, `mend` (a text that says what to do; empty where all is well); the names are below",
}

_FAILURES = """\
A failure is `{"error": {"code", "message", "details"}}` on standard output, one line for people on standard
error, and an exit code. An interrupted command prints nothing.
"""


_DOCTOR = """\
Every check has a name that does not change. Words in capitals stand for what varies.

| check | looks at | warning | error |
|---|---|---|---|
"""


def render_hivectl_page() -> str:
    """The whole page."""
    codes = "".join(f"| {code.value} | {meaning} |\n" for code, meaning in MEANINGS.items())
    answers = "".join(f"| {command} | {answer} |\n" for command, answer in _ANSWERS.items())
    parts = [
        _INTRO,
        f"## Exit codes\n\n| code | meaning |\n|---|---|\n{codes}",
        f"{_JSON}| command | answer |\n|---|---|\n{answers}",
        _FAILURES,
        *(_render(path, command) for path, command in _walk(cli)),
    ]
    return "\n".join(parts)


def _walk(group: HiveGroup, path: str = "hivectl") -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is None:
            continue
        yield f"{path} {name}", command
        if isinstance(command, HiveGroup):
            yield from _walk(command, f"{path} {name}")


def _render(path: str, command: click.Command) -> str:
    ctx = click.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(ctx))
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    lines = [f"## {path}", "", f"`{path} {usage}`", "", text]
    options = [
        param
        for param in command.params
        if isinstance(param, click.Option) and param.name not in _EVERYWHERE and not param.hidden
    ]
    if options:
        lines += ["", "| option | meaning |", "|---|---|"]
        for option in options:
            names, meaning = option.get_help_record(ctx) or ("", "")
            lines.append(f"| `{names}` | {meaning.replace('|', chr(92) + '|')} |")
    if isinstance(command, HiveCommand | HiveGroup) and command.examples:
        lines += ["", "```sh"]
        lines += [f"{line}  # {meaning}" if meaning else line for line, meaning in command.examples]
        lines.append("```")
    if path == "hivectl doctor":
        rows = [f"| `{kind.name}` | {kind.what} | {kind.warns} | {kind.fails} |" for kind in CATALOGUE]
        lines += ["", _DOCTOR + "\n".join(rows)]
    return "\n".join([*lines, ""])
