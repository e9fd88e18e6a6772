"""The part of a body that shows why it was found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from services.broker.store.search.words import WORD, fold, is_unspaced

MAX_SNIPPET_CHARS = 200
_LEAD_CHARS = 60
_GAP = "…"

Span = tuple[int, int]


def cut_snippet(body: str, words: Sequence[str]) -> tuple[str, list[Span]]:
    """A piece of `body` around the first hit, on one line, and where hits are in it."""
    first = next(_find_hits(body, words), (0, 0))[0]
    start = _start_of_word(body, max(0, first - _LEAD_CHARS), first)
    end = start + MAX_SNIPPET_CHARS
    lead, tail = _GAP if start else "", _GAP if end < len(body) else ""
    # One for one, so that places stay.
    text = lead + re.sub(r"\s", " ", body[start:end]) + tail
    return text, list(_find_hits(text, words))


def _start_of_word(body: str, start: int, first: int) -> int:
    """The first word that begins at `start` or later, but not after the hit."""
    if start == 0:
        return 0
    space = re.search(r"\s", body[start - 1 : first])
    return start if space is None else start + space.start()


def _find_hits(text: str, words: Sequence[str]) -> Iterator[Span]:
    """Whole words that begin with one of `words`; those of scripts without spaces anywhere; in order."""
    beginnings = tuple(fold(word) for word in words if not is_unspaced(word))
    parts = [re.escape(word) for word in words if is_unspaced(word)]
    anywhere = re.compile("|".join(parts), re.IGNORECASE) if parts else None
    for found in WORD.finditer(text):
        if beginnings and fold(found[0]).startswith(beginnings):
            yield found.span()
        elif anywhere is not None:
            yield from (part.span() for part in anywhere.finditer(text, *found.span()))
