"""What the sandbox of tasks, turns and children keeps apart, and what works inside."""

from __future__ import annotations

ROWS: dict[str, dict[str, str]] = {
    "spec 7, isolation": {
        "sandbox.hive": (
            "from inside, tokens, other agents' state and sockets, and the rest of HIVE_ROOT are out of reach"
        ),
        "sandbox.protected": "what the operator protects is hidden, also inside a directory that was added",
        "sandbox.processes": (
            "from inside, no daemon can be read, traced, signalled or limited, and nothing of it is inherited"
        ),
        "sandbox.system": "from inside, the system cannot be changed, no disk read, no privilege gained",
        "sandbox.work": "inside, state, temporary directory, added paths, network and programs work",
        "sandbox.sockets": "a daemon that binds its socket anew is reached from a task that runs already",
        "sandbox.ids": "what is written inside belongs to the same user outside, root or not",
        "sandbox.swapped": "a path swapped for a link is not followed, and nothing outside is touched",
        "sandbox.odd-paths": "links, spaces, newlines and missing paths in a policy do no harm",
        "sandbox.all-or-nothing": "what cannot be set up is an error in the parent, and nothing has run",
        "sandbox.ends": "all processes of a sandbox of namespaces end with its first",
        "sandbox.detected": "what a machine offers is found out by trying, and a refusal says who refused",
        "sandbox.wrapper": "`python -m shared.sandbox` passes on output, exit codes and signals",
        "sandbox.light": "the sandbox needs the standard library alone",
    },
}
