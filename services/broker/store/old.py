"""Messages that were acked long ago: removed, a few at a time. No other row is ever touched here."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, func, literal_column, select

from services.broker.store.prepared import Prepared
from services.broker.tables import messages
from shared.wire.messages import MessageState

# In the order of the acks, which is about that of the rows: a batch lies on few pages.
_OLDEST = (
    select(messages.c.id)
    .where(
        messages.c.acked_at < bindparam("before"),
        messages.c.state == literal_column(f"'{MessageState.ACKED.value}'"),
    )
    .order_by(messages.c.acked_at, messages.c.id)
    .limit(bindparam("at_most"))
)
_SIZES = Prepared(_OLDEST.with_only_columns(func.length(messages.c.body)), ["chars"])
_DELETE = Prepared(delete(messages).where(messages.c.id.in_(_OLDEST)))


class OldMessages:
    """Removes acked messages.

    The writer's memory needs not hear of it: it counts what waits, and these do not.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def delete(self, *, acked_before: int, limit: int, chars: int) -> int:
        """Remove up to `limit`, those acked first, of little more than `chars` characters; returns how many.

        They leave the index of words too, which takes as long as they are. Their ids are never used again.
        """
        count = size = 0
        for row in _SIZES.all(self._connection, before=acked_before, at_most=limit):
            count, size = count + 1, size + row.chars
            if size >= chars:
                break
        return _DELETE.run(self._connection, before=acked_before, at_most=count) if count else 0
