"""What `up` and `doctor` say about the sandbox: one line, and what to do."""

from __future__ import annotations

from shared.sandbox.kinds import Isolation, Kind

MEND = (
    "allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0 or "
    "kernel.unprivileged_userns_clone=1; in a container, start it so that they are allowed), "
    "or give each agent a user of its own, as the units in deploy/systemd do"
)


def describe(isolation: Isolation) -> str:
    """One line without its full stop, for example `tasks run isolated (namespaces)`."""
    if isolation.kind is Kind.NONE:
        return f"not isolated: {isolation.reason}; {MEND}"
    line = f"tasks run isolated ({isolation.kind})"
    if isolation.limits:
        line += f", not kept apart: {', '.join(isolation.limits)}"
    return f"{line}; {isolation.reason}" if isolation.reason else line
