"""What `up` was asked for, and the plan that follows from it and from what is on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from services.hivectl.nats_config import find_nats_server
from services.hivectl.provision import (
    BUILT_SURFACES,
    NATS_PREFIX,
    ForeignNats,
    HiveSettings,
    NatsFiles,
    check_nats_url,
    describe_foreign_nats,
    ensure_embedded_nats,
    ensure_hive_files,
    find_settings,
    hive_lock,
    list_blocks,
    save_settings,
    write_hive_file,
)
from services.hivectl.supervisor.listeners import Listeners, check_port_free
from services.hivectl.supervisor.units import HivePlan
from shared.errors import InvalidInput, Misconfigured
from shared.layout import HiveLayout, PortPlan, check_socket_path
from shared.wire.names import ROOT_AGENT, AgentName, HiveName

# What `--nats-url` takes besides a URL: the hive's own server again.
EMBEDDED = "embedded"
_NATS_URL = f"{NATS_PREFIX}URL"


class UpRequest(BaseModel):
    """The arguments of `up` that make a difference to the hive; None where the caller said nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    root: Path
    agents: tuple[AgentName, ...] = ()
    port_base: int | None = None
    nats_url: str | None = None
    hive_name: HiveName | None = None

    @property
    def layout(self) -> HiveLayout:
        return HiveLayout(self.root)


def build_request(
    *, root: Path, agents: tuple[str, ...], port_base: int | None, nats_url: str | None, hive_name: str | None
) -> UpRequest:
    """Check the arguments.

    Raises:
        InvalidInput: naming the argument and the rule.
    """
    if nats_url not in {None, EMBEDDED}:
        try:
            check_nats_url(str(nats_url), what="--nats-url")
        except Misconfigured as exc:
            raise InvalidInput(exc.message) from exc
    if not _is_utf8(root):
        raise InvalidInput(f"the root {str(root)!r} must be UTF-8; name another with --root or HIVE_ROOT")
    try:
        # Files are never written through a symbolic link, so a linked root is followed once, here.
        return UpRequest(
            root=root.expanduser().resolve(),
            agents=agents,
            port_base=port_base,
            nats_url=nats_url,
            hive_name=hive_name,
        )
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        option = {"agents": "--agent", "hive_name": "--hive-name"}.get(
            str(first["loc"][0]), str(first["loc"][0])
        )
        reason = str(first["msg"]).removeprefix("Value error, ")
        raise InvalidInput(f"{option} {first['input']!r} {reason}") from exc


def _is_utf8(path: Path) -> bool:
    """Whether the files that name it, which are UTF-8, can hold it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def settle_plan(request: UpRequest, environ: Mapping[str, str] = os.environ) -> tuple[HivePlan, Listeners]:
    """Answer all questions, bind all sockets, write the files that the units read. Starts nothing.

    What the caller says wins over `HIVE_*` settings, those over what the last `up` kept, that over defaults.

    Raises:
        InvalidInput: for a port base without room for agents.
        Misconfigured: when a port is taken, a path is too long, a program is missing or a setting wrong.
    """
    layout = request.layout
    for name in (ROOT_AGENT, *request.agents):
        check_socket_path(layout.agent(name).agent_socket)
    kept = find_settings(layout) or HiveSettings()
    settings = _settle_settings(request, environ, kept)
    foreign = _settle_nats(request, environ, kept)
    program = None if foreign else find_nats_server(_given_program(environ))
    blocks = list_blocks(layout, kept.ports)
    missing = {*request.agents, *([] if blocks else [ROOT_AGENT])} - set(blocks)
    listeners = _bind(settings.ports, blocks, new_agents=len(missing), with_nats=foreign is None)
    # A server that only the environment names is for this run.
    is_kept = request.nats_url is not None or not environ.get(_NATS_URL)
    keep = foreign if is_kept else kept.nats
    nats = _write_files(layout, settings.model_copy(update={"nats": keep}), foreign)
    return HivePlan(layout, settings, nats, program, dict(environ)), listeners


def prepare_files(
    request: UpRequest, environ: Mapping[str, str] = os.environ
) -> tuple[HiveSettings, NatsFiles]:
    """Write the files that the units read, for a hive whose units somebody else starts. Binds nothing.

    Of the environment only the hive's name counts: a server elsewhere must be named by the caller.

    Raises:
        Misconfigured: when the root cannot be written.
    """
    layout = request.layout
    ensure_hive_files(layout)
    kept = find_settings(layout) or HiveSettings()
    settings = _settle_settings(request, environ, kept)
    foreign = _settle_nats(request, {}, kept)
    settings = settings.model_copy(update={"nats": foreign})
    return settings, _write_files(layout, settings, foreign)


def _settle_nats(request: UpRequest, environ: Mapping[str, str], kept: HiveSettings) -> ForeignNats | None:
    """Which server somebody else runs for us, if one does.

    Credentials that the caller names win over those that were kept with the same URL.
    """
    if request.nats_url == EMBEDDED:
        return None
    known = kept.nats.broker_settings() if kept.nats else {}
    url = request.nats_url or environ.get(_NATS_URL) or known.get(_NATS_URL)
    if not url:
        return None
    given = {name: value for name, value in environ.items() if name.startswith(NATS_PREFIX) and value}
    values = (known if url == known.get(_NATS_URL) else {}) | given | {_NATS_URL: url}
    check_nats_url(url, what=_NATS_URL)
    return ForeignNats.model_validate(
        {name.removeprefix(NATS_PREFIX).lower(): value for name, value in values.items()}
    )


def _write_files(layout: HiveLayout, settings: HiveSettings, foreign: ForeignNats | None) -> NatsFiles:
    with hive_lock(layout):
        save_settings(layout, settings)
        nats = (
            describe_foreign_nats(layout, settings, foreign)
            if foreign
            else ensure_embedded_nats(layout, settings)
        )
        write_hive_file(layout, settings.ports, nats.part)
    return nats


def _settle_settings(request: UpRequest, environ: Mapping[str, str], kept: HiveSettings) -> HiveSettings:
    name = request.hive_name or environ.get("HIVE_BROKER_HIVE_NAME") or kept.hive_name
    base = kept.port_base if request.port_base is None else request.port_base
    try:
        return HiveSettings(port_base=base, hive_name=name, nats=kept.nats)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        reason = str(first["msg"]).removeprefix("Value error, ")
        if first["loc"] == ("port_base",):
            raise InvalidInput(f"--port-base: {reason}") from exc
        # An argument was checked with the others.
        raise Misconfigured(f"HIVE_BROKER_HIVE_NAME: {reason}") from exc


def _given_program(environ: Mapping[str, str]) -> Path | None:
    given = environ.get("NATS_SERVER_BIN")
    return Path(given).expanduser().absolute() if given else None


def _bind(ports: PortPlan, blocks: Mapping[str, int], *, new_agents: int, with_nats: bool) -> Listeners:
    """Bind what is known, and try what new agents are going to get: the lowest blocks that are free."""
    listeners = Listeners()
    try:
        listeners.bind(ports.broker, "broker")
        if with_nats:
            check_port_free(ports.nats, "nats")
        for name, block in blocks.items():
            for surface in BUILT_SURFACES:
                listeners.bind(ports.surface(block, surface), f"{surface}-{name}")
        free = [number for number in range(len(blocks) + new_agents) if number not in blocks.values()]
        for block in free[:new_agents]:
            for surface in BUILT_SURFACES:
                check_port_free(ports.surface(block, surface), f"{surface} of a new agent")
    except BaseException:
        listeners.close_all()
        raise
    return listeners
