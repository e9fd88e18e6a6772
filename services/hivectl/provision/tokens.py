"""An agent's token files, and how one token replaces another without a moment at which neither is known.

`token.next` is written before the broker hears of it: an interrupted rotation is completed from there,
whether or not the broker had accepted.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Protocol

from services.hivectl.provision.owned import read_owned, write_owned
from services.hivectl.provision.records import refresh_hive_file
from services.hivectl.provision.root import hive_lock
from services.hivectl.provision.surfaces import write_mcp_config
from services.hivectl.reading import parse_json
from shared.errors import Conflict, Misconfigured
from shared.layout import AgentLayout, HiveLayout, PortPlan
from shared.runtime.credential import MAX_RETIRING, TOKEN, hash_token, new_token, retiring_path
from shared.runtime.files import remove_private
from shared.wire.agents import Agent, RotateToken

GRACE_SECONDS = 600


class RotationRegistry(Protocol):
    """What completing a rotation asks of the broker."""

    def rotate_token(self, name: str, request: RotateToken) -> None:
        """Accept a new token; repeating it changes nothing."""


class TokenRegistry(RotationRegistry, Protocol):
    """The part of the operator's client that is needed here."""

    def get_agent(self, name: str) -> Agent:
        """The row, or `NotFound`."""

    def drop_retiring_token(self, name: str) -> None:
        """End the old token; having none is fine."""


def rotate_token(
    layout: HiveLayout, registry: TokenRegistry, ports: PortPlan, name: str, *, now: bool
) -> None:
    """Give an agent a new token. The old one ends after ten minutes, with `now` at once.

    One that is lost or damaged is replaced; then nothing of before goes on.

    Raises:
        NotFound: when there is no such agent.
        HiveError: what the broker refused; the old token stays in force.
    """
    agent = registry.get_agent(name)
    paths = layout.agent(name)
    with hive_lock(layout):
        if _is_damaged(paths):
            remove_private(next_token_file(paths))
            replace_token(paths, registry, name)
        else:
            finish_rotation(paths, registry, name)
            write_owned(next_token_file(paths), new_token().encode() + b"\n")
            finish_rotation(paths, registry, name)
        write_mcp_config(paths, ports, agent.port_block, read_token(paths))
        refresh_hive_file(layout)
        if now:
            registry.drop_retiring_token(name)
            remove_private(retiring_path(paths.token_file))


def finish_rotation(paths: AgentLayout, registry: RotationRegistry, name: str) -> None:
    """Put `token.next` in force, if there is one. Call under the hive's lock; `mcp.json` is the caller's."""
    waiting = next_token_file(paths)
    if not waiting.exists():
        return
    fresh = _read(waiting)
    current = read_token(paths)
    if fresh != current:
        registry.rotate_token(name, RotateToken(token_sha256=hash_token(fresh), grace_seconds=GRACE_SECONDS))
        # The daemons' note of the old token first: they must never accept neither.
        _note_retiring(paths, hash_token(current))
        write_owned(paths.token_file, fresh.encode() + b"\n")
    remove_private(waiting)


def confirm_token(paths: AgentLayout, registry: RotationRegistry, name: str) -> None:
    """Have the broker know the token of the file, and end others no later than the file beside it says.

    Mostly it knows. One that was used before, in files older than the broker's database, is replaced.
    """
    token = hash_token(read_token(paths))
    try:
        registry.rotate_token(name, RotateToken(token_sha256=token, grace_seconds=_read_grace(paths)))
    except Conflict:
        replace_token(paths, registry, name)


def replace_token(paths: AgentLayout, registry: RotationRegistry, name: str) -> None:
    """Put a new token in force at once, where the one before is lost or void."""
    token = new_token()
    registry.rotate_token(name, RotateToken(token_sha256=hash_token(token), grace_seconds=0))
    write_owned(paths.token_file, token.encode() + b"\n")


def _note_retiring(paths: AgentLayout, sha256: str) -> None:
    """Add a token to those that go on for a while; whoever began with an earlier one keeps its own time."""
    kept = {key: at for key, at in _read_retiring(paths).items() if at > time.time() and key != sha256}
    kept[sha256] = int(time.time()) + GRACE_SECONDS
    rows = [{"sha256": key, "expires_at": at} for key, at in kept.items()]
    write_owned(retiring_path(paths.token_file), json.dumps(rows[-MAX_RETIRING:]).encode() + b"\n")


def _read_retiring(paths: AgentLayout) -> dict[str, int]:
    """When each earlier token ends, by its hash; nothing where the note is damaged."""
    try:
        found = parse_json(read_owned(retiring_path(paths.token_file)))
        return {
            str(row["sha256"]): int(row["expires_at"])
            for row in (found if isinstance(found, list) else [found])
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _read_grace(paths: AgentLayout) -> int:
    """How long tokens before this one go on; 0 when there are none, or their note is damaged."""
    ends_at = max(_read_retiring(paths).values(), default=0)
    return min(max(0, ends_at - int(time.time())), GRACE_SECONDS)


def read_token(paths: AgentLayout, *, mend: str | None = None) -> str:
    """The token in force. `mend` says what to do when it is damaged, where rotating it cannot help.

    Raises:
        Misconfigured: when the file is missing, or holds no token.
    """
    return _read(paths.token_file, mend)


def _is_damaged(paths: AgentLayout) -> bool:
    try:
        read_token(paths)
        if next_token_file(paths).exists():
            _read(next_token_file(paths))
    except Misconfigured:
        return True
    return False


def next_token_file(paths: AgentLayout) -> Path:
    """Where the token waits that is to replace the current one."""
    return paths.token_file.with_name("token.next")


def _read(path: Path, mend: str | None = None) -> str:
    name = path.parent.name
    mend = mend or f"remove it, then `hivectl token rotate {name}` and `hivectl agent start {name}`"
    try:
        token = read_owned(path).decode("ascii", "replace").strip()
    except OSError as exc:
        raise Misconfigured(f"{path} cannot be read: {exc.strerror}; {mend}") from exc
    if not TOKEN.fullmatch(token):
        what = "holds no token" if token else "is empty"
        raise Misconfigured(f"{path} {what}; {mend}")
    return token
