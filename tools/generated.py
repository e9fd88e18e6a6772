"""Files that are made from code: `python -m tools.generated` writes them, a test fails when one is stale.

The permissions page and Claude's managed settings come from `shared.permissions`, env examples and tables
from each unit's `Settings`, the page of commands from the commands, the broker's document from its routes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tools.broker_document import render_broker_document
from tools.env_examples import render_env_example
from tools.guarantees_page import render_guarantees_page
from tools.hivectl_page import render_hivectl_page
from tools.managed_settings import render_managed_settings
from tools.operating_tables import render_tables
from tools.permissions_page import render_permissions_page

ROOT = Path(__file__).resolve().parent.parent

# Each makes the whole file, given what stands there now.
GENERATED: dict[str, Callable[[str], str]] = {
    "docs/permissions.md": lambda _: render_permissions_page(),
    "docs/operating.md": render_tables,
    "docs/guarantees.md": lambda _: render_guarantees_page(),
    "docs/hivectl.md": lambda _: render_hivectl_page(),
    "docs/openapi.json": lambda _: render_broker_document(),
    "deploy/env/hive-broker.env.example": lambda _: render_env_example(
        "hive-broker", "services.broker.config"
    ),
    "deploy/env/hive-mcp-http.env.example": lambda _: render_env_example(
        "hive-mcp-http", "services.hyperhive_mcp.config"
    ),
    "deploy/env/hive-bash-daemon.env.example": lambda _: render_env_example(
        "hive-bash-daemon", "services.bash_daemon.config"
    ),
    "deploy/claude/managed-settings.json": lambda _: render_managed_settings(),
}


def read(name: str) -> str:
    """What the file says now; nothing when it is not there."""
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main() -> None:
    """Write every generated file that differs from what the code says now."""
    for name, render in GENERATED.items():
        before = read(name)
        text = render(before)
        if text != before:
            path = ROOT / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")


if __name__ == "__main__":
    main()
