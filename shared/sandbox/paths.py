"""Finding real paths without following what an agent may have laid, and cutting trees around what is hidden.

Reads directories; opens nothing for anybody.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_MAX_LINKS = 40


@dataclass(frozen=True)
class Found:
    """A path without symlinks, and the links met on the way as `(path, target)`."""

    path: str
    links: tuple[tuple[str, str], ...] = ()


def is_within(path: str, tree: str) -> bool:
    """Whether `path` is `tree` or below it; both are real."""
    return tree in {path, "/"} or path.startswith(tree + "/")


def find_real(path: str, *, untrusted: Iterable[str] = ()) -> Found | None:
    """Where `path` really is; None when missing, or when it leads through a link inside an `untrusted` tree.

    Whoever may write a tree could otherwise lay a link there, and have its target opened to it.
    """
    links: list[tuple[str, str]] = []
    todo = path.split("/")[::-1]
    real = ""
    untrusted = tuple(untrusted)
    while todo:
        part = todo.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            real = real.rpartition("/")[0]
            continue
        step = f"{real}/{part}"
        try:
            mode = os.lstat(step).st_mode
        except OSError:
            return None
        if not stat.S_ISLNK(mode):
            real = step
            continue
        if len(links) == _MAX_LINKS or any(is_within(step, tree) for tree in untrusted):
            return None
        target = os.readlink(step)
        links.append((step, target))
        if target.startswith("/"):
            real = ""
        todo += target.split("/")[::-1]
    return Found(real or "/", tuple(links))


def cut_around(tree: str, hidden: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Split a tree so that nothing of `hidden` is in any part.

    Yields `("whole", path)` for what can be shown as it is, `("directory", path)` for one whose entries
    follow one by one, `("link", path)` for a symlink among those.
    """
    inside = [path for path in hidden if is_within(path, tree)]
    if tree in inside:
        return
    if not inside:
        yield "whole", tree
        return
    yield "directory", tree
    try:
        entries = sorted(os.scandir(tree), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = os.path.join(tree, entry.name)
        if entry.is_symlink():
            if path not in inside:
                yield "link", path
        else:
            yield from cut_around(path, inside)
