"""From a policy to what is shown where, decided once for many processes.

Reads the file system; changes nothing. `namespaces` and `landlock` carry a plan out.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from shared.sandbox import system
from shared.sandbox.failure import SandboxFailed
from shared.sandbox.paths import Found, cut_around, find_real, is_within
from shared.sandbox.policy import Policy

READ, SYSTEM, WRITE, DEVICE = "read", "system", "write", "device"
_RANK = {READ: 0, SYSTEM: 1, WRITE: 2, DEVICE: 3}


@dataclass(frozen=True)
class Step:
    """One thing to show, at its own path unless `source` says where it comes from.

    Attributes:
        kind: `tree` (with `access`), `directory` (an empty one, whose entries have steps of their own),
            `link` (to `source`).
        path: where it is inside.
        source: another place that it comes from, or a link's target.
        access: of a tree: `read`, `system` (read, and no agent can put anything there), `write`, `device`.
        required: without it there is no sandbox; else it is skipped when it has gone.
        foreign: its place is in a tree that the agent itself can write, so it must be looked for with care.
        mounted: a mount of its own within `/etc`, which an overlay of `/etc` does not show.
    """

    kind: str
    path: str
    source: str = ""
    access: str = READ
    required: bool = False
    foreign: bool = False
    mounted: bool = False


@dataclass(frozen=True)
class Plan:
    """Steps in order, parents first.

    Attributes:
        steps: what is shown.
        secrets: below `/etc`, hidden; `steps` cut around them, an overlay does it quicker.
        temporary: the private directory on disk.
        seen: `(directory, mtime_ns)` of what was listed, to tell when the plan is out of date.
    """

    steps: tuple[Step, ...]
    secrets: tuple[str, ...]
    temporary: str
    seen: tuple[tuple[str, int], ...] = ()

    def is_current(self) -> bool:
        """Whether the directories that were listed still have the entries they had."""
        return all(_mtime(path) == mtime for path, mtime in self.seen)


@dataclass
class _Draft:
    hidden: list[str]
    trees: dict[str, tuple[str, bool]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def add(self, found: Found, access: str, *, required: bool = False) -> None:
        self.links.update(found.links)
        if found.path not in self.trees or required:
            self.trees[found.path] = (access, required)


def build_plan(policy: Policy) -> Plan:
    """Look at the paths of a policy and say what is shown.

    Raises:
        SandboxFailed: when the state directory, the sockets' directory or the temporary directory is missing.
    """
    secrets = system.list_secrets()
    home = _required(policy.home, "the hive's directory").path
    protected = [found.path for path in policy.protected if (found := find_real(path))]
    draft = _Draft([home, *protected, *secrets, *system.MADE])
    temporary = _required(policy.temporary, "the temporary directory").path
    writable = [temporary]
    for number, path in enumerate(policy.writable):
        found = find_real(path, untrusted=writable)
        if found is None and number == 0:
            raise SandboxFailed(f"find the state directory {path}", errno.ENOENT)
        if found is not None and _is_open(found.path, home, protected, names_home=_names(policy, path)):
            draft.add(found, DEVICE if is_within(found.path, "/dev") else WRITE, required=number == 0)
            writable.append(found.path)
    for directory in dict.fromkeys(map(os.path.dirname, policy.sockets)):
        draft.add(_required(directory, "the sockets' directory"), READ, required=True)
    for path in policy.readable:
        found = find_real(path, untrusted=writable)
        if found is not None and _is_open(found.path, home, protected, names_home=_names(policy, path)):
            draft.add(found, DEVICE if is_within(found.path, "/dev") else READ)
    for path in (*system.READABLE, *system.FILES):
        if (found := find_real(path)) and _is_open(found.path, home, protected, names_home=False):
            draft.add(found, SYSTEM)
    for path in system.DEVICES:
        if found := find_real(path):
            draft.add(found, DEVICE)
    listed = {system.CONFIGURATION}
    steps = tuple(_order(_nodes(draft, temporary, listed)))
    return Plan(steps, tuple(secrets), temporary, tuple((path, _mtime(path)) for path in sorted(listed)))


def _required(path: str, what: str) -> Found:
    found = find_real(path)
    if found is None:
        raise SandboxFailed(f"find {what} {path}", errno.ENOENT)
    return found


def _names(policy: Policy, path: str) -> bool:
    """Whether a listed path itself says that it lies in `HIVE_ROOT`, not led there by links or dots."""
    return ".." not in path.split("/") and is_within(path, policy.home)


def _is_open(path: str, home: str, protected: Iterable[str], *, names_home: bool) -> bool:
    """Whether a listed path may be shown: nothing of the hive unawares, and nothing that is protected.

    What lies in the hive is not protected by something around the hive.
    """
    if path == home or (is_within(path, home) and not names_home):
        return False
    return not any(is_within(path, tree) and not is_within(home, tree) for tree in protected)


def _mtime(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1


def _nodes(draft: _Draft, temporary: str, listed: set[str]) -> dict[str, Step]:
    """What is at each path: trees cut around what is hidden, and the directories that lead there.

    Adds to `listed` the directories whose entries were looked at one by one.
    """
    nodes = {path: Step("tree", path, temporary, WRITE, required=True) for path in system.TEMPORARY}
    nodes |= {path: Step("directory", path) for path in ("/home", "/run", "/var")}
    nodes |= {path: Step("link", path, to) for path, to in draft.links.items() if path not in system.MADE}
    for tree, (access, required) in draft.trees.items():
        for kind, path in cut_around(tree, (h for h in draft.hidden if h != tree or not required)):
            if kind == "whole":
                before = nodes.get(path)
                if before is None or before.kind != "tree" or _RANK[access] > _RANK[before.access]:
                    nodes[path] = Step("tree", path, "", access, required)
            elif kind == "link":
                nodes.setdefault(path, Step("link", path, os.readlink(path)))
            else:
                nodes.setdefault(path, Step("directory", path))
                listed.add(path)
    for path in list(nodes):
        while (path := os.path.dirname(path)) != "/":
            nodes.setdefault(path, Step("directory", path))
    return nodes


def _order(nodes: dict[str, Step]) -> Iterator[Step]:
    """Parents before what lies in them, and nothing that is there already."""
    for path in sorted(nodes.keys() - {"/"}, key=lambda path: path.split("/")):
        step = nodes[path]
        above = _above(nodes, path)
        if above is not None and not above.source and (step.kind != "tree" or _is_same(step, above)):
            continue
        foreign = above is not None and (bool(above.source) or above.access == WRITE)
        mounted = is_within(path, system.CONFIGURATION) and _is_mounted(path)
        yield Step(step.kind, path, step.source, step.access, step.required, foreign, mounted)


def _is_same(one: Step, other: Step) -> bool:
    return one.access == other.access or {one.access, other.access} == {READ, SYSTEM}


def _above(nodes: dict[str, Step], path: str) -> Step | None:
    """The nearest tree around a path."""
    while (path := os.path.dirname(path)) != "/":
        if (step := nodes.get(path)) and step.kind == "tree":
            return step
    return None


def _is_mounted(path: str) -> bool:
    try:
        return os.lstat(path).st_dev != os.stat(system.CONFIGURATION).st_dev
    except OSError:
        return False
