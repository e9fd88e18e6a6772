"""Runs the benchmark and prints one JSON object."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, fields

import uvloop

from bench.compare import Bounds, Result
from bench.hive import running_hive
from bench.sections import calls, inbox, loose_ends, memory, notices, send, sweep, tasks, tools_list, up, wake
from shared.revision import revision

# Those that weigh or time whole hives come first, while no other one runs.
ALONE: dict[str, Callable[[Bounds], Result]] = {
    "memory": memory.run,
    "up": up.run,
    "send": send.run,
    "inbox": inbox.run,
    "loose_ends": loose_ends.run,
    "sweep": sweep.run,
    "wake": wake.run,
}
IN_HIVE = {"calls": calls.run, "tasks": tasks.run, "notices": notices.run, "tools_list": tools_list.run}
SECTIONS = (*ALONE, *IN_HIVE)
EXAMPLES = """examples:
  python -m bench > result.json                         everything, some six minutes
  python -m bench --only calls --only tools_list        two sections
  python -m bench --only calls --requests 100 --rounds 3
  python -m bench.report result.json                    the figures as a table
"""


def main() -> None:
    """Parse, run, print."""
    options = build_parser().parse_args()
    chosen = [name for name in SECTIONS if name in (options.only or SECTIONS)]
    bounds = Bounds(**{field.name: getattr(options, field.name) for field in fields(Bounds)})
    # As Ctrl-C: whatever was started is stopped on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    uvloop.install()
    began = time.monotonic()
    try:
        sections = run_sections(chosen, bounds)
    except KeyboardInterrupt:
        sys.exit("bench: interrupted; what was started is stopped")
    result = {
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "revision": revision(),
            "at": time.strftime("%Y-%m-%d", time.gmtime()),
            "seconds": round(time.monotonic() - began),
        },
        "bounds": asdict(bounds),
        **sections,
    }
    print(json.dumps(result, indent=2))


def build_parser() -> argparse.ArgumentParser:
    """The options; each bound of `Bounds` is one."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure a hive of its own and print one JSON object; progress goes to stderr.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Bounds()
    parser.add_argument("--only", action="append", choices=SECTIONS, help="this section; may be repeated")
    parser.add_argument(
        "--requests",
        type=_positive,
        default=default.requests,
        help="at most so many a measurement [%(default)s]",
    )
    parser.add_argument(
        "--seconds", type=float, default=default.seconds, help="at most so long a measurement [%(default)s]"
    )
    parser.add_argument(
        "--rounds", type=_positive, default=default.rounds, help="measurements of each thing [%(default)s]"
    )
    parser.add_argument(
        "--stored", type=_positive, default=default.stored, help="messages of a full database [%(default)s]"
    )
    parser.add_argument(
        "--agents", type=_positive, default=default.agents, help="agents that are weighed [%(default)s]"
    )
    return parser


def run_sections(chosen: list[str], bounds: Bounds) -> dict[str, Result]:
    """Run these sections one after the other; those that can share one hive do."""
    results: dict[str, Result] = {}
    with ExitStack() as stack:
        hive = None
        for name in chosen:
            print(f"bench: {name}", file=sys.stderr)
            if name in ALONE:
                results[name] = ALONE[name](bounds)
            else:
                hive = hive or stack.enter_context(running_hive("iris", "otto"))
                results[name] = IN_HIVE[name](bounds, hive)
    return results


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    main()
