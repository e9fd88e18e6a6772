"""What the broker says is on its way or was held up: notices, parked messages, refused sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from services.hivectl.doctor.check import Check, error, passed, warning
from shared.wire.agents import HiveInfo
from shared.wire.refusals import Refusal

MANY_WAITING = 100
# A notice is out in milliseconds; JetStream forgets after this long what it has already.
LATE_SECONDS = 60
HOUR_SECONDS = 3600
# What ends chatter between agents, as opposed to a mistake of one of them.
BREAKERS = frozenset({"too_many_hops", "pair_too_fast", "inbox_full"})
_SHOWN = 5


def check_waiting(info: HiveInfo, now: float) -> Check:
    """The outbox: how much, and for how long already."""
    name = "notices.waiting"
    count, since = info.notices_waiting, info.notices_oldest_at
    age = max(0, int(now - since)) if count and since is not None else 0
    detail = f"{count} not yet in JetStream" + (f", the oldest for {age} s" if age else "")
    if count > MANY_WAITING or age > LATE_SECONDS:
        return warning(
            name, detail, "they wait for NATS, see nats.broker; the broker's log says what NATS refuses"
        )
    return passed(name, detail)


def check_parked(info: HiveInfo) -> Check:
    """Messages that no turn could deal with."""
    name = "messages.parked"
    count = info.messages_parked
    if not count:
        return passed(name, "none")
    detail = f"{count} message{'' if count == 1 else 's'} put aside: the turns that took them failed"
    mend = "`hivectl inbox parked` shows them, `hivectl inbox release ID` hands one out again"
    return warning(name, detail, mend)


def check_refused(refusals: Iterable[Refusal], now: float) -> Check:
    """Whether agents ran into a breaker within the last hour."""
    name = "messages.refused"
    counts: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    for row in refusals:
        if row.code in BREAKERS and now - row.last_at < HOUR_SECONDS:
            counts[row.code] += row.count
            pairs[f"{row.sender} to {row.recipient}"] += row.count
    if not counts:
        return passed(name, "no limit was met within the last hour")
    codes = ", ".join(f"{count} times {code}" for code, count in counts.most_common())
    worst = ", ".join(pair for pair, _ in pairs.most_common(_SHOWN))
    mend = "`hivectl audit` shows each; a message of yours to the agent lifts a limit"
    return warning(name, f"within the last hour {codes} ({worst})", mend)


def check_relay(info: HiveInfo, *, is_nats_ours: bool) -> list[Check]:
    """Whether the broker reaches NATS, and that keeps what it acks."""
    if not info.nats_connected:
        mend = (
            "nats.log in the root's logs/ says why; it is started again by itself"
            if is_nats_ours
            else "start that NATS server, or mend HIVE_BROKER_NATS_*; the broker's log says what it refuses"
        )
        detail = "the broker is not connected to NATS: messages go on, notices wait and follow later"
        return [error("nats.broker", detail, mend)]
    return [passed("nats.broker", "the broker is connected to NATS"), _check_durability(info)]


def _check_durability(info: HiveInfo) -> Check:
    name = "nats.durability"
    if info.nats_sync_always is None:
        detail = "this NATS server does not say whether it syncs every notice to disk"
        return warning(name, detail, "set `sync_interval: always` in its jetstream block")
    if not info.nats_sync_always:
        detail = "NATS acks notices before they are on disk; power loss loses them"
        return error(name, detail, "set `sync_interval: always` in its jetstream block and restart it")
    return passed(name, "every notice is on disk before it is acked")
