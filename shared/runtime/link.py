"""HTTP to the broker with deadlines, safe retries and honest errors; knows no route.

Below `BrokerClient`, above httpx2, whose exceptions end here.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TypeVar

import anyio
import httpx2
from pydantic import BaseModel, ValidationError

from shared.errors import (
    HiveError,
    InvalidInput,
    OutcomeUnknown,
    Unauthenticated,
    Unavailable,
    error_from_wire,
)
from shared.runtime.backoff import Backoff
from shared.runtime.calls import Attempts, Call, TryAgain
from shared.runtime.credential import TokenFile
from shared.runtime.ids import new_ulid
from shared.runtime.log import get_logger, request_id

# How long a token may be refused while a rotation is under way.
ROTATION_SECONDS = 2.0
_CONNECT_SECONDS = 3.0
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
_MAX_LINE_BYTES = 1_048_576
_MAX_DIGITS = 7
_TRANSIENT = frozenset({502, 503, 504})

R = TypeVar("R", bound=BaseModel)
log = get_logger()


class Link:
    """A connection pool to one broker under one credential."""

    def __init__(self, url: str, token_file: TokenFile, *, program: str, deadline_seconds: float) -> None:
        self.url = url.rstrip("/")
        self._token_file = token_file
        self._deadline_seconds = deadline_seconds
        # Loading the system's certificates costs 20 ms and some MB that a loopback URL has no use for.
        # The empty context trusts nobody, so it fails closed.
        verify = True if self.url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._http = httpx2.AsyncClient(
            verify=verify,
            # Proxies and .netrc of the environment must not get to see tokens.
            trust_env=False,
            follow_redirects=False,
            headers={"User-Agent": program, "Accept": "application/json"},
            limits=httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=30),
        )

    async def aclose(self) -> None:
        """Close all connections; later calls are `Unavailable`."""
        await self._http.aclose()

    async def ask(self, call: Call, result: type[R]) -> R:
        """Make a call and parse its answer."""
        response = await self._run(call)
        try:
            return result.model_validate_json(response.content)
        except ValidationError as exc:
            raise self._not_understood(call, response) from exc

    async def tell(self, call: Call) -> None:
        """Make a call whose answer has no body."""
        await self._run(call)

    async def stream_lines(self, call: Call, *, silence_seconds: float) -> AsyncGenerator[bytes, None]:
        """Open a stream of lines; one attempt, ends with the broker's stream.

        Raises:
            Unavailable: when the broker is away, breaks the stream off, or is silent for too long.
            HiveError: what the broker answered instead of a stream.
        """
        request = self._build(call, httpx2.Timeout(silence_seconds, connect=_CONNECT_SECONDS))
        try:
            response = await self._http.send(request, stream=True)
            try:
                if response.status_code != 200:
                    await response.aread()
                    raise _find_error(response) or self._not_understood(call, response)
                async with aclosing(_split_lines(response.aiter_bytes())) as lines:
                    async for line in lines:
                        yield line
            finally:
                await response.aclose()
        except httpx2.ReadTimeout as exc:
            raise Unavailable(f"the broker at {self.url} said nothing for {silence_seconds:g} s") from exc
        except httpx2.HTTPError as exc:
            raise self._unreachable() from exc

    async def _run(self, call: Call) -> httpx2.Response:
        """Repeat until answered, or until the deadline."""
        attempts = Attempts()
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        answer: HiveError | None = None
        with anyio.move_on_after(self._deadline_seconds):
            while True:
                try:
                    return await self._attempt(call, attempts)
                except TryAgain as exc:
                    answer = exc.answer
                    log.debug("broker_call_repeated", path=call.path, reason=str(exc))
                await anyio.sleep(backoff.next())
        if attempts.unsure and call.unsure:
            raise OutcomeUnknown(
                f"the broker at {self.url} did not answer within {self._deadline_seconds:g} s; {call.unsure}",
                details={"idempotency_key": call.key} if call.key else {},
            )
        raise answer or self._unreachable()

    async def _attempt(self, call: Call, attempts: Attempts) -> httpx2.Response:
        """One request, and those that follow a 401 while the token may just be changing hands.

        Raises:
            TryAgain: when the broker is away.
            HiveError: what the broker answered.
        """
        response = await self._request(call, attempts)
        if response.status_code == 401:
            response = await self._ask_again_as_rotated(call, attempts, response)
        if response.is_success:
            return response
        error = _find_error(response)
        if response.status_code in _TRANSIENT:
            # The broker's own 503 says that nothing was done; a gateway's says nothing of the kind.
            if isinstance(error, Unavailable):
                attempts.nothing_done()
            raise TryAgain(f"status {response.status_code}", error)
        raise error or self._not_understood(call, response)

    async def _ask_again_as_rotated(
        self, call: Call, attempts: Attempts, response: httpx2.Response
    ) -> httpx2.Response:
        pause = _FIRST_PAUSE_SECONDS
        attempts.nothing_done()
        with anyio.move_on_after(ROTATION_SECONDS):
            while response.status_code == 401:
                await anyio.sleep(pause)
                pause *= 2
                response = await self._request(call, attempts)
                if response.status_code == 401:
                    attempts.nothing_done()
        if response.status_code == 401:
            raise Unauthenticated(
                f"the broker at {self.url} does not accept the token in {self._token_file.path}; "
                "the operator can write a new one (hivectl token rotate NAME), unless the agent was destroyed"
            )
        return response

    async def _request(self, call: Call, attempts: Attempts) -> httpx2.Response:
        request = self._build(call, httpx2.Timeout(self._deadline_seconds, connect=_CONNECT_SECONDS))
        request.extensions["trace"] = attempts.trace
        attempts.begin()
        try:
            return await self._http.send(request)
        except httpx2.HTTPError as exc:
            raise TryAgain(type(exc).__name__) from exc

    def _build(self, call: Call, timeout: httpx2.Timeout) -> httpx2.Request:
        """The request under the token as it is now."""
        if self._http.is_closed:
            raise Unavailable("this daemon is stopping; try again in a moment")
        headers = {
            "Authorization": f"Bearer {self._token_file.current()}",
            "X-Request-Id": request_id.get() or new_ulid(),
        }
        content = None
        if call.body is not None:
            headers["Content-Type"] = "application/json"
            content = call.body.model_dump_json(exclude_none=True).encode()
        if call.key is not None:
            headers["Idempotency-Key"] = call.key
        try:
            return self._http.build_request(
                call.method,
                self.url + call.path,
                params=dict(call.query) or None,
                content=content,
                headers=headers,
                timeout=timeout,
            )
        except UnicodeEncodeError as exc:
            raise InvalidInput("contains half a surrogate pair; send valid Unicode") from exc

    def _unreachable(self) -> Unavailable:
        return Unavailable(
            f"the broker is not reachable at {self.url}; nothing was changed. "
            "It is tried anew with every call: try again later"
        )

    def _not_understood(self, call: Call, response: httpx2.Response) -> HiveError:
        text = f"what answers at {self.url} is not a broker this version understands"
        log.error("broker_answer_not_understood", path=call.path, status=response.status_code)
        if call.unsure and response.is_success:
            return OutcomeUnknown(f"{text}; {call.unsure}")
        return Unavailable(f"{text} (status {response.status_code}); check HIVE_URL and both versions")


def _find_error(response: httpx2.Response) -> HiveError | None:
    """The error a broker answered, or None when the answer is not in a broker's shape."""
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not isinstance(body.get("code"), str):
        return None
    error = error_from_wire(response.status_code, body)
    # Also what a proxy in between has set; a date instead of seconds is not worth reading.
    after = response.headers.get("Retry-After", "")
    if after.isdecimal() and len(after) < _MAX_DIGITS:
        error.details.setdefault("retry_after_seconds", int(after))
    return error


async def _split_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    buffer = b""
    async for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
        if len(buffer) > _MAX_LINE_BYTES:
            raise Unavailable("the broker sent a line without an end; the stream is given up")
