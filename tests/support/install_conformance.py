"""Install the pinned conformance suites of MCP, and the Node.js that they need, into `.tools/conformance`.

`python -m tests.support.install_conformance` needs npm and is quick when repeated.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from tests.support.npm import PACKAGES, installed_version, npm_install

PACKAGE = "@modelcontextprotocol/conformance"
# By the newest revision of the protocol that each of them covers.
SUITES = {"2025-11-25": "0.1.16", "2026-07-28": "0.2.0-alpha.12"}
NODE_VERSION = "22.23.3"
DIRECTORY = PACKAGES / "conformance"
_MACHINES = {"x86_64": "x64", "aarch64": "arm64"}


def find_suite(revision: str) -> list[str]:
    """The command that runs the suite for a revision.

    Raises:
        FileNotFoundError: saying how to install it.
    """
    node = DIRECTORY / "node_modules" / _node_package() / "bin" / "node"
    script = DIRECTORY / "node_modules" / _alias(revision) / "dist" / "index.js"
    if _is_complete() and node.exists() and script.exists():
        return [str(node), str(script)]
    raise FileNotFoundError(
        f"the conformance suites are not in {DIRECTORY}; run: python -m tests.support.install_conformance"
    )


def install() -> Path:
    """Install what is missing.

    Raises:
        SystemExit: when npm is missing or fails, with what to do.
    """
    if not _is_complete():
        suites = [f"{_alias(revision)}@npm:{PACKAGE}@{version}" for revision, version in SUITES.items()]
        npm_install(DIRECTORY, f"{_node_package()}@{NODE_VERSION}", *suites, size="about 240 MB")
    return DIRECTORY


def _is_complete() -> bool:
    wanted = {_node_package(): NODE_VERSION} | {_alias(name): version for name, version in SUITES.items()}
    return all(installed_version(DIRECTORY, name) == version for name, version in wanted.items())


def _alias(revision: str) -> str:
    return f"conformance-{revision}"


def _node_package() -> str:
    """Node.js as a package: the suites need a newer one than Debian's. `node` itself would fetch this one."""
    return f"node-linux-{_MACHINES.get(platform.machine(), platform.machine())}"


if __name__ == "__main__":
    sys.stdout.write(f"conformance suites of MCP: {install()}\n")
