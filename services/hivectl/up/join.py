"""A repeated `up`: what runs is left alone, agents that were named are made and started besides."""

from __future__ import annotations

import time

from services.hivectl.client import OperatorClient
from services.hivectl.hive_file import read_hive_file, read_secret
from services.hivectl.job import poll_job, queue_job
from services.hivectl.provision import (
    HiveSettings,
    add_agent,
    describe_nats,
    ensure_agents,
    find_settings,
    hive_lock,
    is_hive_file_right,
    write_hive_file,
)
from services.hivectl.supervisor.bring_up import StartReport
from services.hivectl.supervisor.console import Console
from services.hivectl.supervisor.instance import Instance, find_instance, is_running
from services.hivectl.supervisor.request import EMBEDDED, UpRequest
from shared.errors import Conflict, Misconfigured, Unavailable
from shared.layout import HiveLayout
from shared.wire.lifecycle import Job, JobKind, JobState

JOIN_SECONDS = 60.0
# As long as `down` waits.
DOWN_SECONDS = 180.0
_POLL_SECONDS = 0.1
_JOB_POLL_SECONDS = 5


def join_running(request: UpRequest, console: Console) -> StartReport | None:
    """Wait until the hive that runs is ready, and see to the named agents; None when it has ended meanwhile.

    Raises:
        Conflict: when it runs with other settings than the caller asks for.
        Unavailable: when it is neither ready nor down in time.
    """
    layout = request.layout
    instance = find_instance(layout)
    if instance is not None and instance.stopping:
        console.say(f"waiting until the hive in {layout.root} is down (supervisor {instance.pid})")
        _wait_until_down(layout)
        return None
    console.say(
        f"a hive runs in {layout.root} already" + (f" (supervisor {instance.pid})" if instance else "")
    )
    client = _wait_for_driver(layout)
    if client is None:
        return None
    with client:
        _check_same(request, client, instance)
        missing, damaged = _list_missing(request, client)
        jobs = [queue_job(client, name, JobKind.START, say=console.say) for name in missing]
        ended = [_wait_for(client, job) for job in jobs]
        running = tuple(agent.name for agent in client.list_agents() if agent.running)
    failed = damaged | {job.agent: job.error for job in ended if job.state is JobState.FAILED}
    return StartReport(running, tuple(f"{name} did not start: {why}" for name, why in failed.items()))


def _list_missing(request: UpRequest, client: OperatorClient) -> tuple[list[str], dict[str, str | None]]:
    """The named agents that do not run, and what is wrong with those whose files are damaged.

    Those that do not exist are made, and the files of the others completed.
    """
    ports = (find_settings(request.layout) or HiveSettings()).ports
    agents = {agent.name: agent for agent in client.list_agents()}
    missing: list[str] = []
    damaged: dict[str, str | None] = {}
    for name in dict.fromkeys(request.agents):
        if name in agents and agents[name].running:
            continue
        try:
            if name in agents:
                failed = ensure_agents(request.layout, client, ports, [agents[name]])
                damaged |= {name: exc.message for name, exc in failed.items()}
            else:
                add_agent(request.layout, client, ports, name)
        except Misconfigured as exc:
            damaged[name] = exc.message
        if name not in damaged:
            missing.append(name)
    return missing, damaged


def _wait_until_down(layout: HiveLayout) -> None:
    deadline = time.monotonic() + DOWN_SECONDS
    while is_running(layout):
        if time.monotonic() > deadline:
            raise Unavailable(
                f"the hive in {layout.root} has been going down for long; `hivectl down --now` ends it"
            )
        time.sleep(_POLL_SECONDS)


def _wait_for_driver(layout: HiveLayout) -> OperatorClient | None:
    """A client of the running hive, which may be starting yet; None when it has ended."""
    deadline = time.monotonic() + JOIN_SECONDS
    while time.monotonic() < deadline:
        if not is_running(layout):
            return None
        if (client := _find_client(layout)) is not None:
            return client
        _mend_hive_file(layout)
        time.sleep(_POLL_SECONDS)
    raise Unavailable(
        f"the hive in {layout.root} does not become ready; look into {layout.logs_dir}, "
        "or end it with `hivectl down` and try again"
    )


def _find_client(layout: HiveLayout) -> OperatorClient | None:
    try:
        broker = read_hive_file(layout).broker
        client = OperatorClient(broker.url, read_secret(broker.operator_token_file))
        if client.get_hive().driver_connected:
            return client
    except (Unavailable, Misconfigured):
        pass
    return None


def _mend_hive_file(layout: HiveLayout) -> None:
    """Write `hive.json` anew when it was lost or damaged under a hive that runs."""
    with hive_lock(layout):
        instance = find_instance(layout)
        if instance is None or not instance.settled or is_hive_file_right(layout):
            return
        settings = find_settings(layout) or HiveSettings()
        write_hive_file(layout, settings.ports, describe_nats(layout, settings, instance.nats_url))


def _check_same(request: UpRequest, client: OperatorClient, instance: Instance | None) -> None:
    kept = find_settings(request.layout) or HiveSettings()
    pairs = (
        ("--nats-url", (instance and instance.nats_url) or EMBEDDED, request.nats_url),
        ("--port-base", kept.port_base, request.port_base),
        ("--hive-name", client.get_hive().hive_name, request.hive_name),
    )
    differs = [f"{option} {now}, not {wanted}" for option, now, wanted in pairs if wanted not in {None, now}]
    if differs:
        raise Conflict(f"the hive that runs has {' and '.join(differs)}; end it first with `hivectl down`")


def _wait_for(client: OperatorClient, job: Job) -> Job:
    while job.state not in {JobState.DONE, JobState.FAILED}:
        job = poll_job(client, job.id, wait_seconds=_JOB_POLL_SECONDS)
    return job
