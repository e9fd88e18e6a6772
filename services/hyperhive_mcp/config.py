"""Settings of the hyperhive surface. Read once at start, frozen, passed in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field
from shared.runtime.settings import AgentSettings, unit_config


class Settings(AgentSettings):
    """`HIVE_MCP_*`, and the shared `HIVE_*` of an agent's daemon."""

    model_config = unit_config("HIVE_MCP_")

    port: Annotated[int, Field(ge=1, le=65_535, description="port of this surface on 127.0.0.1")] = 7100
    data_dir: Annotated[
        Path | None,
        Field(description="private state of the daemon; default: `daemons` beside the token file"),
    ] = None
    log_level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"
