"""What a unit of work sees: one gateway a family of tables, all on the same transaction."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection

from services.broker.store.agents import AgentRows
from services.broker.store.ages import AgeRows
from services.broker.store.approvals import ApprovalRows
from services.broker.store.drivers import DriverRows
from services.broker.store.handed import HandedHops
from services.broker.store.idempotency import IdempotencyRows
from services.broker.store.inbox import InboxRows
from services.broker.store.jobs import JobRows
from services.broker.store.memory import Memory
from services.broker.store.messages import MessageRows
from services.broker.store.news import Item, Topic
from services.broker.store.old import OldMessages
from services.broker.store.outbox import OutboxRows
from services.broker.store.parked import ParkedRows
from services.broker.store.readers import ReaderRows
from services.broker.store.refusals import RefusalRows
from services.broker.store.reminders import ReminderRows
from services.broker.store.schedules import HeldFires, ScheduleRows
from services.broker.store.search import SearchRows
from services.broker.store.sent import SentRows
from services.broker.store.streams import StreamRows
from services.broker.store.tasks import TaskRows
from services.broker.store.todos import TodoRows
from services.broker.store.tokens import TokenRows


class Tx:
    """A transaction, or a part of one; then the next. Holds no state but what to do after the commit.

    Args:
        connection: where it runs.
        memory: the writer's; none where nothing is written.
    """

    def __init__(self, connection: Connection, memory: Memory | None = None) -> None:
        self.connection = connection
        self.hooks: list[Callable[[], None]] = []
        self.news: list[Item] = []
        gauge = None if memory is None else memory.pending
        self.agents = AgentRows(connection, None if memory is None else memory.agents)
        self.ages = AgeRows(connection)
        self.tokens = TokenRows(connection)
        self.messages = MessageRows(connection, gauge)
        self.inbox = InboxRows(connection, gauge)
        self.sent = SentRows(connection)
        self.search = SearchRows(connection)
        self.old_messages = OldMessages(connection)
        self.parked = ParkedRows(connection, gauge)
        self.refusals = RefusalRows(connection)
        self.reminders = ReminderRows(connection)
        self.approvals = ApprovalRows(connection)
        self.schedules = ScheduleRows(connection)
        self.held_fires = HeldFires(connection)
        self.handed = HandedHops(connection, None if memory is None else memory.hops)
        self.idempotency = IdempotencyRows(connection)
        self.jobs = JobRows(connection)
        self.drivers = DriverRows(connection)
        self.outbox = OutboxRows(connection)
        self.readers = ReaderRows(connection)
        self.streams = StreamRows(connection)
        self.tasks = TaskRows(connection)
        self.todos = TodoRows(connection)

    def begin_part(self) -> None:
        """Start anew with what to do after the commit: the next unit of work begins."""
        self.hooks, self.news = [], []

    def on_commit(self, hook: Callable[[], None]) -> None:
        """Have `hook` called in the event loop once this work is committed; never if it is not."""
        self.hooks.append(hook)

    def announce(self, topic: Topic, subject: int | None = None) -> None:
        """Have the other brokers on this database told of `topic` once this work is committed."""
        self.news.append(Item(topic, subject))
