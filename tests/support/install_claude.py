"""Install the pinned Claude Code CLI for the tests into `.tools/claude`.

`python -m tests.support.install_claude` needs npm and is quick when repeated. The CLI drives end-to-end tests
only and is no part of the product.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.npm import PACKAGES, installed_version, npm_install

PACKAGE = "@anthropic-ai/claude-code"
VERSION = "2.1.332"
TOOLS = PACKAGES / "claude"


def find_claude() -> Path:
    """The installed CLI.

    Raises:
        FileNotFoundError: saying how to install it.
    """
    for candidate in (TOOLS / "node_modules/.bin/claude", TOOLS / f"node_modules/{PACKAGE}/bin/claude.exe"):
        if installed_version(TOOLS, PACKAGE) == VERSION and candidate.exists():
            return candidate
    raise FileNotFoundError(
        f"Claude Code {VERSION} is not in {TOOLS}; run: python -m tests.support.install_claude"
    )


def install() -> Path:
    """Install the pinned version unless it is there.

    Raises:
        SystemExit: when npm is missing or fails, with what to do.
    """
    try:
        return find_claude()
    except FileNotFoundError:
        pass
    npm_install(TOOLS, f"{PACKAGE}@{VERSION}", size="about 400 MB")
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
