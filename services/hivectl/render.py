"""What commands print for people. Foreign text is escaped: it cannot steer the terminal nor pose as ours."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import click

# C0, DEL and C1; marks and overrides of writing direction; line and paragraph separators; the invisible.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    if number <= 0xFF:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def safe(text: str) -> str:
    """`text` on one line, with everything a terminal would act on written out as an escape."""
    return _UNSAFE.sub(_escape, text)


def safe_block(text: str, *, indent: str = "") -> str:
    """`text` with its line breaks kept and every line indented, so that no line can pose as one of ours."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(indent + safe(line.replace("\t", "    ")) for line in lines)


def format_time(unix_seconds: int | None) -> str:
    """Local time to the second, or a dash."""
    if unix_seconds is None:
        return "-"
    try:
        return datetime.fromtimestamp(unix_seconds, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return str(unix_seconds)


def format_age(unix_seconds: int | None) -> str:
    """How long ago, in one unit, or a dash."""
    if unix_seconds is None:
        return "-"
    seconds = max(0, int(time.time()) - unix_seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def print_fields(rows: Iterable[tuple[str, str]]) -> None:
    """Names and values, aligned; values are escaped."""
    pairs = list(rows)
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        click.echo(f"{name:<{width}}  {safe(value)}".rstrip())


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table without lines; cells are escaped. In a pipe nothing is folded or cut."""
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        # Text, not str: rich reads square brackets in a str as markup.
        table.add_row(*(Text(safe(cell)) for cell in row))
    console = Console(
        file=sys.stdout, width=None if sys.stdout.isatty() else 4000, highlight=False, emoji=False
    )
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())
