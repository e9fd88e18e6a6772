"""How answers in prose are worded. Pure functions of wire models; the formats are contract."""

from __future__ import annotations

from shared.prose import age, count, fence, one_line
from shared.wire.messages import AckResult, Message, SendResult, Sent
from shared.wire.names import OPERATOR

MAX_LISTED_IDS = 20


def render_send(result: SendResult) -> str:
    """`#12 to iris: queued; iris is stopped`, a line a recipient."""
    return "\n".join(f"#{sent.id} to {sent.to}: {_standing(sent)}" for sent in result.sent)


def _standing(sent: Sent) -> str:
    if sent.to == OPERATOR:
        return "queued; the operator reads it when they look"
    return f"queued; {sent.to} is {sent.recipient_state}"


def render_message(message: Message, *, body: str, nonce: str, now: int, note: str | None) -> str:
    """One row: `[msg #12] from iris, 3 min ago, urgent, in reply to #9`, then the fenced body.

    What a reminder made says so: `[msg #12] from iris (reminder #7), 3 min ago`.

    Transient rows (id 0) carry no marker, for there is nothing to ack.
    """
    marker = f"[msg #{message.id}] " if message.id else ""
    facts = [f"{marker}from {one_line(message.sender, limit=64)}{_made_by(message)}"]
    facts.append(age(now - message.sent_at))
    if message.urgent:
        facts.append("urgent")
    if message.in_reply_to is not None:
        facts.append(f"in reply to #{message.in_reply_to}")
    if message.delivered_count > 1:
        facts.append(f"handed out {message.delivered_count} times")
    lines = [", ".join(facts), fence(body, nonce)]
    return "\n".join([*lines, note] if note else lines)


def _made_by(message: Message) -> str:
    if message.origin is None:
        return ""
    kind, _, number = one_line(message.origin, limit=40).partition(":")
    return f" ({kind} #{number})" if number else f" ({kind})"


def render_ack(result: AckResult, up_to: int) -> str:
    """How many rows were acked, and which stayed pending because nobody saw them."""
    text = f"Acked {count(result.acked, 'message')} up to #{up_to}."
    if not result.stayed_count:
        return text
    ids = ", ".join(f"#{row}" for row in result.stayed[:MAX_LISTED_IDS])
    more = result.stayed_count - min(len(result.stayed), MAX_LISTED_IDS)
    rest = f" and {more} more" if more > 0 else ""
    return f"{text} Still pending, overtaken unseen by an urgent message: {ids}{rest}. Call recv for them."
