"""The examination: all checks in order, each with what earlier ones found, on a hive in any state."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx2

from services.hivectl.doctor.check import Check, error, warning
from services.hivectl.doctor.clock import check_newest
from services.hivectl.doctor.contents import check_contents
from services.hivectl.doctor.files import check_agent_files, check_hive_files, check_root
from services.hivectl.doctor.hive_state import BrokerState, ask_broker, ask_nats
from services.hivectl.doctor.isolation import check_isolation
from services.hivectl.doctor.machine import check_disk, check_memory
from services.hivectl.doctor.ports import ExpectedPort, check_ports
from services.hivectl.doctor.processes import check_processes
from services.hivectl.doctor.readers import check_readers
from services.hivectl.doctor.surface import check_agent
from services.hivectl.doctor.unconfined import find_unconfined
from services.hivectl.doctor.versions import check_claude, check_packages, check_python, check_sqlite
from services.hivectl.hive_file import HiveFile
from services.hivectl.notice_login import is_nats_ours
from services.hivectl.supervisor.instance import is_running
from shared.errors import Misconfigured
from shared.layout import HiveLayout

_AT_ONCE = 8


def examine(layout: HiveLayout, *, clock: Callable[[], float] = time.time) -> list[Check]:
    """All checks of one hive, as far as each makes sense on what is there."""
    found, usable = check_root(layout)
    checks = [*_check_surroundings(layout), *found]
    if not usable:
        return checks
    up = _is_up(layout)
    checks += check_contents(layout, now=clock())
    found, hive = check_hive_files(layout)
    checks += found
    if hive is None:
        return [*checks, *check_processes(layout, up=up, agents=0)]
    checks += [
        *check_agent_files(layout, hive),
        check_isolation(layout, hive.agents, unconfined=find_unconfined(hive) if up else ()),
    ]
    checks += check_processes(layout, up=up, agents=len(hive.agents))
    is_ours = is_nats_ours(layout)
    broker = ask_broker(hive, is_nats_ours=is_ours, clock=clock)
    checks += [*broker.checks, *check_readers(layout, hive, broker)]
    ports = [ExpectedPort(_port(hive.broker.url), "the broker", answered=broker.answered, wanted=up)]
    stored: dict[str, float | None] = {"message or job": broker.newest_at}
    if hive.nats:
        nats = ask_nats(layout, hive.nats, is_ours=is_ours, clock=clock)
        checks += nats.checks
        stored["notice"] = nats.newest_at
        if _is_local(hive.nats.url):
            port = _port(hive.nats.url)
            ports.append(ExpectedPort(port, "NATS", answered=nats.answered, wanted=up, is_ours=is_ours))
    checks.append(check_newest("clock.stored", stored, clock()))
    found, agent_ports = _check_agents(layout, hive, broker)
    return [*checks, *found, *check_ports([*ports, *agent_ports])]


def _check_surroundings(layout: HiveLayout) -> list[Check]:
    """Everything that needs no hive."""
    programs = [check_python(), check_packages(), check_sqlite(), check_claude()]
    return [*programs, *check_disk(layout.root), check_memory()]


def _check_agents(
    layout: HiveLayout, hive: HiveFile, broker: BrokerState
) -> tuple[list[Check], list[ExpectedPort]]:
    mend = "`hivectl down`, then `hivectl up`, completes them"
    checks = [
        error(f"agent.{agent.name}", "the broker knows it, and its files are missing", mend)
        for agent in broker.agents
        if agent.name not in hive.agents
    ]
    known = {agent.name for agent in broker.agents}
    checks += [
        warning(
            f"agent.{name}",
            "its files are here, and the broker does not know it: its database is older",
            f"`hivectl agent add {name}` makes it anew, with its state; or remove {layout.agent(name).home}",
        )
        for name in hive.agents
        if broker.answered and name not in known
    ]
    complete = [agent for agent in broker.agents if agent.name in hive.agents]
    # Side by side: one that hangs is waited for, and there may be many.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        reports = list(pool.map(lambda one: check_agent(one, layout.agent(one.name).mcp_config), complete))
    checks += [check for found, _ in reports for check in found]
    return checks, [port for _, expected in reports for port in expected]


def _is_up(layout: HiveLayout) -> bool:
    try:
        return is_running(layout)
    except Misconfigured:
        return False  # said already


def _port(url: str) -> int:
    return httpx2.URL(url).port or 0


def _is_local(url: str) -> bool:
    return httpx2.URL(url).host in {"127.0.0.1", "localhost", "::1"}
