"""`python -m shared.sandbox --policy FILE -- COMMAND…`: run a command inside; `--detect`: say what there is.

`--cwd` says where (else in the state directory), `--kind` takes another kind than the best there is.

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
    choose,
    describe,
    detect,
    pass_signals_to,
    prepare,
    run_inside,
    wait_for,
)

_USAGE = (
    "usage: python -m shared.sandbox --detect\n"
    "       python -m shared.sandbox --policy FILE [--cwd DIRECTORY] [--kind KIND] -- COMMAND...\n"
)
_OPTIONS = {"--policy", "--cwd", "--kind"}


def _parse(arguments: list[str]) -> tuple[dict[str, str], list[str]] | None:
    if "--" not in arguments:
        return None
    place = arguments.index("--")
    options, command = arguments[:place], arguments[place + 1 :]
    values = dict(zip(options[::2], options[1::2], strict=False))
    if len(values) * 2 != len(options) or not values.keys() <= _OPTIONS or "--policy" not in values:
        return None
    return (values, command) if command else None


def main(arguments: list[str]) -> int:
    """Do what the command line says; its exit code."""
    if arguments == ["--detect"]:
        isolation = detect()
        sys.stdout.write(describe(isolation) + "\n")
        return 0 if isolation.kind is not Kind.NONE else 125
    parsed = _parse(arguments)
    if parsed is None or parsed[0].get("--kind", "namespaces") not in {Kind.NAMESPACES, Kind.LANDLOCK}:
        sys.stderr.write(_USAGE)
        return 2
    values, command = parsed
    try:
        policy = Policy.from_json(Path(values["--policy"]).read_text(encoding="utf-8"))
        isolation = choose(Kind(values["--kind"])) if "--kind" in values else detect()
        if isolation.kind is Kind.NONE:
            sys.stderr.write(f"{describe(isolation)}\n")
            return 125
        directory = values.get("--cwd", policy.writable[0])
        pid = run_inside(prepare(policy, isolation), lambda: _run(directory, command))
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
