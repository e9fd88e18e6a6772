"""The pages point at what exists: links, files named in the text, the index of decisions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
ADRS = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
MAX_ADR_LINES = 60

_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
# Methods of MCP such as `tools/list` look like files of ours.
_NAMED_FILE = re.compile(r"`((?:services|shared|tests|bench|docs|deploy|tools(?=/\w+\.))/[\w./-]+)`")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_named_files_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    links = [link for link in _LINK.findall(text) if not (page.parent / link).exists()]
    files = [name for name in _NAMED_FILE.findall(text) if not (ROOT / name).exists()]

    assert (links, files) == ([], [])


@pytest.mark.parametrize("adr", ADRS, ids=name_of)
def test_decision_is_short_and_in_the_index(adr: Path) -> None:
    text = adr.read_text(encoding="utf-8")

    assert len(text.splitlines()) <= MAX_ADR_LINES
    assert f"]({adr.name})" in (ROOT / "docs/adr/README.md").read_text(encoding="utf-8")
    assert all(f"## {part}" in text for part in ("Context", "Decision", "Consequences", "Alternatives"))
