"""What one invocation of `hivectl` works on: which hive, and how to answer. Passed to commands as `ctx.obj`.

Everything is opened on first use, so that `--help` reads no file and imports nothing heavy.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shared.layout import HiveLayout, PortPlan, default_root

if TYPE_CHECKING:
    from services.hivectl.client import OperatorClient
    from services.hivectl.hive_file import HiveFile


@dataclass
class Session:
    """The global options, and what follows from them."""

    root: Path | None = None
    as_json: bool = False

    @property
    def layout(self) -> HiveLayout:
        """Paths under `--root`, else under `HIVE_ROOT` or its default; a linked root is followed once."""
        root = self.root.expanduser() if self.root else default_root()
        return HiveLayout(root.resolve())

    def read_hive(self) -> HiveFile:
        """The hive's `hive.json`.

        Raises:
            Misconfigured: when it is missing or wrong.
        """
        from services.hivectl.hive_file import read_hive_file  # noqa: PLC0415

        return read_hive_file(self.layout)

    def read_ports(self) -> PortPlan:
        """Which port is whose in this hive, as the last `up` was told.

        Raises:
            Misconfigured: when the settings that it kept are damaged.
        """
        from services.hivectl.provision import HiveSettings, find_settings  # noqa: PLC0415

        return (find_settings(self.layout) or HiveSettings()).ports

    def open_client(self) -> OperatorClient:
        """A client of this hive's broker with the operator's credential; use it as a context manager.

        Raises:
            Misconfigured: when the hive's files are missing or wrong.
        """
        from services.hivectl.client import OperatorClient  # noqa: PLC0415
        from services.hivectl.hive_file import read_secret  # noqa: PLC0415

        broker = self.read_hive().broker
        return OperatorClient(broker.url, read_secret(broker.operator_token_file))

    def emit_json(self, value: Mapping[str, Any] | Sequence[Any]) -> None:
        """Print one JSON document. Non-ASCII is escaped: it may be foreign and the reader a terminal."""
        click.echo(json.dumps(value, indent=2))

    def note(self, text: str) -> None:
        """Say something that is not the answer: on stderr."""
        click.echo(text, err=True)


def is_interactive() -> bool:
    """Whether somebody watches stderr, so that progress is worth showing."""
    return sys.stderr.isatty()
