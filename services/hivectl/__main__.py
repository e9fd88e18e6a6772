"""Entry point of `hivectl`: runs a command; a failure becomes one line, one JSON object, one exit code."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from services.hivectl.app import cli
from services.hivectl.exits import ExitCode, exit_code_of
from services.hivectl.render import safe_block
from shared.errors import HiveError

# What a write to standard output fails with when it goes to a file.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def _wants_json(args: Sequence[str]) -> bool:
    """Whether `--json` is among the options, also of a command line that cannot be parsed."""
    options = args[: args.index("--")] if "--" in args else args
    return "--json" in options


def _fail(
    args: Sequence[str], code: str, message: str, details: Mapping[str, Any] | None = None, *, hint: str = ""
) -> None:
    click.echo(f"hivectl: {safe_block(message)}{hint}", err=True)
    if _wants_json(args):
        error = {"code": code, "message": message, "details": dict(details or {})}
        click.echo(json.dumps({"error": error}))


def _fail_usage(args: Sequence[str], exc: click.ClickException) -> None:
    if isinstance(exc, click.exceptions.NoArgsIsHelpError):
        exc.show()
        return
    ctx = exc.ctx if isinstance(exc, click.UsageError) else None
    hint = f"\nTry '{ctx.command_path} --help'." if ctx else ""
    _fail(args, "usage", exc.format_message(), hint=hint)


def _report(args: Sequence[str], exc: BaseException) -> ExitCode:
    """Say what went wrong.

    Raises:
        BaseException: `exc` itself, when nobody expected it.
    """
    match exc:
        case HiveError():
            _fail(args, exc.code, exc.message, exc.details)
            return exit_code_of(exc)
        case click.Abort() | KeyboardInterrupt():
            click.echo("hivectl: interrupted", err=True)
            return ExitCode.INTERRUPTED
        case click.ClickException():
            _fail_usage(args, exc)
            return ExitCode.USAGE
        case BrokenPipeError():
            _drop_output()
            return ExitCode.BROKEN_PIPE
        case OSError() if exc.filename is None and exc.errno in _NO_ROOM:
            _drop_output()
            click.echo(f"hivectl: the output cannot be written: {exc.strerror}", err=True)
            return ExitCode.FAILED
        case OSError() if exc.filename is not None:
            _fail(args, "file_failed", f"{exc.filename}: {exc.strerror}")
            return ExitCode.FAILED
    if _wants_json(args):
        _fail(args, "internal", f"this is a bug in hivectl ({type(exc).__name__})")
    raise exc


def _drop_output() -> None:
    """What is still buffered would raise again when the interpreter flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    except (Exception, KeyboardInterrupt) as exc:  # noqa: BLE001 (the unexpected is raised again)
        try:
            return _report(args, exc)
        except OSError as unwritten:
            # The error itself found no reader, or no room; one that is a bug comes out of this again.
            return _report((), unwritten)
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
