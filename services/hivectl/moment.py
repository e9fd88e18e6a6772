"""Moments on the command line: so long ago, or a date and perhaps a time."""

from __future__ import annotations

import re
import time
from datetime import datetime

import click

from shared.wire.model import MAX_UNIX_SECONDS

_AGO = re.compile(r"(\d{1,9})([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_RULE = "say how long ago, such as 90m, 12h, 7d, 2w, or when, such as 2026-11-30 or 2026-11-30T14:00"


class MomentType(click.ParamType[int]):
    """A moment in the past, as unix seconds; what has no zone is local time."""

    name = "WHEN"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read either form."""
        text = str(value)
        if ago := _AGO.fullmatch(text):
            return max(0, int(time.time()) - int(ago[1]) * _UNITS[ago[2]])
        try:
            seconds = int(datetime.fromisoformat(text).timestamp())
        except (ValueError, OverflowError, OSError):
            self.fail(f"{text[:40]!r} is no moment: {_RULE}", param, ctx)
        return min(max(0, seconds), MAX_UNIX_SECONDS)


MOMENT = MomentType()
