"""Settings of the broker. Read once at start, frozen, passed in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, StringConstraints

from shared.layout import HiveLayout, default_root
from shared.runtime.settings import (
    AbsolutePath,
    FromEnv,
    HiveLogLevel,
    HiveRoot,
    Port,
    UnitSettings,
    unit_config,
)
from shared.wire.names import HiveName

_Domain = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")]


class Settings(UnitSettings):
    """`HIVE_BROKER_*`, `HIVE_ROOT` and `HIVE_LOG_LEVEL`."""

    model_config = unit_config("HIVE_BROKER_")

    root: HiveRoot = Field(default_factory=default_root, description="where everything of the hive lies")
    log_level: HiveLogLevel = Field(default="info", description="debug, info, warning or error")
    port: Port = Field(default=7000, description="port on 127.0.0.1; 0 takes a free one")
    hive_name: HiveName = Field(
        default="hive", description="name of this hive, part of its notices' subjects"
    )
    swarm_name: HiveName | None = Field(default=None, description="name of the swarm the hive belongs to")
    domain: _Domain | None = Field(default=None, description="domain of the hive, for the operator's eyes")
    database_url: SecretStr | None = Field(
        default=None,
        description="sqlite:////FILE or postgresql://USER@HOST/NAME; default: db/broker.sqlite of the root",
    )
    operator_token_file: AbsolutePath | None = Field(
        default=None, description="the operator's token, made if absent; default: operator/token of the root"
    )
    max_pending: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=1_000, description="messages that may wait in one inbox before senders get an error"
    )
    max_hops: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=30, description="length of a chain of agents answering each other before it is broken"
    )
    pair_per_minute: Annotated[int, Field(ge=0, le=1_000_000_000)] = Field(
        default=60, description="messages that two parties may exchange a minute; 0 sets no limit"
    )
    messages_kept_days: Annotated[int, Field(ge=1, le=36_500)] = Field(
        default=30, description="days for which a message is kept after its ack; others are kept for ever"
    )
    max_agents: Annotated[int, Field(ge=1, le=5_843)] = Field(
        default=590, description="agents that may live at once"
    )
    remind_max_pending_per_agent: Annotated[
        int, Field(ge=1, le=1_000), FromEnv("HIVE_REMIND_MAX_PENDING_PER_AGENT")
    ] = Field(default=50, description="reminders that may be pending for one agent")
    nats_url: str | None = Field(default=None, description="nats://HOST:PORT; without it notices wait")
    nats_user: str | None = Field(default=None, description="the broker's user at NATS")
    nats_password_file: AbsolutePath | None = Field(default=None, description="file with its password")
    nats_sys_user: str | None = Field(
        default=None, description="a user of NATS' system account, to assert durable storage"
    )
    nats_sys_password_file: AbsolutePath | None = Field(default=None, description="file with its password")

    @property
    def layout(self) -> HiveLayout:
        return HiveLayout(self.root)

    @property
    def database(self) -> str:
        """The URL in use."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.layout.database}"

    @property
    def operator_token(self) -> Path:
        """The file in use."""
        return self.operator_token_file or self.layout.operator_token_file
