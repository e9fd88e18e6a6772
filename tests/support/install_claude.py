"""Install the pinned Claude Code CLI for the tests into `.tools/claude`.

`python -m tests.support.install_claude` needs npm and is quick when repeated. The CLI drives end-to-end tests
only and is no part of the product.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "@anthropic-ai/claude-code"
VERSION = "2.1.332"
TOOLS = Path(__file__).parents[2] / ".tools" / "claude"


def find_claude() -> Path:
    """The installed CLI.

    Raises:
        FileNotFoundError: saying how to install it.
    """
    for candidate in (TOOLS / "node_modules/.bin/claude", TOOLS / f"node_modules/{PACKAGE}/bin/claude.exe"):
        if installed_version() == VERSION and candidate.exists():
            return candidate
    raise FileNotFoundError(
        f"Claude Code {VERSION} is not in {TOOLS}; run: python -m tests.support.install_claude"
    )


def installed_version() -> str | None:
    """The version that lies in `.tools/claude`, if any."""
    manifest = TOOLS / "node_modules" / PACKAGE / "package.json"
    return str(json.loads(manifest.read_text())["version"]) if manifest.exists() else None


def install() -> Path:
    """Install the pinned version unless it is there.

    Raises:
        SystemExit: when npm is missing or fails, with what to do.
    """
    try:
        return find_claude()
    except FileNotFoundError:
        pass
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(
            "npm is missing: install Node.js with npm (on Debian: apt-get install npm), then repeat"
        )
    TOOLS.mkdir(parents=True, exist_ok=True)
    print(f"installing {PACKAGE}@{VERSION} into {TOOLS} (about 400 MB) ...", flush=True)  # noqa: T201 - progress
    command = [
        npm,
        "install",
        "--prefix",
        str(TOOLS),
        "--no-save",
        "--no-audit",
        "--no-fund",
        f"{PACKAGE}@{VERSION}",
    ]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(f"npm could not install {PACKAGE}@{VERSION}; its output above says why")
    claude = find_claude()
    with tempfile.TemporaryDirectory() as home:
        # The program itself comes as an optional package of this platform, which npm may leave out unasked.
        done = subprocess.run([claude, "--version"], env={"HOME": home}, capture_output=True, check=False)
    if VERSION.encode() not in done.stdout:
        shutil.rmtree(TOOLS)
        raise SystemExit(
            f"{PACKAGE}@{VERSION} does not run here: {done.stderr.decode(errors='replace')[-500:]}"
        )
    return claude


if __name__ == "__main__":
    sys.stdout.write(f"claude {VERSION}: {install()}\n")
