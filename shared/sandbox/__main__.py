"""`python -m shared.sandbox --policy FILE -- COMMAND…`: run a command inside; `--detect`: say what there is.

Exit codes: the command's own, 128 and the number of the signal that ended it, 127 when it cannot be executed,
125 when there is no sandbox, 2 for a wrong call.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shared.errors import HiveError
from shared.sandbox import (
    Kind,
    Policy,
    act_as_init,
    describe,
    detect,
    pass_signals_to,
    prepare,
    run_inside,
    wait_for,
)

_USAGE = "usage: python -m shared.sandbox (--detect | --policy FILE [--cwd DIRECTORY] -- COMMAND...)\n"


def _parse(arguments: list[str]) -> tuple[Path, str | None, list[str]] | None:
    options, separator, command = arguments, "", []
    if "--" in arguments:
        place = arguments.index("--")
        options, separator, command = arguments[:place], "--", arguments[place + 1 :]
    values = dict(zip(options[::2], options[1::2], strict=False))
    known = (
        len(options) in {2, 4} and len(values) * 2 == len(options) and values.keys() <= {"--policy", "--cwd"}
    )
    if not (known and separator and command and "--policy" in values):
        return None
    return Path(values["--policy"]), values.get("--cwd"), command


def main(arguments: list[str]) -> int:
    """Do what the command line says; its exit code."""
    if arguments == ["--detect"]:
        isolation = detect()
        sys.stdout.write(describe(isolation) + "\n")
        return 0 if isolation.kind is not Kind.NONE else 125
    parsed = _parse(arguments)
    if parsed is None:
        sys.stderr.write(_USAGE)
        return 2
    file, directory, command = parsed
    try:
        policy = Policy.from_json(file.read_text(encoding="utf-8"))
        isolation = detect()
        if isolation.kind is Kind.NONE:
            sys.stderr.write(f"{describe(isolation)}\n")
            return 125
        pid = run_inside(prepare(policy, isolation), lambda: _run(directory or policy.writable[0], command))
    except (HiveError, OSError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 125
    return _follow(pid)


def _run(directory: str, command: list[str]) -> int:
    try:
        os.chdir(directory)
    except OSError as exc:
        sys.stderr.write(f"{directory}: {exc.strerror}\n")
        return 126
    return act_as_init(command)


def _follow(pid: int) -> int:
    """Wait for the sandbox, passing on what we are told to do."""
    pass_signals_to(pid)
    code = wait_for(pid)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
