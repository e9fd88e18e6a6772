"""Foreign text in prose: fenced with a nonce made for one answer, one-line fields without control characters.

Used by tools that answer in prose and by prompts; shapes need none of this, JSON's quoting is their fence.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Iterable

# Every character that some reader takes for the end of a line (Unicode 15, table 5-1, and str.splitlines).
_LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_POSING = re.compile(rf"(^|[{_LINE_ENDS}])([^\S{_LINE_ENDS}]*)(?=\[\s*msg\b)", re.IGNORECASE)
_INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Cs"}


def make_nonce(texts: Iterable[str]) -> str:
    """Eight hex digits that stand in none of `texts`."""
    held = list(texts)
    while True:
        nonce = secrets.token_hex(4)
        if not any(nonce in text for text in held):
            return nonce


def fence(text: str, nonce: str) -> str:
    """Put `text`, quoted, between two lines that carry `nonce`."""
    return f"--- {nonce}\n{quote(text)}\n--- end {nonce}"


def quote(text: str) -> str:
    """`text` as it stands inside a fence; quoting it again changes nothing.

    A line that looks like one of our own `[msg #…]` markers gets "> " before it, for readers that look at
    line starts alone. That makes a text longer by 2 bytes a line.
    """
    # The search costs more than all else that is done with a text, and is for few.
    return _POSING.sub(r"\1\2> ", text) if "[" in text else text


def cut_quoted(text: str, max_bytes: int) -> str:
    """The beginning of `text` that is at most `max_bytes` of UTF-8 once it is quoted."""
    cut = cut_utf8(text, max_bytes)
    while (excess := len(quote(cut).encode()) - max_bytes) > 0:
        cut = cut_utf8(cut, len(cut.encode()) - excess)
    return cut


def one_line(text: str, *, limit: int = 200) -> str:
    """`text` as a single line of at most `limit` characters, without control and format characters."""
    shown = "".join(" " if unicodedata.category(c) in _INVISIBLE else c for c in text[: limit * 4])
    folded = " ".join(shown.split())
    return folded if len(folded) <= limit and len(text) <= limit * 4 else folded[: limit - 1] + "…"


def cut_utf8(text: str, max_bytes: int) -> str:
    """The longest beginning of `text` that is at most `max_bytes` in UTF-8, no character cut in two."""
    return text.encode()[: max(0, max_bytes)].decode(errors="ignore")


def age(seconds: int) -> str:
    """How long ago, for a reader: `5 s ago`, `3 min ago`, `7 h ago`, `12 d ago`."""
    if seconds < 60:
        return f"{max(0, seconds)} s ago"
    if seconds < 3600:
        return f"{seconds // 60} min ago"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h ago"
    return f"{seconds // 86_400} d ago"


def count(number: int, noun: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
