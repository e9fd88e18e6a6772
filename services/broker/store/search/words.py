"""What a word is, and when two are the same: for queries, for snippets, and for PostgreSQL's index.

SQLite splits and folds by itself, in the same way for all that is likely to be written.
"""

from __future__ import annotations

import re
import unicodedata

# Longer ones are found by their beginnings; PostgreSQL's own limit is 2046 bytes.
MAX_WORD_CHARS = 500

# Letters and digits of any script, with the accents that follow them; no underscore, as SQLite has it.
WORD = re.compile("(?:[^\\W_][\u0300-\u036f]*)+")
# Scripts that put no space between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u312f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)


def split_words(text: str) -> list[str]:
    """The words of a text in their order; everything else in it only separates them."""
    return WORD.findall(text)


def fold(word: str) -> str:
    """What is the same word whatever its case and accents; at most 500 characters of it."""
    word = word[:MAX_WORD_CHARS].lower()
    if word.isascii():
        return word
    bare = (char for char in unicodedata.normalize("NFD", word) if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", "".join(bare))


def is_unspaced(word: str) -> bool:
    """Whether it may be a part of a run of words that nothing separates: no index of words finds it."""
    return _UNSPACED.search(word) is not None
