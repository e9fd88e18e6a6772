"""The text of the embedded NATS server's configuration. Writes nothing.

Why the accounts are laid out so: docs/adr/0006-one-credential-and-one-durable-per-reader.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from shared.errors import Misconfigured
from shared.wire.names import check_hive_name
from shared.wire.notices import STREAM, SUBJECT_ROOT, inbox_prefix_of, reader_identity

BROKER_USER = "broker"
SYS_USER = "sys"
VARZ_SUBJECT = "$SYS.REQ.SERVER.PING.VARZ"

PASSWORD = re.compile(r"[A-Za-z0-9_-]{16,128}")
# A fetch that has waited longer gets no notice any more; the server's own limit would be 2 minutes.
_MAX_FETCH_WAIT = "30m"
_ALL = f"{SUBJECT_ROOT}.>"


def render_config(
    *,
    port: int,
    http: int | None,
    store_dir: Path,
    server_name: str,
    hive: str,
    broker_password: str,
    sys_password: str,
    readers: Mapping[str, str],
) -> str:
    """The configuration of a server on loopback for one hive; holds passwords, so write it with mode 0600.

    Args:
        port: where it listens.
        http: port of the unauthenticated monitoring pages, or None for no such pages.
        store_dir: where JetStream keeps its files.
        server_name: how it calls itself in its log.
        hive: whose notices the broker may publish.
        broker_password: of user `broker`.
        sys_password: of user `sys`, who may ask for the server's settings and nothing else.
        readers: name and password of each reader of notices.

    Raises:
        ValueError: for a hive or reader name that is none.
        Misconfigured: for a password that is no token of 16 to 128 of `[A-Za-z0-9_-]`.
    """
    check_hive_name(hive)
    lines = [
        f"server_name: {json.dumps(server_name)}",
        f'listen: "127.0.0.1:{port}"',
        *([f'http: "127.0.0.1:{http}"'] if http is not None else []),
        "max_payload: 256KB",
        "max_connections: 1024",
        "jetstream {",
        f"  store_dir: {json.dumps(str(store_dir))}",
        "  max_memory_store: 64MB",
        "  max_file_store: 2GB",
        # Acks before fsync lose what a power cut takes; by default fsync runs every two minutes.
        "  sync_interval: always",
        "}",
        "system_account: SYS",
        "accounts {",
        "  SYS { users: [",
        _user(SYS_USER, sys_password, publish=[VARZ_SUBJECT], subscribe=[]),
        "  ] }",
        *_broker_account(hive, broker_password, readers),
        *_void_account(hive, readers),
        *(line for name, password in readers.items() for line in _reader_account(hive, name, password)),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _broker_account(hive: str, password: str, readers: Mapping[str, str]) -> Iterator[str]:
    own = f"{SUBJECT_ROOT}.{hive}.>"
    publish = [
        own,
        f"$JS.API.STREAM.INFO.{STREAM}",
        f"$JS.API.STREAM.CREATE.{STREAM}",
        f"$JS.API.STREAM.UPDATE.{STREAM}",
        f"$JS.API.CONSUMER.INFO.{STREAM}.*",
        f"$JS.API.CONSUMER.CREATE.{STREAM}.*.{own}",
        f"$JS.API.CONSUMER.DELETE.{STREAM}.*",
        f"$JS.API.DIRECT.GET.{STREAM}",
        f"$JS.API.DIRECT.GET.{STREAM}.{own}",
    ]
    yield "  HIVE {"
    yield "    jetstream: enabled"
    yield "    users: ["
    yield _user(BROKER_USER, password, publish=publish, subscribe=[])
    yield "    ]"
    yield "    exports: ["
    everyone = [reader_identity(hive, name) for name in readers]
    if everyone:
        yield f"      {{ stream: {json.dumps(_ALL)}, accounts: {json.dumps(everyone)} }}"
        yield from (_service(subject, everyone) for subject in _SHARED)
    for name in readers:
        identity = reader_identity(hive, name)
        yield from (_service(subject, [identity]) for subject in _own_subjects(identity))
    yield "    ]"
    yield "  }"


def _void_account(hive: str, readers: Mapping[str, str]) -> Iterator[str]:
    """An account in which nobody is: what a reader must not reach leads here."""
    everyone = json.dumps([reader_identity(hive, name) for name in readers])
    exports = f'{{ service: "void.>", accounts: {everyone} }}' if readers else ""
    yield f"  VOID {{ exports: [ {exports} ] }}"


def _reader_account(hive: str, name: str, password: str) -> Iterator[str]:
    check_hive_name(name)
    identity = reader_identity(hive, name)
    subjects = [*_SHARED, *_own_subjects(identity)]
    yield f"  {json.dumps(identity)} {{"
    yield "    users: ["
    yield _user(identity, password, publish=subjects, subscribe=[_ALL])
    yield "    ]"
    # A reply subject of the reader's choice: no answer may come in as if it were a notice.
    yield f'    mappings: {{ {json.dumps(_ALL)}: "refused.{_ALL}" }}'
    yield "    imports: ["
    yield f"      {{ stream: {{ account: HIVE, subject: {json.dumps(_ALL)} }} }}"
    yield from (f"      {{ service: {{ account: HIVE, subject: {json.dumps(s)} }} }}" for s in subjects)
    # Else the server imports this from itself, and answers each request a second time: no JetStream here.
    yield '      { service: { account: VOID, subject: "void.>" }, to: "$JS.API.>" }'
    yield "    ]"
    yield "  }"


_SHARED = (
    f"$JS.API.STREAM.INFO.{STREAM}",
    "$JS.API.STREAM.NAMES",
    f"$JS.API.DIRECT.GET.{STREAM}",
    f"$JS.API.DIRECT.GET.{STREAM}.>",
)


def _own_subjects(identity: str) -> list[str]:
    return [
        f"$JS.API.CONSUMER.INFO.{STREAM}.{identity}",
        f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{identity}",
        f"$JS.ACK.{STREAM}.{identity}.>",
    ]


def _service(subject: str, accounts: list[str]) -> str:
    # A batch, or a notice and then the end of the wait: one request, many answers.
    options = "response: stream, " if ".DIRECT.GET." in subject or ".MSG.NEXT." in subject else ""
    if ".MSG.NEXT." in subject:
        options += f'response_threshold: "{_MAX_FETCH_WAIT}", '
    return f"      {{ service: {json.dumps(subject)}, {options}accounts: {json.dumps(accounts)} }}"


def _user(name: str, password: str, *, publish: list[str], subscribe: list[str]) -> str:
    if not PASSWORD.fullmatch(password):
        raise Misconfigured(f"the NATS password of {name} must be 16 to 128 of A-Z, a-z, 0-9, '_' and '-'")
    inbox = f"{inbox_prefix_of(name)}.>"
    return (
        f"      {{ user: {json.dumps(name)}, password: {json.dumps(password)}, permissions: {{ "
        f"publish: {{ allow: {json.dumps(publish)} }}, "
        f"subscribe: {{ allow: {json.dumps([*subscribe, inbox])} }} }} }}"
    )
