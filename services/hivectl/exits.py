"""Exit codes of `hivectl`: one table for the program, its `--help` and the docs."""

from __future__ import annotations

from enum import IntEnum

from shared.errors import (
    Conflict,
    HiveError,
    InvalidInput,
    Misconfigured,
    NotFound,
    Unauthenticated,
    Unavailable,
)


class ExitCode(IntEnum):
    """What the shell sees. The numbers are contract."""

    OK = 0
    FAILED = 1
    USAGE = 2
    MISCONFIGURED = 3
    NOT_FOUND = 4
    CONFLICT = 5
    UNREACHABLE = 6
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "the operation failed, or doctor found something",
    ExitCode.USAGE: "the command line or an argument is wrong",
    ExitCode.MISCONFIGURED: "settings or files of the hive are wrong, or there is no hive here",
    ExitCode.NOT_FOUND: "no such agent, message, job or reader",
    ExitCode.CONFLICT: "the state of things does not admit it, such as a name that is taken",
    ExitCode.UNREACHABLE: "the hive is not running or cannot be reached; nothing was changed",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
    ExitCode.BROKEN_PIPE: "whoever read the output went away",
}

# A refused operator token is a file that does not fit the broker, not a wrong argument.
_BY_CLASS: tuple[tuple[type[HiveError], ExitCode], ...] = (
    (InvalidInput, ExitCode.USAGE),
    (Unauthenticated, ExitCode.MISCONFIGURED),
    (Misconfigured, ExitCode.MISCONFIGURED),
    (NotFound, ExitCode.NOT_FOUND),
    (Conflict, ExitCode.CONFLICT),
    (Unavailable, ExitCode.UNREACHABLE),
)


def exit_code_of(error: HiveError) -> ExitCode:
    """The exit code that an expected failure ends the program with."""
    return next((code for cls, code in _BY_CLASS if isinstance(error, cls)), ExitCode.FAILED)
