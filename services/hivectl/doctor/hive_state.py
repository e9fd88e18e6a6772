"""The broker and NATS, asked as the operator and as a reader of notices would."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from services.hivectl.bus import NoticeBus
from services.hivectl.client import OperatorClient
from services.hivectl.doctor.check import Check, error, passed, warning
from services.hivectl.doctor.clock import check_difference
from services.hivectl.doctor.flow import check_parked, check_refused, check_relay, check_waiting
from services.hivectl.doctor.versions import check_revision
from services.hivectl.hive_file import HiveFile, NatsPart, read_secret
from services.hivectl.nats_config.server import MIN_VERSION
from services.hivectl.notice_login import read_login
from shared.errors import HiveError, Misconfigured, Unauthenticated, Unavailable
from shared.layout import HiveLayout
from shared.wire.agents import Agent, HiveInfo
from shared.wire.notices import NoticeReader
from shared.wire.refusals import Refusal, RefusalQuery

# A healthy broker answers in milliseconds; one that hangs must not hold up the rest.
TIMEOUT_SECONDS = 5.0
_RESTART = "`hivectl down`, then `hivectl up`"
# All that is kept.
_REFUSALS = RefusalQuery(limit=1000)


@dataclass
class BrokerState:
    """What the broker said of itself; empty while it is down."""

    checks: list[Check] = field(default_factory=list)
    answered: bool = False
    agents: list[Agent] = field(default_factory=list)
    readers: list[NoticeReader] = field(default_factory=list)
    newest_at: int | None = None


@dataclass(frozen=True)
class NatsState:
    """What NATS said; `answered` says whether one answered at all, also when it refused us."""

    checks: list[Check]
    answered: bool
    newest_at: float | None = None


def ask_broker(hive: HiveFile, *, is_nats_ours: bool, clock: Callable[[], float] = time.time) -> BrokerState:
    """Whether it is ready, takes the operator's credential, and stands well with NATS and the supervisor."""
    state = BrokerState()
    try:
        token = read_secret(hive.broker.operator_token_file)
        with OperatorClient(hive.broker.url, token, timeout_seconds=TIMEOUT_SECONDS) as client:
            ready = client.is_ready()
            begun = clock()
            info = client.get_hive()
            asked = (begun, clock())
            state.agents = client.list_agents()
            state.readers = client.list_notice_readers()
            refusals = client.list_refusals(_REFUSALS).refusals
    except Unauthenticated:
        mend = f"its broker is another hive's, or {hive.broker.operator_token_file} was replaced; {_RESTART}"
        state.checks.append(error("broker", f"{hive.broker.url} refuses the operator's credential", mend))
        return state
    except HiveError as exc:
        mend = "start it with `hivectl up`" if isinstance(exc, Unavailable) else _RESTART
        state.checks.append(error("broker", exc.message, mend))
        return state
    state.answered, state.newest_at = True, info.newest_at
    state.checks = [
        _check_ready(hive.broker.url, info, ready=ready),
        *_describe(info, refusals, asked, is_nats_ours=is_nats_ours),
    ]
    return state


def _check_ready(url: str, info: HiveInfo, *, ready: bool) -> Check:
    if ready:
        return passed("broker", f"{info.hive_name} is ready at {url}")
    return error("broker", f"{url} answers, but is not ready", "its log in the root's logs/ says why")


def _describe(
    info: HiveInfo, refusals: list[Refusal], asked: tuple[float, float], *, is_nats_ours: bool
) -> list[Check]:
    return [
        check_revision("broker.revision", "the broker", info.revision),
        check_driver(info),
        check_difference("clock.broker", "the broker", info.clock_at, asked),
        check_parked(info),
        check_refused(refusals, asked[1]),
        *check_relay(info, is_nats_ours=is_nats_ours),
        check_waiting(info, asked[1]),
    ]


def check_driver(info: HiveInfo) -> Check:
    """Whether somebody starts and watches agents."""
    if info.driver_connected:
        return passed("supervisor", "connected to the broker")
    return error("supervisor", "none is connected: agents are neither started nor watched", _RESTART)


def ask_nats(
    layout: HiveLayout, part: NatsPart, *, is_ours: bool, clock: Callable[[], float] = time.time
) -> NatsState:
    """Log in and read as the reader of `hive.json`."""
    name = "nats.reader"
    try:
        answer = asyncio.run(_read(layout, part, clock))
    except HiveError as exc:
        mend = _RESTART if isinstance(exc, Misconfigured) else f"{_RESTART}; logs are in the root's logs/"
        if not is_ours:
            # What the hive starts and stops is not what is missing.
            mend = str(exc.details.get("mend", "see nats.broker, and the broker's log"))
        detail = str(exc.details.get("what", exc.message))
        return NatsState([error(name, detail, mend)], exc.code in {"nats_refused", "no_stream"})
    detail = f"{part.reader_user} reads the stream at {part.url}; the last notice is number {answer.sequence}"
    checks = [
        passed(name, detail),
        check_nats_version(answer.version, is_ours=is_ours),
        check_difference("clock.nats", "NATS", answer.clock_at, answer.asked),
    ]
    return NatsState(checks, answered=True, newest_at=answer.newest_at)


@dataclass(frozen=True)
class _Answer:
    version: tuple[int, int, int]
    sequence: int
    newest_at: float | None
    clock_at: float | None
    asked: tuple[float, float]


async def _read(layout: HiveLayout, part: NatsPart, clock: Callable[[], float]) -> _Answer:
    async with NoticeBus(read_login(layout, part)) as bus:
        last = await bus.find_last()
        begun = clock()
        clock_at = await bus.find_clock()
        return _Answer(
            bus.server_version,
            last.sequence if last else 0,
            last.stored_at if last else None,
            clock_at,
            (begun, clock()),
        )


def check_nats_version(version: tuple[int, int, int], *, is_ours: bool) -> Check:
    """Whether the server keeps what it acks over a power cut."""
    words = ".".join(map(str, version))
    if version >= MIN_VERSION:
        return passed("nats.version", f"nats-server {words}")
    wanted = ".".join(map(str, MIN_VERSION))
    detail = f"nats-server {words} may lose notices on power loss"
    mend = f"use {wanted} or newer" + ("; `make setup` installs one" if is_ours else " there")
    return warning("nats.version", detail, mend)
