"""The command line of `up`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class UpOptions:
    """None where the caller said nothing."""

    root: Path
    agents: tuple[str, ...] = ()
    port_base: int | None = None
    detach: bool = False
    nats_url: str | None = None
    hive_name: str | None = None
    as_json: bool = False
