"""What the sandbox of a task shows: the agent's own and what the operator added; of the hive nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from shared.sandbox import Policy, default_protected, interpreter_paths
from shared.wire.agents import GrantedPath


class Confinement:
    """Builds the policy of the next task.

    Args:
        root: the hive's root, hidden as a whole.
        state_dir: the agent's own directory.
        sockets: its sockets.
        temporary: a private directory, for `/tmp`.
        secrets: what is hidden wherever it lies: token, private state.
    """

    def __init__(
        self,
        root: Path,
        state_dir: Path,
        *,
        sockets: Iterable[Path | None],
        temporary: Path,
        secrets: Sequence[Path],
    ) -> None:
        self._root = str(root)
        self._state_dir = str(state_dir)
        self._sockets = tuple(str(path) for path in sockets if path is not None)
        self._temporary = str(temporary)
        self._paths: Sequence[tuple[str, str]] = ()
        self._policy: Policy | None = None
        self._protected = (*default_protected(), *map(str, secrets))

    def build_policy(self, added: Iterable[GrantedPath]) -> Policy:
        """The policy, with the paths that the operator has added by now; the same object while those are."""
        paths = sorted((each.mode, each.path) for each in added)
        if self._policy is None or paths != self._paths:
            self._paths, self._policy = paths, self._build(paths)
        return self._policy

    def _build(self, paths: Sequence[tuple[str, str]]) -> Policy:
        return Policy(
            home=self._root,
            writable=(self._state_dir, *(path for mode, path in paths if mode == "rw")),
            readable=(*interpreter_paths(), *(path for mode, path in paths if mode == "ro")),
            # A surface may run without whoever serves them; the next task sees those that are there by then.
            sockets=tuple(path for path in self._sockets if Path(path).parent.is_dir()),
            temporary=self._temporary,
            protected=self._protected,
        )
