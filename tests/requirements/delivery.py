"""What becomes of messages, reminders, todos, wakes and notices, whatever dies meanwhile."""

from __future__ import annotations

ROWS: dict[str, dict[str, str]] = {
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
        "planning.operator-cancels": "the operator ends any schedule or reminder with what waits of it, once",
        "planning.operator-sees": "the operator sees what is planned, of all agents or of one",
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
        "todos.paged": "a list of very long todos comes in pages that say how many are left",
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
    "spec 5, system messages": {
        "notices.crash-message": "a crash puts ContainerCrash into the root agent's inbox",
        "system.needs-update": (
            "NeedsUpdate comes to the root agent once for each pair of another revision and the broker's own"
        ),
    },
}
