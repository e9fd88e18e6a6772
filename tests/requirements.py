"""The behaviours of the tool contract and of delivery that tests must prove, by the section asking for them.

A test declares `@pytest.mark.requirement("send.self-refused")`. `tests/unit/test_requirements.py` fails when
an id has no test; collection fails when a test names an id that is not here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Requirement:
    """One behaviour: where it is asked for, and one sentence that a test can falsify."""

    source: str
    text: str


_BY_SOURCE: dict[str, dict[str, str]] = {
    "spec 4, send": {
        "send.reaches-peer": "a message to a peer by name can be received by that peer alone",
        "send.reaches-operator": "a message to `operator` appears in the operator's inbox",
        "send.says-state": "the answer carries the id and says how the recipient stands",
        "send.self-refused": "a message to oneself is refused",
        "send.unknown-refused": "an unknown recipient is refused with near names or the reachable ones",
        "send.size-refused": "a body over 64 KiB is refused with the limit",
        "send.reply-checked": "an in_reply_to that is foreign and one that is absent look the same",
        "send.thread": "a reply names the message it answers, and the recipient sees the thread",
        "send.broadcast": "`*` makes one row each for all agents but the sender, with the capability only",
        "send.urgent-capability": "urgent is refused without the capability, naming it",
    },
    "spec 3": {
        "send.recipients": "allowed_recipients limits send, `operator` stays reachable, the refusal says so",
        "permissions.revoked-live": (
            "a group taken away is refused on the next call of a running session, naming the group"
        ),
        "permissions.given-live": "a group given back works on the next call of a running session",
        "permissions.broker-enforces": "the broker refuses the call of a group that was taken away by itself",
        "permissions.who-narrowed": (
            "the refusal of a tool says whether the operator or the surface's own setting took it away"
        ),
        "permissions.hidden": (
            "tools/list shows what the caller may call; modern clients are told of a change"
        ),
    },
    "spec 4, recv": {
        "recv.empty": "an empty inbox is answered at once",
        "recv.order": "urgent rows come first, then the oldest",
        "recv.cap": "one row by default, at most five, and how many more are pending",
        "recv.marker": "each row is prefixed `[msg #<id>]` with sender, age and thread",
        "recv.fence": "a body that imitates a marker stands inside a fence whose nonce it cannot know",
        "recv.long-body": "a body too long for the answer is cut, its whole text lies in a private file",
        "recv.spill-failed": (
            "a long body whose file cannot be written is handed out cut, with a note of why and what to do"
        ),
        "recv.spill-removed": "the file of a long body goes after the ack",
    },
    "spec 4, ack_until": {
        "ack.up-to": "all own rows up to the id are acked, also ones not handed out, and counted",
        "ack.urgent-gap": "rows that an urgent row overtook unseen stay pending, and the answer says which",
        "ack.given-back": (
            "rows that were given back count as unseen: an urgent row that overtakes them acks none of them"
        ),
        "ack.final": "acked rows never come back",
        "ack.own-only": "an ack never touches another's rows",
    },
    "spec 4, get_agent_meta": {
        "meta.shape": "own and others' meta have the documented keys, absent ones omitted",
        "meta.unknown": "an unknown name is an error that says what is right",
    },
    "spec 4, set_status": {
        "status.set": "a status is shown to others, kept in the state directory, cleared by an empty text",
        "status.one-line": "over 200 characters or several lines are refused",
        "status.offline": "it works while the broker is down and is pushed when it is back",
    },
    "spec 4, remind": {
        "remind.due": "a reminder comes into the agent's own inbox when it is due, from the agent itself",
        "remind.times": (
            "exactly one of the two times, whole, ahead, within a hundred years; an error says what is right"
        ),
        "remind.limits": "so many pending an agent, 4 KiB each; the refusal says what helps",
        "remind.keyed": "a repeat under its key sets nothing twice",
        "remind.spill": "a longer text lies in a private file, whose path is in the message, until its ack",
        "remind.spill-states": "the surface can ask which files are needed, and is told of its own alone",
    },
    "spec 4, loose ends": {
        "loose-ends.shape": (
            "one list tagged by kind, fresh on every call: unseen mail, reminders, todos, own approvals"
        ),
        "loose-ends.source-down": "with a source down the rest is there, and what is missing is named",
        "loose-ends.cancel": "a reminder is deleted, a todo cleared; what cannot be says what helps",
        "loose-ends.cap": "very many loose ends are cut to the size of an answer, and counted",
        "loose-ends.own-only": "foreign ids change nothing, say so, and look like absent ones",
    },
    "spec 4, scheduling": {
        "schedules.approved": "nothing fires before it is approved; then exactly what was shown",
        "schedules.times": "times, intervals and bodies that cannot be are refused with what is right",
        "schedules.targets": "targets are oneself and agents below, however deep",
        "schedules.limits": "so many open schedules an agent; the refusal says what helps",
        "schedules.edits": (
            "an edit that does more than was approved changes nothing until it is approved; one that does "
            "less counts at once"
        ),
        "schedules.cancel": "a schedule is ended, or left out for some targets, at once and for good",
        "schedules.fire-now": "a fire by hand adds to a recurring schedule and consumes a single one",
        "schedules.own": "an agent steers its own schedules and those of agents below, no others",
        "schedules.tools": "the tools say what is in force, what waits, and what was sent",
    },
    "issue 4, approvals": {
        "approvals.once": "an approval is decided once; a second decision is a conflict that says so",
        "approvals.pinned": "what is shown is what was submitted, and is kept for ever",
        "approvals.deadline": "a permission that nobody answers by its deadline is denied, late answers too",
        "approvals.wait": "who asked can wait for the answer, and hears it at once",
        "approvals.capability": "without `relay_permissions` nobody is asked",
        "approvals.told": "ApprovalResolved comes once, to the submitter, however full the inbox",
        "approvals.cancel": "the root agent alone, with the group `approvals`, cancels its own",
        "approvals.limits": "so many pending an agent; the refusal says so",
        "approvals.operator": "the operator lists, shows, approves and denies by hivectl",
        "approvals.own-only": "nobody sees or waits for another's",
    },
    "spec 5, reminders and schedules": {
        "remind.clock": "a clock set forward fires what is due, one set back fires nothing twice",
        "remind.full-inbox": "what is due for a full inbox waits for room, and comes once",
        "remind.restart": "what fell due while the broker was away comes once at its return",
        "remind.flood": "very many due at once come in small batches that messages pass between",
        "schedules.catch-up": "after an absence over several times it fires once, and counts the others",
        "schedules.clock": "a clock set back fires nothing twice, summer time moves no time",
        "schedules.full-inbox": "a fire for a full inbox waits for room, comes once, and holds up no other",
        "due.kills": "a kill of the broker at any step between due and delivered: each comes exactly once",
        "due.shared": "several brokers on one database deliver each once, and another takes over",
        "planning.broker-enforces": "the broker refuses what the agent's groups do not admit by itself",
        "planning.operator-sees": "the operator sees what is planned, of all agents or of one",
    },
    "spec 4, envelope": {
        "envelope.strict-arguments": (
            "unknown, missing and mistyped arguments are errors that say what is expected"
        ),
        "envelope.malformed": (
            "what is no JSON-RPC message is refused in plain words, with the code and id that belong to it"
        ),
        "envelope.definitions": "tools/list is the same in both eras, and no wording changes unseen",
        "envelope.size": "the definitions stay within their budget of tokens",
        "envelope.result-cap": "no tool result is over 40,000 bytes",
        "envelope.status-not-marker": "others' one-line fields cannot pose as a marker",
    },
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
    "spec 5, messages": {
        "delivery.durable": "what `send` answered is stored: a kill at once does not lose it",
        "delivery.keyed": (
            "a repeat under its key stores, hands out and gives back nothing a second time; the key with "
            "another request is a conflict"
        ),
        "delivery.unsure": "an error that leaves open whether a message was stored says so; no other does",
        "delivery.ids": "an id is never used again",
        "delivery.apart": "a write that fails takes no other with it",
        "delivery.followed": "the sender, and no other agent, can ask how what it sent stands",
        "delivery.one-hand": "a row that is handed out is in nobody else's hands until it is given back",
        "delivery.failed-turn": (
            "all rows of a failed turn that are not acked come again, and each counts the turn once"
        ),
        "delivery.parked": (
            "a row that five turns failed on is parked: not handed out, not counted, not acked by what comes "
            "after it, until the operator releases it"
        ),
        "delivery.marked-read": "what the operator marks as read, their own or an agent's, is acked for good",
        "delivery.refusals-seen": "every refused send is there for the operator, without its body",
        "delivery.unknown-seen": (
            "a send whose fate its agent was not told is there for the operator, with what became of it"
        ),
        "delivery.refusals-bounded": "refusals cost few writes, little room and nobody's time, however many",
        "delivery.limits": "a full inbox, a long chain and a fast pair are errors to the sender that say why",
        "delivery.given-back": "rows handed to a caller who went away meanwhile are pending again",
        "delivery.redelivered": (
            "after a crash of the daemon un-acked rows are handed out again, acked ones never"
        ),
        "delivery.order-kept": "what is handed out again keeps urgency and order",
    },
    "issue 3, proof 3": {
        "delivery.echo-loop": "three agents that echo each other without in_reply_to are stopped",
        "delivery.full-inbox": "with 1,000 messages pending the next is refused and none is dropped",
        "delivery.storm": "a storm of sends of one agent delays no other",
    },
    "issue 3, proof 2": {
        "storage.full": "a full disk refuses clearly what it cannot hold; what was stored stays, in order",
        "storage.read-only": "a database that cannot be written is refused at the start, by its file's name",
        "storage.damaged": "a damaged database is named, to callers too, and left alone until a copy is back",
        "storage.one-broker": "a second broker on one database gives up, and the first goes on",
        "storage.clock-back": "a clock that is set back loses, disorders and refuses nothing",
    },
    "issue 3, proof 1": {
        "kills.messages": (
            "through twenty kills under load no answered message is lost, none is stored twice, no acked row "
            "comes back, no row is in two hands"
        ),
        "kills.transitions": (
            "through twenty kills of broker, NATS or both every transition is in the stream once, in order, "
            "within 10 s"
        ),
    },
    "issue 2, proof 1": {
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
    "spec 2, files": {
        "claude.mcp-config": "the written mcp.json is taken by claude as it is",
    },
    "spec 5, notices": {
        "notices.broker-away": "a crash while the broker is away is told once, at its return",
        "notices.cut-short": (
            "a job that another one or the end of the hive cuts short gives one notice a real transition, "
            "and a destroy none but `destroyed`"
        ),
        "notices.live": "a live subscriber sees each transition once, in order",
        "notices.durable": "a durable that was offline gets all of them later, in order",
        "notices.history": "direct get from the start shows all of them",
        "notices.envelope": "each is a CloudEvent whose id is its Nats-Msg-Id",
        "notices.read-only": "a reader can neither publish nor create nor delete",
        "notices.apart": "a reader hears nothing but notices and its own inbox",
        "readers.granted": (
            "a reader granted while the hive runs gets every notice, and costs those who read nothing"
        ),
        "readers.apart": "a reader changes nothing, and takes, hears or acks nothing that is another's",
        "readers.revoked": "a revoked reader is cut off at once, and its durable is gone",
        "notices.outage": (
            "without NATS, at the start, for long, for good, all else works; notices wait and follow in order"
        ),
        "notices.restored-database": (
            "beside an older database nothing is published twice, and nothing new is taken for a copy"
        ),
        "restore.hive": (
            "on an older database a hive knows its readers and tokens, and says which agents were forgotten"
        ),
        "notices.restored-stream": "a lost or older stream goes on with all that is new, in order",
    },
    "spec 5, storage": {
        "shared.rows": "two brokers give no id twice, put no row into two hands, know of each other's acks",
        "shared.keys": "one key used at both at the same moment has one effect, and one answer",
        "shared.limits": "full inboxes and fast pairs are refused at the same message as by one broker",
        "shared.rights": "a token or permission taken away at one is gone at the other's next request",
        "shared.streams": "daemons, and who waits for jobs, hear at once what was done at the other broker",
        "shared.jobs": "a job is claimed once over both",
        "shared.notices": (
            "one of them publishes, in order and each once; another takes over within 10 s when it is killed "
            "or frozen"
        ),
        "shared.kills": "kills of the brokers and of PostgreSQL lose, double and reorder nothing",
        "shared.outages": (
            "what is said of a server that is restarted, cut off or silent is true: nothing was stored, or "
            "nobody knows; all goes on by itself"
        ),
    },
    "spec 6, todos": {
        "todos.unique": "a subsystem and a key have one todo, whose id stays and is never used again",
        "todos.revision": "a new or changed summary gives a new revision, the same again changes nothing",
        "todos.null-absent": "a field that is null is as one that is absent",
        "todos.event-once": "an event_id seen before changes nothing, also after its todo was cleared",
        "todos.limits": "too long a field, too many open todos, are clear errors, and nothing is lost",
        "todos.broker-down": "todos and the whole in-agent socket work while the broker is down",
        "todos.durable": "what was answered is there after a kill at any moment",
        "todos.done": "mark_todos_done clears by id, unknown and done ids are skipped",
        "todos.mirrored": "hivectl todos shows them, bounded, also while the agent is down, and says how old",
        "compact.refused": "compact is refused with the reason where no turn has filled the context",
        "socket.state": "state answers what /api/state does",
        "socket.graceful-stop": "graceful_stop without a turn loop is answered and ends the daemon at once",
    },
    "spec 6, waking": {
        "wake.level": "a wait answers as long as something is due, however often it is asked, and why",
        "wake.handled": "what was handled before the wake could be served does not wake",
        "wake.busy": "what comes while a turn runs wakes when it is over",
        "wake.unchanged": "a todo that says nothing new wakes nobody; one wake lists all that are open",
        "wake.rebuilt": "after a restart of daemon or broker what waits is due again, by itself",
        "wake.pushed": "the broker tells the daemon how many messages wait at connect and at each change",
        "wake.wait": "GET /api/wait: bearer, cap 30 s, bounded, ends with its caller and with the daemon",
    },
    "issue 4, delivery state": {
        "sent.state": "a sender sees how its message stands, how often it was handed out, and its recipient",
        "sent.operator": "the operator sees what they, or an agent, sent and nobody acked, and any message",
        "sent.loose-end": "a message that an agent lets wait for an hour is a loose end of its sender",
        "sent.command": "hivectl inbox sent lists what waits, and shows a single message",
    },
    "spec 5, retention": {
        "retention.acked-only": "only messages acked so many days ago are removed, no other, and no approval",
        "retention.references": "what refers to a removed message goes on, and its id is never used again",
        "retention.batches": "very many are removed in small batches that messages pass between",
    },
    "spec 5, per-agent socket": {
        "core-socket.wake": "wake at mcp.sock puts {from: label, to: agent, body} into that agent's inbox",
        "core-socket.labels": "a label that imitates operator, system or an agent is refused",
        "core-socket.keyed": "a repeat under its idempotency_key stores nothing twice",
        "core-socket.follows": "sockets are made and removed as agents come and go, across lives of a name",
        "wake.command": "hivectl wake puts a message from a label into an agent's inbox",
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
    "spec 5, system messages": {
        "notices.crash-message": "a crash puts ContainerCrash into the root agent's inbox",
        "system.needs-update": (
            "NeedsUpdate comes to the root agent once for each pair of another revision and the broker's own"
        ),
    },
}

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
    name: Requirement(source, text) for source, rows in _BY_SOURCE.items() for name, text in rows.items()
}
