"""Settings of the bash surface. Read once at start, frozen, passed in."""

from __future__ import annotations

from pydantic import Field

from shared.layout import default_root
from shared.runtime.settings import (
    AbsolutePath,
    HiveAgentSocket,
    HiveCoreSocket,
    HiveLabel,
    HiveLogLevel,
    HiveRoot,
    HiveStateDir,
    HiveTokenFile,
    HiveToolGroups,
    HiveUrl,
    Port,
    UnitSettings,
    unit_config,
)

MIB = 1024 * 1024
GIB = 1024 * MIB


class Settings(UnitSettings):
    """`HIVE_BASH_*`, and the shared `HIVE_*` of an agent's daemon."""

    model_config = unit_config("HIVE_BASH_")

    label: HiveLabel = Field(description="the agent's name")
    token_file: HiveTokenFile = Field(description="file with the agent's token, 0600")
    state_dir: HiveStateDir = Field(description="the agent's own directory")
    url: HiveUrl = Field(default="http://127.0.0.1:7000", description="the broker")
    tool_groups: HiveToolGroups = Field(
        default=None, description="told to the broker; no tool of this surface is in a group"
    )
    log_level: HiveLogLevel = Field(default="info", description="debug, info, warning or error")
    agent_socket: HiveAgentSocket = Field(
        default=None,
        description="the in-agent socket, which is told of ended tasks, also by tasks themselves",
    )
    core_socket: HiveCoreSocket = Field(
        default=None, description="the broker's socket for the agent, which tasks may use"
    )
    root: HiveRoot = Field(default_factory=default_root, description="of the hive; hidden from tasks")
    sandbox: bool = Field(
        default=True, description="whether tasks run in the sandbox, where the machine has one"
    )
    port: Port = Field(default=7101, description="port of this surface on 127.0.0.1; 0 takes a free one")
    data_dir: AbsolutePath | None = Field(
        default=None, description="private state of the daemon; default: `daemons` beside the token file"
    )
    max_running_tasks: int = Field(
        default=32, ge=1, le=1_000, description="tasks that run at once; more wait as `pending`"
    )
    max_queued_tasks: int = Field(default=200, ge=0, le=10_000, description="tasks that may wait")
    max_command_bytes: int = Field(
        default=65_536, ge=1, le=120_000, description="length of a command; the kernel takes 128 KiB at most"
    )
    max_environment_bytes: int = Field(
        default=131_072, ge=0, le=1_048_576, description="size of the variables that a call may add"
    )
    max_output_bytes: int = Field(
        default=64 * MIB, ge=65_536, le=1024 * GIB, description="what is kept of a task's output"
    )
    output_quota_bytes: int = Field(
        default=GIB, ge=MIB, le=1024 * GIB, description="what is kept of all tasks' output"
    )
    retention_days: int = Field(
        default=7, ge=1, le=3_650, description="days for which an ended task stays readable"
    )
    kill_grace_seconds: int = Field(
        default=5, ge=0, le=300, description="seconds from SIGTERM to SIGKILL when a task is ended"
    )
    max_memory_bytes: int = Field(
        default=0, ge=0, le=1024 * GIB, description="memory of each process of a task; 0: no limit"
    )
    max_cpu_seconds: int = Field(
        default=0, ge=0, le=31_536_000, description="CPU time of each process of a task; 0: no limit"
    )
    min_free_bytes: int = Field(
        default=256 * MIB, ge=0, le=1024 * GIB, description="free space that output leaves on the disk"
    )
