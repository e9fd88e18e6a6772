"""The click classes of all commands: `--root` and `--json` at every level, examples, loading on use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from services.hivectl.exits import MEANINGS
from services.hivectl.session import Session

Examples = Sequence[tuple[str, str]]

pass_session = click.make_pass_decorator(Session, ensure=True)


@dataclass(frozen=True)
class Lazy:
    """A command that is imported when it is used: where it is, and its line in the parent's help."""

    module: str
    attribute: str
    summary: str


def _set_root(ctx: click.Context, _param: click.Parameter, value: Path | None) -> None:
    if value is not None:
        ctx.ensure_object(Session).root = value


def _set_json(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Session).as_json = True


def equip(command: click.Command) -> click.Command:
    """Give a command the options that work at every level; they land in the `Session`."""
    present = {param.name for param in command.params}
    if "root" not in present:
        command.params.append(
            click.Option(
                ["--root"],
                type=click.Path(path_type=Path, readable=False),
                metavar="DIR",
                expose_value=False,
                is_eager=True,
                callback=_set_root,
                help="The hive's root directory.  [env: HIVE_ROOT; default: ~/.local/state/hyperhive]",
            )
        )
    if "as_json" not in present:
        command.params.append(
            click.Option(
                ["--json", "as_json"],
                is_flag=True,
                expose_value=False,
                is_eager=True,
                callback=_set_json,
                help="Answer in JSON.",
            )
        )
    return command


def _write_examples(formatter: click.HelpFormatter, examples: Examples) -> None:
    if not examples:
        return
    with formatter.section("Examples"):
        for line, meaning in examples:
            formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
            if meaning:
                formatter.write(f"{'':>{formatter.current_indent}}    {meaning}\n")


class HiveCommand(click.Command):
    """A command with examples: pairs of a command line and what it does."""

    def __init__(
        self,
        name: str | None,
        examples: Examples = (),
        **kwargs: Any,  # noqa: ANN401 (click's own)
    ) -> None:
        super().__init__(name, **kwargs)
        self.examples = examples
        equip(self)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples stand where click puts the epilog."""
        _write_examples(formatter, self.examples)
        super().format_epilog(ctx, formatter)


class HiveGroup(click.Group):
    """A group whose commands may be lazy, in the order in which they were given."""

    command_class = HiveCommand

    def __init__(
        self,
        name: str | None,
        *,
        lazy: Mapping[str, Lazy] | None = None,
        examples: Examples = (),
        show_exit_codes: bool = False,
        **kwargs: Any,  # noqa: ANN401 (click's own)
    ) -> None:
        super().__init__(name, **kwargs)
        self.lazy = dict(lazy or {})
        self.examples = examples
        self.show_exit_codes = show_exit_codes
        equip(self)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Lazy commands in their order, then the others."""
        return [*self.lazy, *(name for name in super().list_commands(ctx) if name not in self.lazy)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a lazy command when it is asked for."""
        place = self.lazy.get(cmd_name)
        if place is None or cmd_name in self.commands:
            return super().get_command(ctx, cmd_name)
        command = getattr(importlib.import_module(place.module), place.attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{place.module}.{place.attribute} is no click command")
        self.add_command(equip(command), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but near names are sought among lazy commands too."""
        if (
            not ctx.resilient_parsing
            and not args[0].startswith("-")
            and args[0] not in self.list_commands(ctx)
        ):
            raise click.exceptions.NoSuchCommand(args[0], possibilities=self.list_commands(ctx), ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands' one-line summaries; lazy ones are not imported for it."""
        rows = []
        for name in self.list_commands(ctx):
            if name in self.lazy:
                rows.append((name, self.lazy[name].summary))
            elif (command := self.get_command(ctx, name)) and not command.hidden:
                rows.append((name, command.get_short_help_str(limit=90)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples, and at the root the exit codes."""
        _write_examples(formatter, self.examples)
        if self.show_exit_codes:
            with formatter.section("Exit codes"):
                formatter.write_dl([(str(code.value), meaning) for code, meaning in MEANINGS.items()])
        super().format_epilog(ctx, formatter)
