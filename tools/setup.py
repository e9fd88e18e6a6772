"""Sets up `.venv` from hashed requirements, and compiles those anew; standard library only.

Called by tools/setup.sh with a Python that is new enough. Quick when nothing changed: a stamp, written last,
holds a hash of all that went in. A set-up that was cut short leaves a mark and is begun afresh.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
UNFINISHED = VENV / ".unfinished"
LOCK_VENV = ROOT / ".tools" / "lock"
# Extras that are deployed by themselves; each has a lock of its own, with the versions of run.txt.
UNITS = ("broker", "mcp", "bash", "cli")
REQUIREMENTS = {"run": ROOT / "requirements" / "run.txt", "dev": ROOT / "requirements" / "dev.txt"}
PIP = ["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)


def say(text: str) -> None:
    """Tell the person at the terminal; stdout stays free for the command that follows."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def give_up(text: str) -> NoReturn:
    """End with exit code 3 (the set-up is at fault, not the project)."""
    say(f"setup: {text}")
    raise SystemExit(3)


def build_key(level: str) -> str:
    """A hash of everything that decides what the environment holds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    parts = [
        REQUIREMENTS[level].read_text(encoding="utf-8"),
        repr((project["build-system"], project["project"])),
        Path(__file__).read_text(encoding="utf-8"),
        platform.python_version(),
        str(ROOT),  # console scripts and the editable install hold the path: a moved checkout is set up anew
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def is_current(level: str) -> bool:
    """Whether `.venv` holds what `level` needs; `dev` holds all of `run`."""
    stamps = {name: VENV / f".stamp-{name}" for name in (level, "dev")}
    return not UNFINISHED.exists() and any(
        stamp.is_file() and stamp.read_text(encoding="utf-8") == build_key(name)
        for name, stamp in stamps.items()
    )


def venv_python() -> Path:
    """The interpreter of `.venv`."""
    return VENV / "bin" / "python"


def base_python() -> str:
    """The interpreter outside any environment, since `.venv` itself may be about to go."""
    named = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(named) if named.exists() else sys.executable


def is_usable() -> bool:
    """Whether `.venv` was finished, has pip, and is of this Python."""
    if UNFINISHED.exists() or not venv_python().exists():
        return False
    probe = "import platform, pip; print(platform.python_version())"
    found = subprocess.run(
        [venv_python(), "-c", probe], capture_output=True, text=True, check=False, cwd=VENV
    )
    return found.stdout.strip() == platform.python_version()


def require_venv() -> None:
    """Exit with what to install where Python comes without `venv` or `ensurepip`, as Debian's does."""
    probe = subprocess.run([base_python(), "-c", "import ensurepip, venv"], capture_output=True, check=False)
    if probe.returncode:
        minor = f"python{sys.version_info.major}.{sys.version_info.minor}"
        give_up(
            f"{base_python()} has no venv module or no ensurepip.\n"
            f"  Debian, Ubuntu:  apt-get install python3-venv   (or {minor}-venv)\n"
            "  elsewhere:       install Python 3.11 or newer with its standard library complete"
        )


def create_venv(path: Path) -> None:
    """Make an empty environment with pip."""
    made = subprocess.run(
        [base_python(), "-m", "venv", str(path)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        give_up(f"could not create {path.name}:\n{made.stdout}{made.stderr}")


def run_pip(python: Path, arguments: list[str], total: int) -> None:
    """Run pip, showing a line of progress; its own words only when it fails."""
    # Both streams in one, else a full stderr pipe would stop pip while we read stdout.
    pip = subprocess.Popen(
        [str(python), *PIP, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )
    assert pip.stdout is not None
    heard: list[str] = []
    seen = 0
    for line in pip.stdout:
        heard.append(line)
        found = re.match(r"(?:Collecting|Requirement already satisfied:) ([A-Za-z0-9._-]+)", line)
        if found:
            seen += 1
            show_progress(f"{min(seen, total)}/{total} {found[1]}", often=seen % 20 == 0)
        elif line.startswith("Installing collected"):
            show_progress("installing", often=True)
    if pip.wait():
        tail = "".join(line for line in heard if not line.startswith("WARNING"))[-4000:]
        give_up(f"pip failed:\n{tail}")
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")


def show_progress(text: str, *, often: bool) -> None:
    """One line rewritten on a terminal, a line now and then in a log."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K  {text}")
        sys.stderr.flush()
    elif often:
        say(f"  {text}")


def set_up(level: str) -> None:
    """Bring `.venv` to `level`, from nothing if need be."""
    started = time.monotonic()
    if not is_usable():
        if UNFINISHED.exists():
            say("setup: an earlier set-up was cut short; beginning afresh")
        require_venv()
        say(f"setup: creating .venv with Python {platform.python_version()}")
        shutil.rmtree(VENV, ignore_errors=True)
        VENV.mkdir()
        UNFINISHED.touch()
        create_venv(VENV)
    requirements = REQUIREMENTS[level]
    total = len(PIN.findall(requirements.read_text(encoding="utf-8")))
    say(f"setup: installing {requirements.relative_to(ROOT)} into .venv (up to {total} packages)")
    UNFINISHED.touch()
    run_pip(venv_python(), ["--require-hashes", "--no-deps", "-r", str(requirements)], total)
    run_pip(venv_python(), ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)], 1)
    (VENV / f".stamp-{level}").write_text(build_key(level), encoding="utf-8")
    UNFINISHED.unlink()
    say(f"setup: done in {time.monotonic() - started:.0f} s")


def compile_locks() -> None:
    """Write requirements/*.txt anew: the newest versions that pyproject.toml admits, with hashes."""
    if not (LOCK_VENV / "bin" / "uv").exists():
        say("lock: installing uv into .tools/lock")
        require_venv()
        shutil.rmtree(LOCK_VENV, ignore_errors=True)
        create_venv(LOCK_VENV)
        run_pip(LOCK_VENV / "bin" / "python", ["uv"], 1)
    command = [
        *(str(LOCK_VENV / "bin" / "uv"), "pip", "compile", "pyproject.toml", "--quiet", "--upgrade"),
        *("--universal", "--python-version", "3.11", "--generate-hashes"),
        *("--no-emit-index-url", "--no-emit-find-links", "--no-annotate"),
        *("--custom-compile-command", "make lock"),
    ]
    as_run = ["-c", "requirements/run.txt"]
    selections = {
        "run": ["--all-extras", "--group", "build"],
        "dev": ["--all-extras", "--group", "dev", *as_run],
        **{unit: ["--extra", unit, *as_run] for unit in UNITS},
    }
    for name, extra in selections.items():
        target = ROOT / "requirements" / f"{name}.txt"
        say(f"lock: compiling {target.relative_to(ROOT)}")
        if subprocess.run([*command, *extra, "--output-file", str(target)], cwd=ROOT, check=False).returncode:
            give_up(f"uv could not compile {target.name}; its words are above")


def main(arguments: list[str]) -> None:
    """`setup.py run|dev|lock`; one at a time in a checkout."""
    (level,) = arguments
    (ROOT / ".tools").mkdir(exist_ok=True)
    with (ROOT / ".tools" / "setup.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("setup: waiting for another set-up of this checkout")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if level == "lock":
            compile_locks()
        elif not is_current(level):
            set_up(level)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        raise SystemExit(130) from None
