"""Composition root of the broker: the only place where its objects are wired."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI

from services.broker.agent_sockets import AgentSockets
from services.broker.bus import NoticeBus, build_login
from services.broker.config import Settings
from services.broker.routes.agent import AgentRoutes
from services.broker.routes.approvals import ApprovalRoutes
from services.broker.routes.control import ControlRoutes
from services.broker.routes.driver import DriverRoutes
from services.broker.routes.mail import MailRoutes
from services.broker.routes.operator import OperatorRoutes
from services.broker.routes.quick import QuickRoutes
from services.broker.routes.reminders import ReminderRoutes
from services.broker.routes.review import ReviewRoutes
from services.broker.routes.schedules import ScheduleRoutes
from services.broker.routes.search import SearchRoutes
from services.broker.routes.tasks import TaskRoutes
from services.broker.service.access import AccessService
from services.broker.service.agents import AgentService
from services.broker.service.approvals import ApprovalService, DueDeadlines
from services.broker.service.asking import Asking
from services.broker.service.callers import Authenticator
from services.broker.service.clock import Clock, wall_clock
from services.broker.service.control import ControlService
from services.broker.service.due import AtStep, DueWorker, Plan, no_step
from services.broker.service.firing import DueHeldFires, DueSchedules, Firing
from services.broker.service.hive import HiveService
from services.broker.service.housekeeping import Housekeeping
from services.broker.service.hub import ControlHub
from services.broker.service.idempotency import AnswerMeter
from services.broker.service.identity import HiveIdentity
from services.broker.service.inbox import InboxService
from services.broker.service.indexing import Indexing
from services.broker.service.intake import Intake
from services.broker.service.levels import InboxLevels
from services.broker.service.lifecycle import LifecycleService
from services.broker.service.limits import Limits
from services.broker.service.loose_ends import LooseEndService
from services.broker.service.messages import MessageService
from services.broker.service.mirror import StreamMirror
from services.broker.service.notices import NoticeWriter, Relay
from services.broker.service.parking import ParkingService
from services.broker.service.readers import ReaderService
from services.broker.service.refusals import RefusalLog
from services.broker.service.reminders import DueReminders, ReminderService
from services.broker.service.retention import Retention
from services.broker.service.revisions import Revisions
from services.broker.service.schedules import ScheduleService
from services.broker.service.search import SearchService
from services.broker.service.sent import SentService
from services.broker.service.settling import Settling
from services.broker.service.startup import working
from services.broker.service.status import StatusService
from services.broker.service.tasks import TaskService
from services.broker.service.todos import TodoReview
from services.broker.service.transitions import Transitions
from services.broker.service.unknown_sends import UnknownSendLog
from services.broker.service.wakes import WakeService
from services.broker.store import Store
from shared.revision import revision
from shared.runtime.credential import TokenFile, new_token
from shared.runtime.files import make_private_dir, write_private
from shared.runtime.http import create_http_app

# How long a stop waits for the last notices while NATS is there.
DRAIN_SECONDS = 3.0


def create_app(settings: Settings, *, clock: Clock = wall_clock, at_step: AtStep = no_step) -> FastAPI:
    """Wire the broker. Makes its directories and, if there is none, the operator's token; opens nothing yet.

    `at_step` is called between the steps of what falls due, for tests that end the process there.
    `app.state.stop()` ends all open streams and waits; call it when a stop begins.
    """
    operator = _prepare_files(settings)
    identity = HiveIdentity(settings.hive_name, settings.swarm_name, settings.domain, revision())
    limits = Limits(settings.max_pending, settings.max_hops, settings.pair_per_minute)
    store = Store(settings.database)
    hub = ControlHub()
    callers = Authenticator(store, is_operator=operator.accepts, clock=clock)
    refusals = RefusalLog(store, clock=clock)
    answers = AnswerMeter()
    intake = Intake(store, hub, refusals, answers, limits, clock)
    messages = MessageService(intake)
    sent = SentService(store, hub)
    inbox = InboxService(store, refusals, answers=answers, clock=clock)
    agents = AgentService(store, hub, identity=identity, max_agents=settings.max_agents, clock=clock)
    waking = _Waking(store, hub, settings, agents, WakeService(intake))
    access = AccessService(
        store,
        hub,
        on_tokens_changed=callers.forget,
        check_path=settings.layout.find_overlap,
        clock=clock,
    )

    bus = _build_bus(settings)
    relay = Relay(store, bus)
    notices = NoticeWriter(settings.hive_name, clock=clock, on_commit=relay.wake)
    readers = ReaderService(store, bus, hive=settings.hive_name, clock=clock)
    unknown = UnknownSendLog(store, refusals)
    reports = _Reports(store, hub, unknown, waking.levels, notices, deployed=identity.revision, clock=clock)

    def forget_agent(agent_id: int) -> None:
        callers.forget()
        hub.close_agent(agent_id)
        waking.sockets.look()

    transitions = Transitions(
        append_notice=notices.append,
        on_destroyed=forget_agent,
        is_connected=lambda agent_id: hub.find_boot(agent_id, "hyperhive") is not None,
    )
    lifecycle = LifecycleService(store, transitions=transitions, clock=clock)
    indexing = Indexing(store)
    planning = _Planning(store, hub, settings, limits, answers, clock=clock, at_step=at_step)
    hive = HiveService(store, identity=identity, nats=bus, driver=lifecycle, clock=clock)

    def stop() -> None:
        hub.close()
        lifecycle.close()
        planning.approvals.close()

    runs = (
        Housekeeping(store, clock=clock, answers=answers).run,
        indexing.run,
        Retention(store, kept_days=settings.messages_kept_days, clock=clock).run,
        bus.run,
        relay.run,
        readers.run,
        refusals.run,
        StreamMirror(store, hub).run,
        reports.revisions.run,
        reports.tasks.run,
        planning.due.run,
        waking.levels.run,
        waking.sockets.run,
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with working(store, settings.database, runs):
            yield
            stop()
            await relay.drain(DRAIN_SECONDS)
            await refusals.flush()

    app = create_http_app(
        unit="hyperhive broker",
        lifespan=lifespan,
        authenticate=callers.authenticate,
        ready=lambda: store.is_ready,
        shortcut=partial(QuickRoutes, messages=messages, inbox=inbox, agents=agents),
    )
    app.include_router(AgentRoutes(agents, messages, sent, inbox, StatusService(store, clock=clock)).build())
    app.include_router(ControlRoutes(reports.control).build())
    app.include_router(OperatorRoutes(hive, agents, access).build())
    app.include_router(MailRoutes(messages, inbox, waking.wakes).build())
    # Search first: the ids of single messages stand in the same place of the path.
    for router in (
        SearchRoutes(SearchService(store, indexing)).build(),
        TaskRoutes(reports.tasks).build(),
        ReviewRoutes(ParkingService(store), refusals, TodoReview(store, hub), sent).build(),
        *planning.routers,
    ):
        app.include_router(router)
    app.include_router(DriverRoutes(lifecycle, readers).build())
    app.state.stop = stop
    return app


class _Reports:
    """What daemons tell, and what is kept of it."""

    def __init__(
        self,
        store: Store,
        hub: ControlHub,
        unknown: UnknownSendLog,
        levels: InboxLevels,
        notices: NoticeWriter,
        *,
        deployed: str,
        clock: Clock,
    ) -> None:
        self.revisions = Revisions(store, append_notice=notices.append, deployed=deployed, clock=clock)
        self.tasks = TaskService(store, hub, clock=clock)
        self.control = ControlService(
            store, hub, unknown, revisions=self.revisions, levels=levels, tasks=self.tasks, clock=clock
        )


class _Waking:
    """What wakes agents: how many messages wait, and messages from what is no agent."""

    def __init__(
        self, store: Store, hub: ControlHub, settings: Settings, agents: AgentService, wakes: WakeService
    ) -> None:
        self.levels = InboxLevels(store, hub)
        self.wakes = wakes
        self.sockets = AgentSockets(settings.layout, agents, wakes)


class _Planning:
    """What agents plan ahead: who delivers it, and the routes."""

    def __init__(
        self,
        store: Store,
        hub: ControlHub,
        settings: Settings,
        limits: Limits,
        answers: AnswerMeter,
        *,
        clock: Clock,
        at_step: AtStep,
    ) -> None:
        settling = Settling()
        firing = Firing(limits, settling, at_step=at_step)
        plans: list[Plan] = [
            DueDeadlines(settling),
            DueReminders(limits, at_step=at_step),
            DueSchedules(firing),
            DueHeldFires(limits),
        ]
        self.due = DueWorker(store, plans, clock=clock, at_step=at_step)
        reminders = ReminderService(
            store,
            answers=answers,
            max_pending=settings.remind_max_pending_per_agent,
            clock=clock,
            wake=self.due.wake,
        )
        self.approvals = ApprovalService(store, settling, answers=answers, clock=clock, wake=self.due.wake)
        asking = Asking(settling, wake=self.due.wake)
        schedules = ScheduleService(store, asking, firing, answers=answers, clock=clock, wake=self.due.wake)
        families = (
            ReminderRoutes(reminders),
            ApprovalRoutes(self.approvals, LooseEndService(store, hub, clock=clock)),
            ScheduleRoutes(schedules),
        )
        self.routers = [
            router for routes in families for router in (routes.build_agent(), routes.build_operator())
        ]


def _build_bus(settings: Settings) -> NoticeBus:
    login = build_login(
        settings.nats_url,
        user=settings.nats_user,
        password_file=settings.nats_password_file,
        sys_user=settings.nats_sys_user,
        sys_password_file=settings.nats_sys_password_file,
    )
    return NoticeBus(login, hive=settings.hive_name)


def _prepare_files(settings: Settings) -> TokenFile:
    """Make the directories and the operator's token where they are not there yet; answers the token."""
    make_private_dir(settings.root)
    if settings.database_url is None:
        make_private_dir(settings.layout.database.parent)
    if not settings.operator_token.exists():
        make_private_dir(settings.operator_token.parent)
        write_private(settings.operator_token, new_token().encode())
    operator = TokenFile(settings.operator_token)
    operator.current()
    return operator
