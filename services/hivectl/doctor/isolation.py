"""What keeps agents from each other's files: users of their own, the sandbox of their tasks, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from services.hivectl.doctor.check import Check, passed, warning
from services.hivectl.sandbox_probe import SETTING, Sandbox, SandboxProbe
from shared.layout import HiveLayout
from shared.sandbox import MEND

_MEND = (
    "run the hive under an account of its own, and give it nothing that its agents may not have; "
    "or give each agent a user, as the units in deploy/systemd do"
)

_MEND_SETTING = f"hivectl down, then hivectl up without {SETTING}"


def _owner(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except OSError:
        return None


def check_isolation(
    layout: HiveLayout,
    agents: Iterable[str],
    *,
    owner_of: Callable[[Path], int | None] = _owner,
    find_sandbox: Callable[[], Sandbox] = lambda: SandboxProbe().read(),
    unconfined: Sequence[str] = (),
) -> Check:
    """Which agents share an account with others, or with the hive, and whether a sandbox mends that."""
    name = "isolation"
    uids = {agent: owner_of(layout.agent(agent).home) for agent in agents}
    hive = owner_of(layout.root)
    taken = list(uids.values())
    shared = sorted(agent for agent, uid in uids.items() if uid in {None, hive, 0} or taken.count(uid) > 1)
    if not uids:
        return passed(name, "no agents yet; under `hivectl up` they share the hive's account")
    if not shared:
        return passed(name, "each agent has a user of its own; what it runs itself can read its own token")
    sandbox = find_sandbox()
    if unconfined:
        named = ", ".join(unconfined)
        return warning(name, f"not isolated: {SETTING} is off for the tasks of {named}", _MEND_SETTING)
    if sandbox.exists:
        return passed(name, f"{sandbox.line}; sessions that you start yourself are not")
    run = "run" if len(shared) > 1 else "runs"
    if hive in {uids[agent] for agent in shared}:
        under = "the hive's own account and can read whatever it can, also every token"
    else:
        under = "an account that is not theirs alone and can read what others under it can"
    detail = f"{sandbox.line.partition(';')[0]}; {', '.join(shared)} {run} under {under}"
    return warning(name, detail, f"{MEND}; or {_MEND}")
