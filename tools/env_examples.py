"""Renders deploy/env/*.env.example from a unit's `Settings`: every variable, what it means, its default.

The files are what systemd's EnvironmentFile= reads: comments stand on lines of their own.
"""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

import annotated_types
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from shared.runtime.settings import list_variables


def render_env_example(unit: str, module: str) -> str:
    """The example file of one unit whose `Settings` stands in `module`."""
    settings: type[BaseSettings] = importlib.import_module(module).Settings
    lines = [
        f"# Settings of {unit}, made from {module.replace('.', '/')}.py by `make generate`; edit that.",
        "# A variable that is commented out may stay so: the value shown, if any, is its default.",
    ]
    for variable, field in list_variables(settings):
        lines.append("")
        if text := describe(field):
            lines += textwrap.wrap(text, 100, initial_indent="# ", subsequent_indent="# ")
        lines.append(f"{'' if field.is_required() else '#'}{variable}={render_default(field)}")
    return "\n".join(lines) + "\n"


def describe(field: FieldInfo) -> str:
    """What a setting means, and its bounds."""
    return (field.description or "") + _bounds(field)


def _bounds(field: FieldInfo) -> str:
    low = next((m.ge for m in field.metadata if isinstance(m, annotated_types.Ge)), None)
    high = next((m.le for m in field.metadata if isinstance(m, annotated_types.Le)), None)
    if low is not None and high is not None:
        return f" ({low} to {high})"
    if low is not None:
        return f" (at least {low})"
    return f" (at most {high})" if high is not None else ""


def render_default(field: FieldInfo) -> str:
    """The default as one would write it; empty for none, a secret, and one that depends on the machine."""
    value = field.default
    if field.is_required() or field.default_factory or value is None or isinstance(value, SecretStr):
        return ""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, str | int | float | Path):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, Iterable):
        return ",".join(sorted(str(item) for item in value))
    raise TypeError(f"no way to write a default of type {type(value).__name__}")
