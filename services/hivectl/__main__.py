"""Entry point of `hivectl`: runs a command; a failure becomes one line, one JSON object, one exit code."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from services.hivectl.app import cli
from services.hivectl.exits import ExitCode, exit_code_of
from shared.errors import HiveError


def _wants_json(args: Sequence[str]) -> bool:
    """Whether `--json` is among the options, also of a command line that cannot be parsed."""
    options = args[: args.index("--")] if "--" in args else args
    return "--json" in options


def _fail(
    args: Sequence[str], line: str, code: str, message: str, details: Mapping[str, Any] | None = None
) -> None:
    click.echo(line, err=True)
    if _wants_json(args):
        error = {"code": code, "message": message, "details": dict(details or {})}
        click.echo(json.dumps({"error": error}))


def _fail_usage(args: Sequence[str], exc: click.ClickException) -> int:
    if isinstance(exc, click.exceptions.NoArgsIsHelpError):
        exc.show()
        return ExitCode.USAGE
    ctx = exc.ctx if isinstance(exc, click.UsageError) else None
    hint = f"\nTry '{ctx.command_path} --help'." if ctx else ""
    message = exc.format_message()
    _fail(args, f"hivectl: {message}{hint}", "usage", message)
    return ExitCode.USAGE


def run(args: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        # Not cli.main(): that has an exit code of its own for a closed pipe.
        with cli.make_context("hivectl", list(args)) as ctx:
            result = cli.invoke(ctx)
        if sys.stdout is not None:  # None where the caller has closed it
            sys.stdout.flush()
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except HiveError as exc:
        from services.hivectl.render import safe_block  # noqa: PLC0415

        _fail(args, f"hivectl: {safe_block(exc.message)}", exc.code, exc.message, exc.details)
        return exit_code_of(exc)
    except (click.Abort, KeyboardInterrupt):
        click.echo("hivectl: interrupted", err=True)
        return ExitCode.INTERRUPTED
    except click.ClickException as exc:
        return _fail_usage(args, exc)
    except BrokenPipeError:
        # What is still buffered would raise again when the interpreter flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.BROKEN_PIPE
    except Exception as exc:
        if _wants_json(args):
            _fail(args, "hivectl: this is a bug in hivectl", "internal", f"{type(exc).__name__}")
        raise
    return int(result) if isinstance(result, int) else ExitCode.OK


def main() -> None:
    """Console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character must not end the program.
            stream.reconfigure(errors="backslashreplace")
    if "_HIVECTL_COMPLETE" in os.environ:
        cli.main(prog_name="hivectl")
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
