"""Names that must be refused wherever a name is taken, and where in a URL they would stand."""

from __future__ import annotations

from urllib.parse import quote

HOSTILE_NAMES: dict[str, str] = {
    "dot-dot": "..",
    "dot": ".",
    "slash": "A/b",
    "climbing": "../../operator/token",
    "empty": "",
    "blank": " ",
    "ten-kilobytes": "a" * 10_240,
    "cyrillic": "r\u0443th",
    "full-width": "\uff52\uff55\uff54\uff48",
    "upper-case": "RUTH",
    "newline-after": "ruth\n",
    "nul-after": "ruth\0",
    "zero-width": "ru\u200bth",
    "dash-first": "-ruth",
    "dotted-subject": "ruth.>",
    "star": "ru*",
    "percent": "%2e%2e",
}


def in_path(name: str) -> str:
    """`name` as one path segment, every byte of it escaped."""
    return "".join(
        f"%{byte:02X}" if chr(byte) in "./" else quote(chr(byte), safe="") for byte in name.encode()
    )
