"""Grants and revokes readers of notices while the hive runs: a credential at NATS, a durable at the broker.

Every step may be repeated, and so may the whole: a call that was cut off is completed by the next.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from services.hivectl.client import OperatorClient
from services.hivectl.hive_file import read_secret
from services.hivectl.nats_config import ACTIVATION_SECONDS, activate_reader, shut_out_reader
from services.hivectl.provision import (
    NatsPlace,
    add_reader,
    find_nats,
    forget_reader,
    list_readers,
    reader_file,
    withdraw_reader,
)
from services.hivectl.supervisor.children import list_running, signal_child
from services.hivectl.supervisor.instance import is_running
from shared.errors import HiveError, NotFound, Unavailable
from shared.layout import HiveLayout
from shared.wire.notices import NoticeReader, inbox_prefix_of, reader_identity

# The broker makes a durable at once, unless it is just about to connect to NATS.
DURABLE_SECONDS = 5.0
# A server that was killed is back by then; one that does not start is not waited for.
RESTART_SECONDS = 3.0
ANSWER_SECONDS = 1.0
_SERVER = "nats"
_PAUSE_SECONDS = 0.1
_RELOAD_BY_HAND = (
    "have nats-server read its configuration anew, twice (`systemctl reload hive-nats`), then repeat this"
)

Note = Callable[[str], None]


@dataclass(frozen=True)
class Reader:
    """All that a program needs to read notices. `password_file` is None where there is no credential."""

    name: str
    url: str | None
    user: str
    password_file: Path | None
    inbox_prefix: str
    durable: str
    ready: bool

    def as_json(self) -> dict[str, Any]:
        """The fields of the contract."""
        file = None if self.password_file is None else str(self.password_file)
        return {**self.__dict__, "password_file": file}


def grant_reader(layout: HiveLayout, client: OperatorClient, name: str, *, note: Note) -> Reader:
    """Give a reader its credential and its durable; who has them gets the same again.

    Args:
        layout: of the hive.
        client: the broker's.
        name: of the reader.
        note: takes what the operator should know when the reader is not ready.

    Raises:
        Unavailable: when the broker is down; nothing was changed.
        Conflict: when NATS is somebody else's to configure; says what to do.
    """
    client.get_hive()
    file = add_reader(layout, name)
    place = find_nats(layout)
    problem = _take_in(layout, place, name)
    granted = _wait_for_durable(client, name, patient=problem is None)
    if problem is None and not granted.ready:
        problem = "the broker is not connected to NATS; it makes the durable when it is"
    if problem is not None:
        note(f"{name} is granted and cannot read yet: {problem}")
    return Reader(
        name, place.url, granted.durable, file, granted.inbox_prefix, granted.durable, problem is None
    )


def revoke_reader(layout: HiveLayout, client: OperatorClient, name: str, *, note: Note) -> None:
    """End a reader's credential and whoever is connected with it, then have its durable removed.

    Raises:
        Unavailable: when the broker is down; nothing was changed.
        NotFound: when there is no such reader.
        HiveError: when NATS still lets it in, or the durable could not be removed; a repeat goes on there.
    """
    client.get_hive()
    place = find_nats(layout)
    password = withdraw_reader(layout, name)
    if not place.is_embedded:
        note(f"whoever runs the NATS server must end the user {reader_identity(place.hive_name, name)} there")
    elif password is not None:
        _shut_out(layout, place, name, password)
    try:
        client.revoke_reader(name)
    except HiveError as exc:
        if password is None:
            raise
        if not isinstance(exc, NotFound):
            raise HiveError(
                f"{name} is let in no more, but its durable is still there: {exc.message}; repeat this",
                code="durable_left",
            ) from exc
    forget_reader(layout, name)


def show_readers(layout: HiveLayout, client: OperatorClient) -> list[Reader]:
    """All readers that have a credential here or a durable at the broker, by name."""
    place = find_nats(layout)
    known = {reader.name: reader for reader in client.list_notice_readers()}
    credentials = set(list_readers(layout))
    return [
        _show(layout, place, name, known.get(name), has_credential=name in credentials)
        for name in sorted({*known, *credentials})
    ]


def _show(
    layout: HiveLayout, place: NatsPlace, name: str, known: NoticeReader | None, *, has_credential: bool
) -> Reader:
    identity = reader_identity(place.hive_name, name)
    return Reader(
        name=name,
        url=place.url,
        user=identity,
        password_file=reader_file(layout, name) if has_credential else None,
        inbox_prefix=inbox_prefix_of(identity),
        durable=identity,
        ready=has_credential and known is not None and known.ready,
    )


def _take_in(layout: HiveLayout, place: NatsPlace, name: str) -> str | None:
    """Have the server know the reader; what is in the way, where something is."""
    if not place.is_embedded:
        return None
    try:
        _talk_to_server(activate_reader, layout, place, name, read_secret(reader_file(layout, name)))
    except Unavailable:
        if is_running(layout):
            return "nats-server does not answer; it can when that is back"
        return _RELOAD_BY_HAND
    return None


def _shut_out(layout: HiveLayout, place: NatsPlace, name: str, password: str) -> None:
    try:
        _talk_to_server(shut_out_reader, layout, place, name, password)
    except Unavailable as exc:
        what_to_do = exc.message if is_running(layout) else f"{name} is still let in: {_RELOAD_BY_HAND}"
        raise HiveError(what_to_do, code="still_let_in") from exc


def _talk_to_server(
    talk: Callable[..., Awaitable[None]], layout: HiveLayout, place: NatsPlace, name: str, password: str
) -> None:
    talk_now = partial(
        talk,
        port=place.port,
        user=reader_identity(place.hive_name, name),
        password=password,
        reload=partial(signal_child, layout, _SERVER, signal.SIGHUP),
        within_seconds=_get_patience(layout),
    )
    anyio.run(talk_now)


def _get_patience(layout: HiveLayout) -> float:
    if not is_running(layout):
        # Whoever started the server has to signal it: there is nothing to wait for but its answer.
        return ANSWER_SECONDS
    is_there = any(child.name == _SERVER for child in list_running(layout))
    return ACTIVATION_SECONDS if is_there else RESTART_SECONDS


def _wait_for_durable(client: OperatorClient, name: str, *, patient: bool) -> NoticeReader:
    deadline = time.monotonic() + DURABLE_SECONDS
    while True:
        granted = client.grant_reader(name)
        if granted.ready or not patient or time.monotonic() > deadline:
            return granted
        time.sleep(_PAUSE_SECONDS)
