"""The broker and NATS, asked as the operator and as a reader of notices would."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from services.hivectl.bus import NoticeBus, ReaderLogin
from services.hivectl.client import OperatorClient
from services.hivectl.doctor.check import Check, error, passed, warning
from services.hivectl.hive_file import HiveFile, NatsPart, read_secret
from services.hivectl.nats_config.server import MIN_VERSION
from shared.errors import HiveError, Misconfigured, Unauthenticated, Unavailable
from shared.revision import revision
from shared.wire.agents import Agent, HiveInfo
from shared.wire.notices import NoticeReader

MANY_WAITING = 100
# A healthy broker answers in milliseconds; one that hangs must not hold up the rest.
TIMEOUT_SECONDS = 5.0
_RESTART = "`hivectl down`, then `hivectl up`"


@dataclass
class BrokerState:
    """What the broker said of itself; empty while it is down."""

    checks: list[Check] = field(default_factory=list)
    answered: bool = False
    agents: list[Agent] = field(default_factory=list)
    readers: list[NoticeReader] = field(default_factory=list)


def ask_broker(hive: HiveFile, *, is_nats_ours: bool) -> BrokerState:
    """Whether it is ready, takes the operator's credential, and stands well with NATS and the supervisor."""
    state = BrokerState()
    try:
        token = read_secret(hive.broker.operator_token_file)
        with OperatorClient(hive.broker.url, token, timeout_seconds=TIMEOUT_SECONDS) as client:
            ready = client.is_ready()
            info = client.get_hive()
            state.agents = client.list_agents()
            state.readers = client.list_notice_readers()
    except Unauthenticated:
        mend = f"its broker is another hive's, or {hive.broker.operator_token_file} was replaced; {_RESTART}"
        state.checks.append(error("broker", f"{hive.broker.url} refuses the operator's credential", mend))
        return state
    except HiveError as exc:
        mend = "start it with `hivectl up`" if isinstance(exc, Unavailable) else _RESTART
        state.checks.append(error("broker", exc.message, mend))
        return state
    state.answered = True
    if ready:
        state.checks.append(passed("broker", f"{info.hive_name} is ready at {hive.broker.url}"))
    else:
        state.checks.append(
            error(
                "broker",
                f"{hive.broker.url} answers, but is not ready",
                "its log in the root's logs/ says why",
            )
        )
    state.checks += [
        _check_revision(info),
        _check_driver(info),
        _check_parked(info),
        *_check_relay(info, is_nats_ours=is_nats_ours),
    ]
    return state


def _check_revision(info: HiveInfo) -> Check:
    ours = revision()
    if info.revision == ours:
        return passed("broker.revision", ours)
    return warning("broker.revision", f"the broker runs {info.revision}, installed is {ours}", _RESTART)


def _check_driver(info: HiveInfo) -> Check:
    if info.driver_connected:
        return passed("supervisor", "connected to the broker")
    return error("supervisor", "none is connected: agents are neither started nor watched", _RESTART)


def _check_parked(info: HiveInfo) -> Check:
    count = info.messages_parked
    if not count:
        return passed("messages.parked", "none")
    detail = f"{count} message{'' if count == 1 else 's'} put aside: the turns that took them failed"
    mend = "`hivectl inbox parked` shows them, `hivectl inbox release ID` hands one out again"
    return warning("messages.parked", detail, mend)


def _check_relay(info: HiveInfo, *, is_nats_ours: bool) -> list[Check]:
    checks = []
    if not info.nats_connected:
        mend = (
            "nats.log in the root's logs/ says why; it is started again by itself"
            if is_nats_ours
            else "start that NATS server, or mend HIVE_BROKER_NATS_*; the broker's log says what it refuses"
        )
        detail = "the broker is not connected to NATS: messages go on, notices wait and follow later"
        checks.append(error("nats.broker", detail, mend))
    elif info.nats_sync_always is None:
        checks.append(
            warning(
                "nats.durability",
                "this NATS server does not say whether it syncs every notice to disk",
                "set `sync_interval: always` in its jetstream block",
            )
        )
    elif not info.nats_sync_always:
        checks.append(
            error(
                "nats.durability",
                "NATS acks notices before they are on disk; power loss loses them",
                "set `sync_interval: always` in its jetstream block and restart it",
            )
        )
    else:
        checks.append(passed("nats.durability", "every notice is on disk before it is acked"))
    detail = f"{info.notices_waiting} not yet in JetStream"
    if info.notices_waiting > MANY_WAITING:
        checks.append(warning("notices.waiting", detail, "the broker's log says what NATS refuses"))
    else:
        checks.append(passed("notices.waiting", detail))
    return checks


def ask_nats(part: NatsPart) -> tuple[list[Check], bool]:
    """Log in and read as the reader of `hive.json`; also whether a NATS server answered at all."""
    name = "nats.reader"
    try:
        version, last = asyncio.run(_read(part))
    except Misconfigured as exc:
        return [error(name, exc.message, _RESTART)], exc.code == "nats_refused"
    except HiveError as exc:
        mend = f"{_RESTART}; logs are in the root's logs/"
        return [error(name, exc.message, mend)], exc.code == "no_stream"
    checks = [
        passed(name, f"{part.reader_user} reads the stream at {part.url}; the last notice is number {last}")
    ]
    words = ".".join(map(str, version))
    if version < MIN_VERSION:
        wanted = ".".join(map(str, MIN_VERSION))
        detail = f"nats-server {words} may lose notices on power loss"
        checks.append(warning("nats.version", detail, f"use {wanted} or newer; `make setup` installs one"))
    else:
        checks.append(passed("nats.version", f"nats-server {words}"))
    return checks, True


async def _read(part: NatsPart) -> tuple[tuple[int, int, int], int]:
    login = ReaderLogin(part.url, part.reader_user, read_secret(part.reader_password_file), part.inbox_prefix)
    async with NoticeBus(login) as bus:
        last = await bus.find_last()
        return bus.server_version, last.sequence if last else 0
