"""What an agent's tools do, and who may call them."""

from __future__ import annotations

ROWS: dict[str, dict[str, str]] = {
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
        "loose-ends.tasks": "running tasks are counted by surface, also while that surface is down",
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
        "schedules.consumed": "an edit of a single one that fired meanwhile is cancelled or for later",
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
}
