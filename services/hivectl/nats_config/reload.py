"""Has a running server let a reader in that was added to its configuration, or shut one out that is gone.

Speaks the NATS client protocol itself, three lines of it: all it asks is whether the user works.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import anyio

from shared.errors import Unavailable
from shared.wire.notices import inbox_prefix_of

ACTIVATION_SECONDS = 15.0
_ANSWER_SECONDS = 2.0
_PAUSE_SECONDS = 0.1
_HOST = "127.0.0.1"
_QUESTION = "$JS.API.STREAM.NAMES"


async def activate_reader(
    *,
    port: int,
    user: str,
    password: str,
    reload: Callable[[], object],
    within_seconds: float = ACTIVATION_SECONDS,
) -> None:
    """Reload until the reader can log in and is answered, if it is not yet; those who are connected stay so.

    One reload is not enough: nats-server 2.15.1 connects the imports of an account that is new only at the
    reload after the one that brought it (`configureAccounts` in its server.go).

    Args:
        port: of the server.
        user: of the new reader, already in the configuration file.
        password: of the new reader.
        reload: sends the server SIGHUP.
        within_seconds: when to give up.

    Raises:
        Unavailable: when it is not answered in time.
    """
    try:
        with anyio.fail_after(within_seconds):
            with anyio.move_on_after(_ANSWER_SECONDS):
                if await _is_answered(port, user, password):
                    return
            while True:
                reload()
                # A second signal while the first is being handled would be lost: wait for what it brings.
                with anyio.move_on_after(_ANSWER_SECONDS):
                    await _wait_for_login(port, user, password)
                    if await _is_answered(port, user, password):
                        return
                await anyio.sleep(_PAUSE_SECONDS)
    except TimeoutError as exc:
        raise Unavailable(f"nats-server did not take in the reader {user}; restart the hive") from exc


async def shut_out_reader(
    *,
    port: int,
    user: str,
    password: str,
    reload: Callable[[], bool],
    within_seconds: float = ACTIVATION_SECONDS,
) -> None:
    """Reload until the reader is refused; the server ends its connections. One that does not run refuses all.

    Args:
        port: of the server.
        user: of the reader, no longer in the configuration file.
        password: with which it was let in.
        reload: sends the server SIGHUP; says whether there is one.
        within_seconds: when to give up.

    Raises:
        Unavailable: when it is let in after that time.
    """
    try:
        with anyio.fail_after(within_seconds):
            while True:
                is_there = reload()
                with anyio.move_on_after(_ANSWER_SECONDS):
                    if await _is_refused(port, user, password, is_there=is_there):
                        return
    except TimeoutError as exc:
        raise Unavailable(f"nats-server still lets the reader {user} in; restart the hive") from exc


async def _is_refused(port: int, user: str, password: str, *, is_there: bool) -> bool:
    while True:
        heard = await _converse(port, user, password, "", until=("PONG", "-ERR"))
        if "-ERR" in heard or (not heard and not is_there):
            return True
        await anyio.sleep(_PAUSE_SECONDS)


async def _wait_for_login(port: int, user: str, password: str) -> None:
    while True:
        if "PONG" in await _converse(port, user, password, "", until=("PONG", "-ERR")):
            return
        await anyio.sleep(_PAUSE_SECONDS)


async def _is_answered(port: int, user: str, password: str) -> bool:
    """Whether a JetStream request gets an answer that is not "503 no responders"."""
    inbox = f"{inbox_prefix_of(user)}.probe"
    question = f"SUB {inbox} 1\r\nPUB {_QUESTION} {inbox} 0\r\n\r\n"
    heard = await _converse(port, user, password, question, until=(" 503", "}\r\n", "-ERR"))
    return "stream_names_response" in heard


async def _converse(port: int, user: str, password: str, question: str, *, until: tuple[str, ...]) -> str:
    """Log in, ask, and return what the server says after its greeting, until one of `until` or the end."""
    options = {
        "user": user,
        "pass": password,
        "verbose": False,
        "pedantic": False,
        "headers": True,
        "no_responders": True,
        "name": "hivectl",
        "lang": "python",
        "version": "1",
    }
    heard = ""
    try:
        async with await anyio.connect_tcp(_HOST, port) as stream:
            while "\r\n" not in heard:
                heard += (await stream.receive()).decode()
            heard = ""
            await stream.send(f"CONNECT {json.dumps(options)}\r\nPING\r\n{question}".encode())
            while not any(mark in heard for mark in until):
                heard += (await stream.receive()).decode()
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
        return heard
    return heard
