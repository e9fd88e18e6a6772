"""Identity, files, addresses, restarts, and what the operator's commands say."""

from __future__ import annotations

ROWS: dict[str, dict[str, str]] = {
    "spec 2, identity": {
        "identity.token": "a wrong or missing token is 401, on surfaces and on both trees of the broker",
        "identity.other-agent": "an agent's token opens no other agent's surface",
        "identity.trees-apart": "an agent's token opens no operator route and the operator's no agent route",
        "identity.not-an-argument": "no argument, header or query makes a request somebody else's",
        "identity.rotation": "after `token rotate --now` the old token is 401 everywhere, the new one works",
        "identity.reborn": "a destroyed and re-created agent sees no old row, and the old token is dead",
    },
    "spec 11": {
        "identity.files": "credentials are 0600, their directories 0700",
        "guard.host": "a wrong Host is 421",
        "guard.origin": "a foreign Origin is 403",
        "guard.content-type": "a text/plain POST is refused",
        "guard.order": (
            "Host is checked before Origin, Origin before the credential, that before Content-Type"
        ),
        "limits.answers-kept": "of one caller only so many answers to keys are kept, the newest",
        "limits.connects": (
            "a daemon that opens its control stream again and again is told to wait, and the real one obeys"
        ),
        "limits.revisions": "a revision is a short plain word, and an agent can tell of few changes of it",
        "limits.refusals-fair": "the refusals of one sender push out nobody else's",
        "guard.open": "only /healthz and /readyz are open, with a status alone",
    },
    "spec 2, names": {
        "names.refused": "`..`, `A/b`, empty, oversized and look-alike names are refused everywhere",
    },
    "spec 1, restarts": {
        "restart.between-calls": "a surface killed between calls is back, and no call fails",
        "restart.during-call": (
            "a call in flight when its surface is killed ends in an error within the timeout"
        ),
        "restart.drained": "a surface that is stopped gracefully answers the calls it has, then ends",
        "restart.broker": "a broker killed and restarted loses nothing and needs no restart of a surface",
        "restart.herd": (
            "long polls and streams come back by themselves after a restart of the broker, in few attempts "
            "that are scattered"
        ),
        "restart.down": "a restart that `down` or a kill of the supervisor cuts off is not done once more",
        "restart.tried-on": (
            "an agent that does not come up fails the command that asked for it, keeps its socket, is tried "
            "on, and told as started once it runs; with bad settings it stays down"
        ),
        "restart.damaged-alone": (
            "an agent whose files are damaged is named with what to do, and all others are started"
        ),
        "restart.wait-apart": "a call that waits holds up no other call",
    },
    "issue 2, proof 1": {
        "claude.bash": (
            "a real claude starts a build, is woken by its end, searches its errors and kills a hung one"
        ),
        "claude.todos": "a real claude marks todos as done, and is told why nothing is compacted",
        "claude.plans": (
            "a real claude sets a reminder and is shown it, asks for a schedule and receives it once approved"
        ),
        "claude.mail": "a real claude sends, another receives, replies and acks, in both eras",
    },
    "spec 10, hivectl": {
        "hivectl.in-order": "what is asked of one agent is done in order, and not refused meanwhile",
        "hivectl.damage": "a damaged file of a hive is named, with what to do, and nothing hangs on it",
        "hivectl.doctor": "each check of doctor can fail, and says how to mend what it found",
    },
    "issue 4, search": {
        "search.words": "a message is found by all words of a query, or by what they begin with",
        "search.plain": "nothing in a query is an operator, and none is an error of the database",
        "search.filters": "newest come first, in pages, of a sender or recipient, since a moment",
        "search.operator-only": "only the operator searches",
        "search.removed": "what is removed leaves the index in the same transaction",
        "search.follows": "the index follows what is stored, and a search finds all that was stored before",
        "search.restored": "on an older copy of the database the search finds what that holds",
        "search.command": "hivectl search finds messages, says what was wrong, and escapes what it shows",
    },
    "spec 10, tasks and paths": {
        "tasks.mirrored": (
            "hivectl tasks shows what each surface has running, bounded, also while it is down"
        ),
        "tasks.kill": (
            "a kill goes to the task's surface at once, at any broker, and its answer comes back; what could "
            "not be delivered is said, and not delivered later"
        ),
        "tasks.end-with-agent": (
            "stop, kill and destroy of an agent and the end of the hive end its tasks; a restart, or the end "
            "of a surface, does not"
        ),
        "tasks.orphans": (
            "tasks outlive a kill of their daemon and of the supervisor, the next ones have them, nobody "
            "takes them for leftovers, and `down` ends them in any case"
        ),
        "paths.granted": (
            "paths are opened and closed by the operator, pushed and kept with the grants, and never meet "
            "the hive's own files"
        ),
        "surfaces.several": (
            "an agent has started when all its surfaces answer; the end of another than its own is no crash"
        ),
        "surfaces.alone": "the bash surface runs without a broker, an in-agent socket, or a push of grants",
    },
    "spec 2, files": {
        "claude.mcp-config": "the written mcp.json is taken by claude as it is",
    },
    "spec 2, sockets": {
        "sockets.modes": "a socket is 0600, or 0660 with the agent's group, before anybody can connect",
        "sockets.peer-checked": "the kernel is asked who connects: own user, root, the group, nobody else",
        "sockets.stale-replaced": "a stale socket is replaced, one that a living daemon serves never",
        "sockets.path-length": "a path over 107 bytes is a clear error that names the setting",
        "sockets.malformed": (
            "a line that is malformed, half or too long is answered clearly, and the connection goes on"
        ),
        "sockets.slow-peers": "a slow, silent or deaf peer holds up no other, and is let go",
    },
}
