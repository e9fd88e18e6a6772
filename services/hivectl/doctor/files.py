"""Files and directories: are they there, whose are they, who may read them, do tokens agree."""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from services.hivectl.doctor.check import Check, error, passed, warning
from services.hivectl.hive_file import HiveFile, read_hive_file
from services.hivectl.provision import readers_dir
from services.hivectl.reading import read_json, read_regular
from shared.errors import Misconfigured
from shared.layout import AgentLayout, HiveLayout, check_socket_path
from shared.runtime.credential import TOKEN

_PRIVATE_DIR = 0o700
_PRIVATE_FILE = 0o600
_COMPLETE = "then `hivectl down` and `hivectl up` make what is missing"
AGENT_USER_PREFIX = "hive-agent-"


def check_root(layout: HiveLayout) -> tuple[list[Check], bool]:
    """The root, and whether who asks may look into it at all."""
    name = "files.root"
    root = layout.root
    try:
        found = root.lstat()
    except FileNotFoundError:
        mend = "make a hive with `hivectl up`, or name another --root"
        return [error(name, f"{root} does not exist", mend)], False
    except OSError as exc:
        mend = "run doctor as the hive's user"
        return [error(name, f"{root} cannot be looked at: {exc.strerror}", mend)], False
    if os.geteuid() not in {0, found.st_uid}:
        return [error(name, f"{root} belongs to {_user(found.st_uid)}", "run hivectl as that user")], False
    checks = _check_private(name, root, directory=True, owner=found.st_uid)
    return checks or [passed(name, str(root))], stat.S_ISDIR(found.st_mode)


def check_hive_files(layout: HiveLayout) -> tuple[list[Check], HiveFile | None]:
    """What belongs to the hive as a whole; also answers the content of `hive.json` where it can be read."""
    name = "files.hive"
    try:
        hive = read_hive_file(layout)
    except Misconfigured as exc:
        return [error(name, exc.message, "`hivectl up` writes hive.json anew")], None
    dirs = [layout.operator_token_file.parent, layout.run_dir, layout.root / "agents", layout.logs_dir]
    files = [layout.hive_json, hive.broker.operator_token_file]
    for directory in (layout.nats_dir, readers_dir(layout), layout.database.parent):
        if directory == readers_dir(layout) and not directory.exists():
            continue  # the server is somebody else's
        dirs.append(directory)
        files += [path for path in _list(directory) if not _is_dir(path)]
    if hive.nats and hive.nats.reader_password_file not in files:
        files.append(hive.nats.reader_password_file)
    owner = layout.root.stat().st_uid
    return _check_all(name, owner=owner, dirs=dirs, files=files), hive


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def has_own_user(layout: HiveLayout, agent: str, user_of: Callable[[int], str] = _user) -> bool:
    """Whether the agent's files belong to a user of its own, as `hive-agent-enable` makes one."""
    try:
        return user_of(layout.agent(agent).home.lstat().st_uid) == f"{AGENT_USER_PREFIX}{agent}"
    except OSError:
        return False


def check_agent_files(
    layout: HiveLayout, hive: HiveFile, user_of: Callable[[int], str] = _user
) -> list[Check]:
    """What belongs to each agent: modes, and that `mcp.json` and `token` say the same."""
    checks: list[Check] = []
    hive_owner = layout.root.stat().st_uid
    for agent in hive.agents:
        paths = layout.agent(agent)
        name = f"files.agent.{agent}"
        owner = paths.home.lstat().st_uid if has_own_user(layout, agent, user_of) else hive_owner
        dirs = [paths.home, paths.state_dir, paths.claude_dir, paths.daemons_dir]
        files = [paths.token_file, paths.mcp_config]
        files += [path for path in _list(paths.home) if path.name.startswith("token.")]
        checks += _check_private(name, paths.run, directory=True, owner=hive_owner)
        checks += _check_all(name, owner=owner, dirs=dirs, files=files)
        checks += _check_agreement(name, agent, paths)
    for home in _list(layout.root / "agents"):
        if _is_dir(home) and home.name not in hive.agents:
            checks.append(
                warning(
                    f"files.agent.{home.name}",
                    f"{home} has no mcp.json: an `agent add` was interrupted",
                    f"repeat `hivectl agent add {home.name}`, or remove the directory",
                )
            )
    return checks


def _check_agreement(name: str, agent: str, paths: AgentLayout) -> list[Check]:
    mend = f"hivectl token rotate {agent}"
    try:
        token = read_regular(paths.token_file).decode("ascii", "replace").strip()
        servers = read_json(paths.mcp_config)["mcpServers"]
        headers = [entry["headers"]["Authorization"] for entry in servers.values()]
    except OSError:
        return []  # said already
    except (ValueError, KeyError, TypeError, AttributeError):
        return [error(name, f"{paths.mcp_config} is no MCP configuration of ours", mend)]
    if not TOKEN.fullmatch(token):
        return [error(name, f"{paths.token_file} holds no token", f"remove it, {_COMPLETE}")]
    if any(header != f"Bearer {token}" for header in headers):
        return [error(name, f"{paths.mcp_config} and {paths.token_file} hold different tokens", mend)]
    try:
        check_socket_path(paths.agent_socket)
    except Misconfigured as exc:
        return [error(name, exc.message, "move the hive to a shorter root")]
    return []


def _check_all(name: str, *, owner: int, dirs: Iterable[Path], files: Iterable[Path]) -> list[Check]:
    wanted = [*((path, True) for path in dirs), *((path, False) for path in files)]
    found = [c for path, is_dir in wanted for c in _check_private(name, path, directory=is_dir, owner=owner)]
    return found or [passed(name, f"{len(wanted)} files and directories are in order")]


def _check_private(name: str, path: Path, *, directory: bool, owner: int) -> list[Check]:
    """At most one finding: the first thing that is wrong."""
    kind, mode = ("directory", _PRIVATE_DIR) if directory else ("file", _PRIVATE_FILE)
    quoted = shlex.quote(str(path))
    try:
        found = path.lstat()
    except FileNotFoundError:
        return [error(name, f"{path} is missing", "`hivectl down`, then `hivectl up`, makes what is missing")]
    except OSError as exc:
        return [error(name, f"{path} cannot be looked at: {exc.strerror}", "run doctor as the hive's user")]
    is_right = stat.S_ISDIR(found.st_mode) if directory else stat.S_ISREG(found.st_mode)
    if not is_right:
        what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "something else"
        return [error(name, f"{path} should be a {kind} and is {what}", f"look at it, then: rm {quoted}")]
    if found.st_uid != owner:
        detail = f"{path} belongs to {_user(found.st_uid)}, the hive to {_user(owner)}"
        return [error(name, detail, f"chown {_user(owner)} {quoted}")]
    if stat.S_IMODE(found.st_mode) & 0o077:
        detail = f"{path} has mode {stat.S_IMODE(found.st_mode):04o}: others may use it"
        return [error(name, detail, f"chmod {mode:o} {quoted}")]
    return []


def _list(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _is_dir(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False
