"""Settings of the hyperhive surface. Read once at start, frozen, passed in."""

from __future__ import annotations

from pydantic import Field

from shared.runtime.settings import (
    AbsolutePath,
    HiveAgentSocket,
    HiveLabel,
    HiveLogLevel,
    HiveStateDir,
    HiveTokenFile,
    HiveToolGroups,
    HiveUrl,
    Port,
    UnitSettings,
    unit_config,
)


class Settings(UnitSettings):
    """`HIVE_MCP_*`, and the shared `HIVE_*` of an agent's daemon."""

    model_config = unit_config("HIVE_MCP_")

    label: HiveLabel = Field(description="the agent's name")
    token_file: HiveTokenFile = Field(description="file with the agent's token, 0600")
    state_dir: HiveStateDir = Field(description="the agent's own directory")
    url: HiveUrl = Field(default="http://127.0.0.1:7000", description="the broker")
    tool_groups: HiveToolGroups = Field(
        default=None, description="comma-separated; narrows what the operator granted, never widens it"
    )
    log_level: HiveLogLevel = Field(default="info", description="debug, info, warning or error")
    agent_socket: HiveAgentSocket = Field(
        default=None, description="the in-agent socket; without it none is served"
    )
    port: Port = Field(default=7100, description="port of this surface on 127.0.0.1; 0 takes a free one")
    data_dir: AbsolutePath | None = Field(
        default=None, description="private state of the daemon; default: `daemons` beside the token file"
    )
