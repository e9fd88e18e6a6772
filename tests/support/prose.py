"""Reads the tools' prose as a careful reader would: markers at line starts, bodies between fences."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARKER = re.compile(r"^\[msg #(\d+)\] from (.*)$", re.MULTILINE)
_ROW = re.compile(
    r"^\[msg #(?P<id>\d+)\] from (?P<facts>[^\n]*)\n"
    r"--- (?P<nonce>[0-9a-f]+)\n(?P<body>.*?)\n--- end (?P=nonce)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Row:
    """One message as `recv` words it."""

    id: int
    sender: str
    facts: tuple[str, ...]
    nonce: str
    body: str


def rows_of(text: str) -> list[Row]:
    """The messages of a `recv` answer."""
    return [
        Row(
            int(found["id"]),
            found["facts"].split(", ")[0],
            tuple(found["facts"].split(", ")[1:]),
            found["nonce"],
            found["body"],
        )
        for found in _ROW.finditer(text)
    ]


def ids_of(text: str) -> list[int]:
    """All ids that stand in a marker at the start of a line."""
    return [int(found[1]) for found in _MARKER.finditer(text)]


def sent_id(text: str) -> int:
    """The id in the answer of a `send` to one recipient."""
    found = re.match(r"#(\d+) to ", text)
    assert found, text
    return int(found[1])


def pending_of(text: str) -> int:
    """N of "N more pending", which ends every `recv` answer."""
    found = re.search(r"^(\d+) more pending$", text.splitlines()[-1])
    assert found, text
    return int(found[1])
