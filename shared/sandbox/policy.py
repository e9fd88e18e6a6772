"""What a sandboxed process may use: paths, as data that travels as JSON. Enforces nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from shared.errors import Misconfigured

if TYPE_CHECKING:
    from shared.layout import HiveLayout

# Of a home directory: credentials, and what was typed. Hidden also where the directory itself was added.
PROTECTED_IN_HOME: tuple[str, ...] = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".vault-token",
    ".terraform.d",
    ".password-store",
    ".mozilla",
    ".thunderbird",
    ".claude",
    ".claude.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/op",
    ".config/rclone",
    ".config/chromium",
    ".config/google-chrome",
    ".config/containers/auth.json",
    ".local/share/keyrings",
    ".local/share/fish/fish_history",
    ".bash_history",
    ".zsh_history",
    ".histfile",
    ".history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".rediscli_history",
    ".lesshst",
    ".viminfo",
)


@dataclass(frozen=True)
class Policy:
    """Absolute paths; what is not said here and is no system file is out of reach.

    Attributes:
        home: `HIVE_ROOT`, hidden as a whole, except for what the others below name.
        writable: read, written and run; the first is the state directory and must be there.
        readable: read and run.
        sockets: unix sockets; the directory they lie in is shown, as a daemon binds them anew when it starts.
        temporary: a directory on disk that is `/tmp` and `/var/tmp` inside.
        protected: hidden, also inside something above.
    """

    home: str
    writable: tuple[str, ...]
    readable: tuple[str, ...]
    sockets: tuple[str, ...]
    temporary: str
    protected: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for path in (
            self.home,
            self.temporary,
            *self.writable,
            *self.readable,
            *self.sockets,
            *self.protected,
        ):
            if not path.startswith("/") or "\0" in path:
                raise Misconfigured(f"the sandbox takes absolute paths, not {path!r}")

    def to_json(self) -> str:
        """One JSON object; names that are not UTF-8 survive."""
        import json  # noqa: PLC0415 - most who import this never need it

        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Policy:
        """The policy that `to_json` wrote.

        Raises:
            Misconfigured: when it is something else.
        """
        import json  # noqa: PLC0415

        try:
            raw = json.loads(text)
            values = {f.name: raw[f.name] for f in fields(cls)}
            many = {name: tuple(map(str, value)) for name, value in values.items() if isinstance(value, list)}
            return cls(**{**values, **many})
        except (ValueError, KeyError, TypeError) as exc:
            raise Misconfigured(f"this is no sandbox policy: {exc}") from exc


def default_protected(home: Path | None = None) -> tuple[str, ...]:
    """The operator's own credentials and shell history, in the home directory of who runs this."""
    try:
        base = home or Path.home()
    except RuntimeError:
        # A user without a name and without `HOME`, as containers have: there is nothing to protect.
        return ()
    return tuple(str(base / name) for name in PROTECTED_IN_HOME)


def interpreter_paths() -> tuple[str, ...]:
    """Where the running Python lies, so that it runs inside wherever it was installed."""
    return tuple(dict.fromkeys((sys.base_prefix, sys.base_exec_prefix)))


def build_policy(
    layout: HiveLayout,
    agent: str,
    *,
    temporary: Path,
    extra_readable: Iterable[str | Path] = (),
    extra_writable: Iterable[str | Path] = (),
    own_readable: Iterable[str | Path] = (),
    own_writable: Iterable[str | Path] = (),
    protected: Iterable[str | Path] | None = None,
) -> Policy:
    """What tasks of an agent may use.

    Args:
        layout: the hive's.
        agent: its name.
        temporary: a private directory on disk; whoever starts tasks makes and clears it.
        extra_readable: what the operator added; may be missing; left out where it lies in `HIVE_ROOT`.
        extra_writable: the same, to write.
        own_readable: more of the agent's own, also inside `HIVE_ROOT` (a turn reads its configuration).
        own_writable: the same, to write (a turn writes `claude/`).
        protected: instead of `default_protected()`.
    """
    paths = layout.agent(agent)
    root = layout.root

    def outside(added: Iterable[str | Path]) -> list[str]:
        paths = (Path(os.path.normpath(path)) for path in added)
        return [str(path) for path in paths if path != root and root not in path.parents]

    return Policy(
        home=str(root),
        writable=(str(paths.state_dir), *map(str, own_writable), *outside(extra_writable)),
        readable=(*interpreter_paths(), *map(str, own_readable), *outside(extra_readable)),
        sockets=(str(paths.agent_socket), str(paths.core_socket)),
        temporary=str(temporary),
        protected=default_protected() if protected is None else tuple(map(str, protected)),
    )
