"""A task's surroundings: its working directory and its environment, both checked.

The environment is made anew for each task; nothing of the daemon's own is in it but what is named here.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from shared.errors import InvalidInput, LimitExceeded

SHELL: Final = "/bin/sh"
DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_KEPT: Final = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")


class Surroundings:
    """Of the tasks of one agent.

    Args:
        label: the agent's name.
        state_dir: where tasks start, and what they have for a home.
        agent_socket, core_socket: what tasks may use; None where there is none.
        max_environment_bytes: of what a call adds.
        inherited: the daemon's own environment; locale, time zone and search path are taken from it.
    """

    def __init__(
        self,
        label: str,
        state_dir: Path,
        *,
        agent_socket: Path | None,
        core_socket: Path | None,
        max_environment_bytes: int,
        inherited: Mapping[str, str] = os.environ,
    ) -> None:
        self._state_dir = state_dir
        self._max_bytes = max_environment_bytes
        user = _user_name()
        sockets = {"HIVE_AGENT_SOCKET": agent_socket, "HIVE_CORE_SOCKET": core_socket}
        self._base = {
            "PATH": inherited.get("PATH") or DEFAULT_PATH,
            "HOME": str(state_dir),
            "USER": user,
            "LOGNAME": user,
            "SHELL": SHELL,
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            **{name: inherited[name] for name in _KEPT if inherited.get(name)},
            "HIVE_LABEL": label,
            "HIVE_STATE_DIR": str(state_dir),
            **{name: str(path) for name, path in sockets.items() if path is not None},
        }

    def build_environment(self, added: Mapping[str, str] | None) -> dict[str, str]:
        """The whole environment of a task.

        Raises:
            InvalidInput: for a name or value that no environment can hold.
            LimitExceeded: when more is added than may be.
        """
        added = added or {}
        size = 0
        for name, value in added.items():
            if not _NAME.fullmatch(name):
                raise InvalidInput(
                    f"env: {name[:60]!r} is no name of a variable; use letters, digits and underscores"
                )
            if "\0" in value:
                raise InvalidInput(f"env: the value of {name} contains U+0000, which no environment can hold")
            size += len(os.fsencode(name)) + len(value.encode(errors="surrogatepass")) + 2
        if size > self._max_bytes:
            raise LimitExceeded(
                f"env is {size} bytes and the limit is {self._max_bytes}; put large values into a file"
            )
        return {**self._base, **added}

    def choose_cwd(self, asked: str | None) -> str:
        """An absolute working directory; a relative one is below the state directory.

        Raises:
            InvalidInput: when it can be no path.
        """
        if asked is None:
            return str(self._state_dir)
        if not asked or "\0" in asked:
            raise InvalidInput("cwd must be a path; leave it out for the state directory")
        return os.path.normpath(self._state_dir / asked)


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        # A uid without a name, as containers have.
        return str(os.geteuid())
