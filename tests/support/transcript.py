"""Reads transcripts from a Markdown page: commands with what they print, and tool calls with their answers.

`…` in an expected text stands for anything within its line; alone on a line, for any number of lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """A line after `$ `, continued after a backslash, and the lines under it."""

    line: str
    output: str


def read_blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return [text for kind, text in _FENCE.findall(page.read_text(encoding="utf-8")) if kind == language]


def read_commands(page: Path) -> list[Command]:
    """All commands of a page's `console` blocks."""
    return [command for block in read_blocks(page, "console") for command in _split(block)]


def _split(block: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, output = re.sub(r"\\\n\s*", "", part).partition("\n")
        yield Command(line, output.strip())


def matches(expected: str, actual: str) -> bool:
    """Whether a text is what was expected, blanks at line ends aside."""
    pattern = "".join(
        "(?:.*\n)*?" if line == "…" else ".*?".join(map(re.escape, line.split("…"))) + "\n"
        for line in _tidy(expected).splitlines()
    )
    return re.fullmatch(pattern, _tidy(actual) + "\n") is not None


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
