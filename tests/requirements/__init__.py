"""The behaviours of the tool contract and of delivery that tests must prove, by the section asking for them.

A test declares `@pytest.mark.requirement("send.self-refused")`. `tests/unit/test_requirements.py` fails when
an id has no test; collection fails when a test names an id that is not here.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.requirements import bash, delivery, hive, output, sandbox, tasks, tools


@dataclass(frozen=True)
class Requirement:
    """One behaviour: where it is asked for, and one sentence that a test can falsify."""

    source: str
    text: str


# The parts of docs/guarantees.md: what a hive promises about delivery, and nothing else.
GUARANTEES: dict[str, str] = {
    "spec 5, messages": "Messages",
    "spec 4, ack_until": "Acks",
    "spec 4, recv": "Handing out",
    "issue 3, proof 2": "Disks and clocks",
    "issue 3, proof 3": "Floods and echoes",
    "spec 1, restarts": "Restarts",
    "issue 3, proof 1": "Kills",
    "spec 5, reminders and schedules": "Reminders and schedules",
    "spec 6, todos": "Todos",
    "spec 6, waking": "Waking",
    "spec 5, per-agent socket": "Wakes by socket and command",
    "spec 5, notices": "Notices",
    "spec 5, storage": "Several brokers on one PostgreSQL database",
    "spec 5, system messages": "System messages",
    "spec 5, retention": "Retention",
}

REQUIREMENTS: dict[str, Requirement] = {
    name: Requirement(source, text)
    for family in (tools, delivery, hive, bash, output, sandbox, tasks)
    for source, rows in family.ROWS.items()
    for name, text in rows.items()
}
