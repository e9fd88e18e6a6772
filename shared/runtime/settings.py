"""Settings from the environment: one prefix a unit, a few names all units share, and clear complaints.

Values are read as written (no JSON), names are matched exactly, and an unknown name under a unit's prefix
is an error, because a mistyped limit that is silently ignored is worse than a unit that does not start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from shared.layout import default_root
from shared.runtime.fields import (
    AbsolutePath,
    FromEnv,
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
)
from shared.wire.names import AgentName, find_near_names

__all__ = [
    "EXIT_MISCONFIGURED",
    "AbsolutePath",
    "FromEnv",
    "HiveAgentSocket",
    "HiveCoreSocket",
    "HiveLabel",
    "HiveLogLevel",
    "HiveRoot",
    "HiveStateDir",
    "HiveTokenFile",
    "HiveToolGroups",
    "HiveUrl",
    "Port",
    "SharedSettings",
    "UnitSettings",
    "list_variables",
    "load_settings",
    "unit_config",
    "variable_of",
]

EXIT_MISCONFIGURED = 3
_COMMON = SettingsConfigDict(frozen=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True)


class _EnvironmentSource(PydanticBaseSettingsSource):
    """Reads each field's one variable; an empty one counts as not set."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        value = os.environ.get(variable_of(self.settings_cls, field_name)) or None
        key = field.validation_alias if isinstance(field.validation_alias, str) else field_name
        return value, key, False

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
    if unknown := list(_find_unknown(cls, os.environ)):
        _give_up(unknown)
    try:
        return cls()
    except ValidationError as exc:
        _give_up([_explain(cls, error) for error in exc.errors(include_input=False, include_url=False)])


def _find_unknown(cls: type[BaseSettings], environ: Mapping[str, str]) -> Iterator[str]:
    prefix = cls.model_config.get("env_prefix", "")
    known = [variable for variable, _ in list_variables(cls)]
    # Compared without the prefix, which would make all names look alike.
    tails = {name.removeprefix(prefix).lower(): name for name in known if name.startswith(prefix)}
    for name in sorted(environ):
        if prefix and name.startswith(prefix) and name not in known:
            near = [tails[tail] for tail in find_near_names(name.removeprefix(prefix), tails)]
            hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known))}"
            yield f"{name}: unknown setting; {hint}"


def _explain(cls: type[BaseSettings], error: Mapping[str, Any]) -> str:
    """One complaint: variable, field, what was expected. Never the value: it may be a secret."""
    wanted = str(error["msg"]).removeprefix("Value error, ")
    key = error["loc"][0] if error["loc"] else None
    for name, field in cls.model_fields.items():
        if key in (name, field.validation_alias):
            if error["type"] == "missing":
                wanted = f"is not set; expected: {field.description or 'a value'}"
            return f"{variable_of(cls, name)} (field {name}): {wanted}"
    return wanted


def _give_up(complaints: list[str]) -> NoReturn:
    lines = "".join(f"  {complaint}\n" for complaint in complaints)
    sys.stderr.write(f"bad settings:\n{lines}")
    raise SystemExit(EXIT_MISCONFIGURED)
