"""All checks by name: what each looks at, and when it is a finding. docs/hivectl.md shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A check. `name` may hold words in capitals, which stand for what varies."""

    name: str
    what: str
    warns: str = ""
    fails: str = ""

    def matches(self, name: str) -> bool:
        """Whether a check of this name is of this kind."""
        return re.fullmatch(re.sub(r"[A-Z]+", r"[^.]+", re.escape(self.name)), name) is not None


CATALOGUE: tuple[Kind, ...] = (
    Kind("python", "the interpreter", fails="older than 3.11"),
    Kind("packages", "what is installed beside hyperhive", fails="not the versions that it needs"),
    Kind("sqlite", "the SQLite library", fails="older than 3.35, or without FTS5"),
    Kind("claude", "the claude CLI on the PATH; node is not needed", warns="none, or older than 2.1.197"),
    Kind("disk", "space on the hive's file system", warns="85 % full", fails="95 % full"),
    Kind("disk.inodes", "its inodes", warns="85 % used", fails="95 % used"),
    Kind("disk.writable", "its mount", fails="read-only"),
    Kind("memory", "what programs that start may have", warns="under 10 %", fails="under 3 %"),
    Kind("open-files", "the broker's limit of open files", warns="under 256, and 16 more an agent"),
    Kind("files.root", "the root directory", fails="missing, somebody else's, or open to others"),
    Kind("files.contents", "settings, NATS' passwords, the lock", "a damaged lock", "damaged"),
    Kind("files.hive", "the hive's files and modes", fails="missing, damaged, open to others"),
    Kind(
        "files.agent.NAME",
        "an agent's files and modes: state, credentials",
        "an `agent add` that was cut off",
        "missing, damaged, open to others, tokens that differ",
    ),
    Kind("isolation", "what keeps agents from each other's files", warns="nothing: not isolated"),
    Kind("database.wal", "the database's write-ahead log", warns="over 64 MiB"),
    Kind("supervisor", "who starts and watches agents", fails="nobody is connected"),
    Kind("supervisor.revision", "which code `hivectl up` runs", warns="not the one installed"),
    Kind("supervisor.leftovers", "units of an earlier supervisor, while none runs", fails="some still run"),
    Kind("supervisor.spool", "events for the broker", warns="older than 60 s", fails="damaged"),
    Kind("broker", "the broker", fails="away, not ready, refuses the operator's token"),
    Kind("broker.revision", "which code it runs", warns="not the one installed"),
    Kind("clock.broker", "its clock beside ours", warns="5 s apart", fails="60 s apart"),
    Kind("clock.nats", "NATS' clock beside ours", warns="5 s apart", fails="60 s apart"),
    Kind("clock.stored", "the newest message, job and notice", warns="lies ahead: the clock was set back"),
    Kind("messages.parked", "messages that no turn could deal with", warns="some"),
    Kind("messages.refused", "limits that agents met within the last hour", warns="some"),
    Kind("notices.waiting", "the outbox", warns="over 100, or one for over 60 s"),
    Kind("notices.readers", "readers' credentials and durables", warns="one without the other"),
    Kind("nats.broker", "the broker's connection to NATS", fails="none"),
    Kind("nats.durability", "whether NATS syncs what it acks", warns="it does not say", fails="it does not"),
    Kind("nats.reader", "reading notices as a reader does", fails="refused, or no answer"),
    Kind("nats.version", "nats-server", warns="older than 2.14.6"),
    Kind(
        "agent.NAME",
        "an agent and its connection to the broker",
        "it, or a surface of it, runs unconnected; files without a row",
        "wanted and does not run; a row without files",
    ),
    Kind("agent.NAME.revision", "which code its daemon runs", warns="not the one installed"),
    Kind(
        "surface.NAME.SURFACE",
        "its tools, asked with its own token in both eras",
        fails="no answer, or refused",
    ),
    Kind("port.PORT", "who listens", fails="nobody, or somebody else"),
)


def find_kind(name: str) -> Kind | None:
    """The kind of the check of that name."""
    return next((kind for kind in CATALOGUE if kind.matches(name)), None)
