"""npm packages that tests drive, pinned and installed below `.tools/`; none is part of the product."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

PACKAGES = Path(__file__).parents[2] / ".tools"


def npm_install(directory: Path, *packages: str, size: str) -> None:
    """Install into `directory`, which is begun afresh.

    Args:
        directory: where `node_modules` will be.
        packages: each `NAME@VERSION`, or `ALIAS@npm:NAME@VERSION`.
        size: what to tell whoever waits, such as "about 400 MB".

    Raises:
        SystemExit: when npm is missing or fails, with what to do.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(
            "npm is missing: install Node.js with npm (on Debian: apt-get install npm), then repeat"
        )
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    print(f"installing {' '.join(packages)} into {directory} ({size}) ...", flush=True)  # noqa: T201 - progress
    options = ["--no-save", "--no-audit", "--no-fund"]
    if subprocess.run(
        [npm, "install", "--prefix", str(directory), *options, *packages], check=False
    ).returncode:
        raise SystemExit(f"npm could not install {' '.join(packages)}; its output above says why")


def installed_version(directory: Path, package: str) -> str | None:
    """The version of a package, or alias, that lies in `directory`, if any."""
    manifest = directory / "node_modules" / package / "package.json"
    return str(json.loads(manifest.read_text())["version"]) if manifest.exists() else None
