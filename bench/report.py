"""A result of the benchmark as the table of docs/performance.md: `python -m bench.report result.json`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Section = dict[str, Any]
Row = tuple[str, str, str]

BEGIN = "<!-- figures: begin, written by `python -m bench.report RESULT.json --into docs/performance.md` -->"
END = "<!-- figures: end -->"
HEAD = ("what", "goal", "measured")


def main() -> None:
    """Print the table, or put it into a page between its two marks."""
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=__doc__)
    parser.add_argument("result", type=Path, help="what `python -m bench` printed")
    parser.add_argument("--into", type=Path, metavar="PAGE", help="replace the table of this page")
    options = parser.parse_args()
    table = render(json.loads(options.result.read_bytes()))
    if options.into is None:
        print(table)
        return
    page = options.into.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"bench.report: {options.into} lacks the two marks of the table")
    options.into.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")


def render(result: Section) -> str:
    """The machine in one line, then a row for each figure."""
    machine, bounds = result["machine"], result["bounds"]
    about = (
        f"Measured {machine['at']} at {machine['revision']}: {machine['cores']} cores, {machine['system']}, "
        f"Python {machine['python']}; {bounds['rounds']} rounds of at most {bounds['requests']} requests "
        f"or {bounds['seconds']:g} s, {machine['seconds']} s in all."
    )
    rows = [row for name, rows_of in ROWS.items() if name in result for row in _rows(result[name], rows_of)]
    lines = [HEAD, ("---",) * len(HEAD), *rows]
    return "\n".join([about, "", *(f"| {' | '.join(line)} |" for line in lines)])


def _rows(section: Section, rows_of: Callable[[Section], Iterator[Row]]) -> list[Row]:
    if "skipped" in section:
        return [(rows_of.__name__.removeprefix("_").replace("_", " "), "", f"skipped: {section['skipped']}")]
    return list(rows_of(section))


def _send(section: Section) -> Iterator[Row]:
    for kind, label in (("sqlite", "SQLite"), ("postgresql", "PostgreSQL")):
        found = section[kind]
        if "skipped" in found:
            yield f"`send`, {label}", "", f"skipped: {found['skipped']}"
            continue
        for connections, case in found.items():
            goal = "at least 0.35, aim 0.6" if (kind, connections) == ("sqlite", "16") else ""
            at = _count(connections, "connection")
            send, bare = case["send"], case["bare"]
            rates = f"{send['per_second']:.0f} to {bare['per_second']:.0f} a second"
            yield (
                f"`send` over HTTP, {label}, {at}, to a bare endpoint",
                goal,
                f"**{case['ratio']:.2f}** ({rates}; p50 {send['p50_ms']:.1f}, p99 {send['p99_ms']:.1f} ms)",
            )


def _count(number: str, thing: str) -> str:
    return f"{number} {thing}" if number == "1" else f"{number} {thing}s"


def _calls(section: Section) -> Iterator[Row]:
    for era, case in section.items():
        for tool, ratio in case["ratio"].items():
            yield (
                f"`{tool}` as an MCP call, {era}, to a bare echo",
                "at most 2.0, aim 1.5" if tool in ("send", "recv") else "",
                f"**{ratio:.2f}** (p50 {case[tool]['p50_ms']:.2f} to {case['echo']['p50_ms']:.2f} ms)",
            )


def _inbox(section: Section) -> Iterator[Row]:
    for name, ratio in section["ratio"].items():
        stored = f"{section['stored']['many']:,} stored{name.removeprefix('many')}"
        yield (
            f"`recv`, {stored}, to {section['stored']['few']:,}",
            "at most 1.2",
            f"**{ratio:.2f}** (p50 {section[name]['p50_ms']:.2f} to {section['few']['p50_ms']:.2f} ms)",
        )


def _loose_ends(section: Section) -> Iterator[Row]:
    many, alone = section["among many"], section["alone"]
    yield (
        f"`get_loose_ends` at the broker, {section['rows']:,} open rows of others, to none",
        "",
        f"**{section['ratio']:.2f}** (p50 {many['p50_ms']:.2f} to {alone['p50_ms']:.2f} ms)",
    )


def _sweep(section: Section) -> Iterator[Row]:
    for connections, case in section.items():
        if connections == "stored":
            continue
        at = _count(connections, "connection")
        figures = f"{case['swept']['p99_ms']:.1f} to {case['quiet']['p99_ms']:.1f} ms"
        yield (
            f"p99 of `send`, {at}, while {section['stored']:,} old messages are removed, to a quiet one",
            "at most 2.0",
            f"**{case['ratio']:.2f}** ({figures}; {case['rows_a_second']:,} removed a second)",
        )


def _notices(section: Section) -> Iterator[Row]:
    for name, label in (("from_report", "the driver's report"), ("from_answer", "the broker's answer to it")):
        found = section[name]
        yield (
            f"transition, from {label} to a subscriber",
            "",
            f"p50 **{found['p50_ms']:.1f}**, p99 {found['p99_ms']:.1f} ms",
        )


def _wake(section: Section) -> Iterator[Row]:
    for waiting, case in section.items():
        agents = _count(waiting, "waiting agent")
        sent, answered = case["from_send"], case["from_answer"]
        after = f"from its answer {answered['p50_ms']:.1f}, {answered['p99_ms']:.1f} ms"
        yield (
            f"wake by a message, {agents}, from the `send` to who waits",
            "aim p50 5 ms from the commit",
            f"p50 **{sent['p50_ms']:.1f}**, p99 {sent['p99_ms']:.1f} ms ({after})",
        )


def _memory(section: Section) -> Iterator[Row]:
    others = ", ".join(f"{name} {weight:.0f}" for name, weight in sorted(section["pss_mb_of_others"].items()))
    yield (
        f"PSS of an idle agent's surfaces, {section['agents']} agents",
        "at most 60 MB with four surfaces",
        f"**{section['pss_mb_an_agent']:.1f}** MB (besides: {others})",
    )


def _up(section: Section) -> Iterator[Row]:
    for name, count in (("seconds_with_one", 1), ("seconds_with_all", section["agents"])):
        agents = "1 agent" if count == 1 else f"{count} agents"
        yield f"`hivectl up`, warm, to ready, {agents}", "aim 2 s", f"**{section[name]:.1f}** s"


def _tools_list(section: Section) -> Iterator[Row]:
    yield (
        "`tools/list` of all surfaces",
        "",
        f"**{section['bytes']:,}** bytes, {len(section['bytes_a_tool'])} tools",
    )


def _tasks(section: Section) -> Iterator[Row]:
    ours, bare, output = section["run"], section["spawn"], section["output"]
    yield (
        '`run("true")` to its end, to a bare asyncio spawn of `sh -c true`',
        "at most 3, aim 2",
        f"**{section['ratio']:.2f}** (p50 {ours['p50_ms']:.1f} to {bare['p50_ms']:.1f} ms)",
    )
    yield "tasks a second, 16 clients", "", f"**{section['per_second']:.0f}**"
    yield (
        "1 GB of output through a task, to `sh -c … > file`",
        "at most 1.3",
        f"**{output['ratio']:.2f}** ({output['task_seconds']:.1f} to {output['file_seconds']:.1f} s)",
    )


ROWS: dict[str, Callable[[Section], Iterator[Row]]] = {
    "send": _send,
    "calls": _calls,
    "inbox": _inbox,
    "loose_ends": _loose_ends,
    "sweep": _sweep,
    "wake": _wake,
    "notices": _notices,
    "memory": _memory,
    "up": _up,
    "tasks": _tasks,
    "tools_list": _tools_list,
}

if __name__ == "__main__":
    main()
