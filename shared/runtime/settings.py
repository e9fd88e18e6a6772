"""Settings from the environment: one prefix a unit, a few names all units share, and clear complaints.

Values are read as written (no JSON), names are matched exactly, and an unknown name under a unit's prefix
is an error, because a mistyped limit that is silently ignored is worse than a unit that does not start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar, get_args

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from shared.layout import default_root
from shared.permissions import ToolGroup
from shared.runtime.log import LogLevel
from shared.runtime.url import check_broker_url
from shared.wire.names import AgentName, find_near_names

EXIT_MISCONFIGURED = 3

_COMMON = SettingsConfigDict(frozen=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True)


@dataclass(frozen=True)
class FromEnv:
    """Marks a field that is read from exactly this variable, whatever the class's prefix."""

    variable: str


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _resolved(path: Path) -> Path:
    # Files are never written through a symbolic link, so a linked root is followed once, here.
    return path.expanduser().resolve()


def _split_groups(value: object) -> object:
    if not isinstance(value, str):
        return value
    names = [part.strip() for part in value.split(",") if part.strip()]
    valid = [group.value for group in ToolGroup]
    if unknown := sorted(set(names) - set(valid)):
        raise ValueError(f"unknown group {', '.join(unknown)}; the groups are {', '.join(valid)}")
    return frozenset(names)


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
Port = Annotated[int, Field(ge=0, le=65_535)]

# Shared fields for a unit's own `Settings`; without a default they are required there.
HiveRoot = Annotated[Path, AfterValidator(_resolved), FromEnv("HIVE_ROOT")]
HiveUrl = Annotated[str, AfterValidator(check_broker_url), FromEnv("HIVE_URL")]
HiveLabel = Annotated[AgentName, FromEnv("HIVE_LABEL")]
HiveTokenFile = Annotated[AbsolutePath, FromEnv("HIVE_TOKEN_FILE")]
HiveStateDir = Annotated[AbsolutePath, FromEnv("HIVE_STATE_DIR")]
HiveAgentSocket = Annotated[AbsolutePath | None, FromEnv("HIVE_AGENT_SOCKET")]
HiveCoreSocket = Annotated[AbsolutePath | None, FromEnv("HIVE_CORE_SOCKET")]
HiveToolGroups = Annotated[
    frozenset[ToolGroup] | None, BeforeValidator(_split_groups), FromEnv("HIVE_TOOL_GROUPS")
]
HiveLogLevel = Annotated[LogLevel, FromEnv("HIVE_LOG_LEVEL")]


class _EnvironmentSource(PydanticBaseSettingsSource):
    """Reads each field's one variable; an empty one counts as not set."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        value = os.environ.get(variable_of(self.settings_cls, field_name)) or None
        return value, field.validation_alias if isinstance(field.validation_alias, str) else field_name, False

    def __call__(self) -> dict[str, Any]:
        values = (self.get_field_value(field, name) for name, field in self.settings_cls.model_fields.items())
        return {key: value for value, key, _ in values if value is not None}


class _Settings(BaseSettings):
    model_config = _COMMON

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments first (tests, composition), then the environment; no files."""
        del env_settings, dotenv_settings, file_secret_settings
        return init_settings, _EnvironmentSource(settings_cls)


class SharedSettings(_Settings):
    """The variables that mean the same in every unit."""

    root: HiveRoot = Field(default_factory=default_root, description="where everything of the hive lies")
    url: HiveUrl = Field(default="http://127.0.0.1:7000", description="the broker")
    label: Annotated[AgentName | None, FromEnv("HIVE_LABEL")] = Field(default=None, description="the agent")
    token_file: Annotated[AbsolutePath | None, FromEnv("HIVE_TOKEN_FILE")] = Field(
        default=None, description="file with the agent's token, 0600"
    )
    state_dir: Annotated[AbsolutePath | None, FromEnv("HIVE_STATE_DIR")] = Field(
        default=None, description="the agent's own directory"
    )
    agent_socket: HiveAgentSocket = Field(default=None, description="the in-agent socket")
    core_socket: HiveCoreSocket = Field(default=None, description="the broker's socket for the agent")
    tool_groups: HiveToolGroups = Field(
        default=None, description="comma-separated; narrows what the operator granted, never widens it"
    )
    log_level: HiveLogLevel = Field(default="info", description="debug, info, warning or error")


class UnitSettings(_Settings):
    """Base of a unit's `Settings`; set `model_config = unit_config("HIVE_X_")`."""


S = TypeVar("S", bound=BaseSettings)


def unit_config(prefix: str) -> SettingsConfigDict:
    """The model config of a unit whose variables begin with `prefix`."""
    return SettingsConfigDict(**{**_COMMON, "env_prefix": prefix})


def variable_of(cls: type[BaseSettings], field_name: str) -> str:
    """The one variable a field is read from."""
    field = cls.model_fields[field_name]
    for mark in field.metadata:
        if isinstance(mark, FromEnv):
            return mark.variable
    if isinstance(field.validation_alias, str):
        return field.validation_alias
    return f"{cls.model_config.get('env_prefix', '')}{field_name}".upper()


def list_variables(cls: type[BaseSettings]) -> list[tuple[str, FieldInfo]]:
    """Each variable with its field, in order of definition; what the env examples are made from."""
    return [(variable_of(cls, name), field) for name, field in cls.model_fields.items()]


def load_settings(cls: type[S]) -> S:
    """Read settings from the environment, or end the process with status 3 and what to correct on stderr."""
    if unknown := list(_unknown_variables(cls, os.environ)):
        _give_up(unknown)
    try:
        return cls()
    except ValidationError as exc:
        _give_up([_explain(cls, error) for error in exc.errors(include_input=False, include_url=False)])


def _unknown_variables(cls: type[BaseSettings], environ: Mapping[str, str]) -> Iterator[str]:
    prefix = cls.model_config.get("env_prefix", "")
    if not prefix:
        return
    known = [variable for variable, _ in list_variables(cls)]
    under_prefix = [name for name in known if name.startswith(prefix)]
    for name in sorted(environ):
        if name.startswith(prefix) and name not in known:
            tails = find_near_names(
                name.removeprefix(prefix), (k.removeprefix(prefix).lower() for k in known)
            )
            near = [prefix + tail.upper() for tail in tails if prefix + tail.upper() in known]
            hint = (
                f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(under_prefix))}"
            )
            yield f"{name}: unknown setting; {hint}"


def _explain(cls: type[BaseSettings], error: Mapping[str, Any]) -> str:
    """One complaint: variable, field, what was expected. Never the value: it may be a secret."""
    location = error["loc"]
    wanted = str(error["msg"]).removeprefix("Value error, ")
    if not location:
        return wanted
    by_key = {f.validation_alias or name: name for name, f in cls.model_fields.items()}
    name = by_key.get(location[0], str(location[0]))
    if name not in cls.model_fields:
        return f"{name}: {wanted}"
    if error["type"] == "missing":
        wanted = cls.model_fields[name].description or "required"
        return f"{variable_of(cls, name)} (field {name}) is not set; expected: {wanted}"
    return f"{variable_of(cls, name)} (field {name}): {wanted}"


def is_secret(field: FieldInfo) -> bool:
    """Whether a field holds a secret itself, so that no default or example of it is ever printed."""
    return SecretStr in (field.annotation, *get_args(field.annotation))


def _give_up(complaints: list[str]) -> NoReturn:
    lines = "".join(f"  {complaint}\n" for complaint in complaints)
    sys.stderr.write(f"bad settings:\n{lines}")
    raise SystemExit(EXIT_MISCONFIGURED)
