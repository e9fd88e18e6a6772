"""The base of all wire models, and the field types they share.

Requests refuse unknown fields and coerce nothing; results ignore unknown fields, so that a newer peer
never breaks an older one. Neither puts what was sent into the text of an error: it may be a body.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema

MAX_BODY_BYTES = 64 * 1024
MAX_ID = 2**63 - 1
# The last second of the year 9999: what RFC 3339 can write.
MAX_UNIX_SECONDS = 253_402_300_799

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class WireRequest(BaseModel):
    """What a client sends: strict, frozen, no unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class WireResult(BaseModel):
    """What a server answers: frozen, unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


def check_text(value: str) -> str:
    """Refuse what no store can hold: U+0000 and lone surrogates.

    Raises:
        ValueError: naming the character and its index.
    """
    found = _UNSTORABLE.search(value)
    if found and found[0] == "\x00":
        raise ValueError(f"contains U+0000 at index {found.start()}, which cannot be stored; remove it")
    if found:
        raise ValueError(f"contains half a surrogate pair at index {found.start()}; send valid Unicode")
    return value


def clean_text(value: str) -> str:
    """Replace what no store can hold, in texts that nobody could write anew: a program's last words."""
    return _UNSTORABLE.sub("\ufffd", value)


def check_content(value: str) -> str:
    """Storable text that says something, of any size.

    Raises:
        ValueError: saying what is wrong with it.
    """
    check_text(value)
    if not value.strip():
        raise ValueError("is empty; say something")
    return value


def check_size(value: str) -> str:
    """At most 64 KiB in UTF-8.

    Raises:
        ValueError: saying the size and the limit.
    """
    size = len(value.encode())
    if size > MAX_BODY_BYTES:
        raise ValueError(
            f"is {size} bytes and the limit is {MAX_BODY_BYTES}; write the rest to a file and send its path"
        )
    return value


def check_body(value: str) -> str:
    """A message body: storable text of 1 byte to 64 KiB in UTF-8.

    Raises:
        ValueError: saying what is wrong with it.
    """
    return check_size(check_content(value))


RowId = Annotated[int, Field(ge=1, le=MAX_ID)]
UnixSeconds = Annotated[int, Field(ge=0, le=MAX_UNIX_SECONDS)]
Text = Annotated[str, AfterValidator(check_text)]
CleanText = Annotated[str, AfterValidator(clean_text)]
Body = Annotated[
    str,
    # Its size the broker refuses by itself: the operator is to see who sent too much.
    AfterValidator(check_content),
    # The limit is one of bytes, which a schema cannot say.
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_BODY_BYTES,
            "description": "at most 64 KiB in UTF-8, not blank, without U+0000",
        }
    ),
]
OneLine = Annotated[str, StringConstraints(max_length=200), AfterValidator(check_text)]
Sha256Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
OpaqueId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
