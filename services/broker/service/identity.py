"""What the hive is called and which version runs: facts of this broker that others are told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HiveIdentity:
    """Names from the settings, and this broker's revision."""

    hive_name: str
    swarm_name: str | None
    domain: str | None
    revision: str
