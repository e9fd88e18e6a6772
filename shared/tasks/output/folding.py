"""From the bytes of a line to what a terminal would show of it.

Escape sequences are gone; a carriage return, a backspace or a cursor movement within the line overwrites;
bytes that are no UTF-8 are U+FFFD; other control characters stand as their pictures (U+2400 and on). Linear
in the length of the line.
"""

from __future__ import annotations

import re

# Bytes in front of an end or a cut that may belong to one escape sequence.
_SEQUENCE_LIMIT = 64 * 1024
_STRING = r"[^\x07\x1b\x90\x98\x9b-\x9f\n]*"  # up to its end, and not past the next sequence
_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    rf"|(?:\x1b[\]PX^_k]|[\x9d\x90\x98\x9e\x9f]){_STRING}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS and their like
    r"|\x1b[ -/]+[0-~]"  # character sets
    r"|\x1b[0-Z\\-~]"  # two characters; the opening of a string that does not end
)
_SEQUENCES = re.compile(_SEQUENCE)
_SEQUENCE_BYTES = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_k][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\-~])"
)
_OPEN_SEQUENCE_BYTES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_k][^\x07\x1b\n]*\x1b?|[ -/]*)\Z")
_MOVES = re.compile(r"\x08|\x1b\[[0-9]*[CDG]")
_ERASE = re.compile(r"\x1b\[([0-2]?)K")
_STEPS = re.compile(
    rf"\r|\x08|\x1b\[([0-9]*)([CDGK])|{_SEQUENCE}|[^\r\x08\x1b\x90\x98\x9b\x9d-\x9f]+|.", re.DOTALL
)
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOISE = re.compile("([\u2400-\u2421\ufffd])\\1{7,}")
_PICTURES: dict[int, str | None] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0)),
}


def fold(line: bytes) -> str:
    """What a terminal would show of one line, without its end; several lines are several calls."""
    if line.isascii():
        text = line.decode("ascii")
        if text.isprintable():
            return text
    else:
        text = line.decode("utf-8", "replace")
    return fold_text(text)


def fold_text(text: str) -> str:
    """The same for a decoded line."""
    text = text.rstrip("\r")
    if _MOVES.search(text):
        text = _play(text)
    elif "\r" in text or _ERASE.search(text):
        text = _repaint(text)
    else:
        text = _SEQUENCES.sub("", text)
    if _ODD.search(text):
        text = text.translate(_PICTURES)
    return _NOISE.sub(lambda run: f"{run[1]}\u00d7{len(run[0])}", text)


def whole_end(data: bytes, end: int) -> int:
    """The last position up to `end` that cuts neither a character nor an escape sequence of `data`.

    Where one of them fills all of that, the position after it.
    """
    if end >= len(data):
        return len(data)
    escape = data.rfind(b"\x1b", max(0, end - _SEQUENCE_LIMIT), end)
    if escape >= 0 and data[escape : escape + 2] == b"\x1b\\":  # the end of a string, perhaps
        opener = data.rfind(b"\x1b", max(0, escape - _SEQUENCE_LIMIT), escape)
        escape = opener if opener >= 0 else escape
    if escape >= 0:
        found = _SEQUENCE_BYTES.match(data, escape)
        if found is not None and found.end() > end:
            return escape or found.end()
    start, stop = _character(data, end)
    return start or stop


def whole_start(data: bytes, start: int) -> int:
    """Where a page asked for at `start` begins: a character at its beginning, a sequence at its end."""
    escape = data.rfind(b"\x1b", max(0, start - _SEQUENCE_LIMIT), start)
    if escape >= 0:
        found = _SEQUENCE_BYTES.match(data, escape)
        if found is not None and found.end() > start:
            return found.end()
    return _character(data, start)[0]


def complete_end(data: bytes) -> int:
    """Where the last character or escape sequence of `data` begins that may be completed by what follows."""
    found = _OPEN_SEQUENCE_BYTES.search(data, max(0, len(data) - _SEQUENCE_LIMIT, data.rfind(b"\n") + 1))
    end = found.start() if found else len(data)
    for back in range(1, min(4, end + 1)):
        byte = data[end - back]
        if byte >= 0xC0:
            return end - back if _length(byte) > back else end
        if byte < 0x80:
            break
    return end


def _character(data: bytes, at: int) -> tuple[int, int]:
    """(start, end) of the valid UTF-8 character that reaches over `at`; twice `at` where none does."""
    for back in range(1, min(4, at + 1)):
        byte = data[at - back]
        if byte >= 0xC0:
            start, stop = at - back, at - back + _length(byte)
            try:
                data[start:stop].decode()
            except UnicodeDecodeError:
                break
            return (start, stop) if stop > at else (at, at)
        if byte < 0x80:
            break
    return at, at


def _length(first_byte: int) -> int:
    return 2 if first_byte < 0xE0 else 3 if first_byte < 0xF0 else 4


def _repaint(text: str) -> str:
    """A line that is written anew again and again, as progress is: read from its last state back."""
    shown = ""
    for state in reversed(text.split("\r")):
        anew, erased = 0, False
        for erase in _ERASE.finditer(state):
            erased = True
            if erase[1] in ("1", "2"):  # used to begin the line anew
                anew = erase.end()
        part = state[anew:]
        part = _SEQUENCES.sub("", part) if "\x1b" in part or not part.isascii() else part
        if len(part) > len(shown):
            shown += part[len(shown) :]
        if erased:
            break
    return shown


def _play(text: str) -> str:
    """Play the line on an endless row of cells. Movements to the right end at what was written."""
    cells: list[str] = []
    at = 0
    for step in _STEPS.finditer(text):
        piece = step[0]
        if piece == "\r":
            at = 0
        elif piece == "\b":
            at = max(0, at - 1)
        elif piece[0] in "\x1b\x90\x98\x9b\x9d\x9e\x9f":
            kind, number = step[2], int(step[1][:6] or 0) if step[1] is not None else 0
            if kind == "K":
                at = 0 if number else at
                del cells[at:]
            elif kind == "G":
                at = min(max(0, number - 1), len(cells))
            elif kind == "C":
                at = min(at + max(1, number), len(cells))
            elif kind == "D":
                at = max(0, at - max(1, number))
            elif _SEQUENCES.fullmatch(piece) is None:
                cells[at : at + 1] = [piece]
                at += 1
        else:
            cells[at : at + len(piece)] = piece
            at += len(piece)
    return "".join(cells)
