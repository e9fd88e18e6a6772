"""Files that are made from code: `python -m tools.generated` writes them, a test fails when one is stale.

The permissions page comes from `shared.permissions`, the env examples from each unit's `Settings`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tools.env_examples import render_env_example
from tools.permissions_page import render_permissions_page

ROOT = Path(__file__).resolve().parent.parent

GENERATED: dict[str, Callable[[], str]] = {
    "docs/permissions.md": render_permissions_page,
    "deploy/env/hive-mcp-http.env.example": lambda: render_env_example(
        "hive-mcp-http", "services.hyperhive_mcp.config"
    ),
}


def main() -> None:
    """Write every generated file that differs from what the code says now."""
    for name, render in GENERATED.items():
        path = ROOT / name
        text = render()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")


if __name__ == "__main__":
    main()
