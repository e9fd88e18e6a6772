"""Renders the tables of docs/operating.md that are made from code, between markers in the page.

The prose around the markers is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from pydantic_settings import BaseSettings

from services.bash_daemon.config import Settings as BashSettings
from services.broker.config import Settings as BrokerSettings
from services.hyperhive_mcp.config import Settings as SurfaceSettings
from shared.runtime.settings import list_variables
from tools.env_examples import describe, render_default


def _settings(cls: type[BaseSettings]) -> str:
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for variable, field in list_variables(cls):
        shown = render_default(field)
        default = "required" if field.is_required() else f"`{shown}`" if shown else ""
        lines.append(f"| `{variable}` | {default} | {describe(field)} |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {
    "broker-settings": partial(_settings, BrokerSettings),
    "surface-settings": partial(_settings, SurfaceSettings),
    "bash-settings": partial(_settings, BashSettings),
}


def render_tables(page: str) -> str:
    """`page` with what stands between `<!-- table: NAME -->` and `<!-- end -->` made anew.

    Raises:
        KeyError: when the page names a table that does not exist.
    """
    return re.sub(
        r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}{TABLES[found[2]]()}\n{found[3]}",
        page,
        flags=re.DOTALL,
    )
