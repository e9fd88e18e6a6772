"""The benchmark as it is called, with bounds so small that its figures say nothing but that it works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench import __main__ as bench
from bench.report import BEGIN, END, ROWS

ROOT = Path(__file__).parents[3]
TINY = ("--requests=4", "--seconds=0.2", "--rounds=1", "--stored=2000", "--agents=1")
RUN_SECONDS = 300


def call(*arguments: str) -> str:
    """`python -m …` in the checkout; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_run_measures_every_section_and_becomes_a_table(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold figures\n{END}\nafter\n")

    result.write_text(call("bench", *TINY))
    call("bench.report", str(result), "--into", str(page))

    found = json.loads(result.read_text())
    table = page.read_text()
    assert set(found) == {"machine", "bounds", *bench.SECTIONS}
    assert set(ROWS) == set(bench.SECTIONS)
    assert table.startswith("before\n")
    assert table.endswith("after\n")
    assert "old figures" not in table
    assert all(words in table for words in ("`send` over HTTP", "bare echo", "a subscriber", "`tools/list`"))


def test_help_has_examples() -> None:
    assert "python -m bench --only calls" in call("bench", "--help")
