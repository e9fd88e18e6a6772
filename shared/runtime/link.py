"""HTTP to the broker with deadlines, safe retries and honest errors; knows no route.

Below `BrokerClient`. Calls go through `exchange`, streams through httpx2, whose exceptions end here.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TypeVar
from urllib.parse import urlencode

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
from shared.runtime.exchange import CONNECT_SECONDS, Answer, NoAnswer, Peer
from shared.runtime.ids import new_ulid
from shared.runtime.log import get_logger, request_id

# How long a token may be refused while a rotation is under way.
ROTATION_SECONDS = 2.0
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
_MAX_LINE_BYTES = 1_048_576
_MAX_DIGITS = 7
_TRANSIENT = frozenset({502, 503, 504})
# So that a URL without TLS fails closed where it leads to one. Made once: it is some 800 KB in each process.
_TRUSTS_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

R = TypeVar("R", bound=BaseModel)
log = get_logger()


class Link:
    """A connection pool to one broker under one credential."""

    def __init__(self, url: str, token_file: TokenFile, *, program: str, deadline_seconds: float) -> None:
        self.url = url.rstrip("/")
        self._token_file = token_file
        self._deadline_seconds = deadline_seconds
        self._program = program
        # Loading the system's certificates costs 20 ms and some MB that a loopback URL has no use for.
        tls = httpx2.create_ssl_context(trust_env=False) if self.url.startswith("https:") else _TRUSTS_NOBODY
        self._peer = Peer(self.url, tls=tls)
        self._http = httpx2.AsyncClient(
            verify=tls,
            # Proxies and .netrc of the environment must not get to see tokens.
            trust_env=False,
            follow_redirects=False,
        )

    async def aclose(self) -> None:
        """Close all connections; later calls are `Unavailable`."""
        self._peer.close()
        await self._http.aclose()

    async def ask(self, call: Call, result: type[R]) -> R:
        """Make a call and parse its answer."""
        answer = await self._run(call)
        try:
            return result.model_validate_json(answer.content)
        except ValidationError as exc:
            raise self._not_understood(call, answer) from exc

    async def tell(self, call: Call) -> None:
        """Make a call whose answer has no body."""
        await self._run(call)

    async def stream_lines(self, call: Call, *, silence_seconds: float) -> AsyncGenerator[bytes, None]:
        """Open a stream of lines; one attempt, ends with the broker's stream.

        Raises:
            Unavailable: when the broker is away, breaks the stream off, or is silent for too long.
            HiveError: what the broker answered instead of a stream.
        """
        headers, content = self._describe(call)
        request = self._http.build_request(
            call.method,
            self.url + call.path,
            content=content,
            headers=headers,
            timeout=httpx2.Timeout(silence_seconds, connect=CONNECT_SECONDS),
        )
        try:
            response = await self._http.send(request, stream=True)
            try:
                if response.status_code != 200:
                    after = response.headers.get("Retry-After", "")
                    answer = Answer(response.status_code, await response.aread(), after)
                    raise _find_error(answer) or self._not_understood(call, answer)
                async with aclosing(_split_lines(response.aiter_bytes())) as lines:
                    async for line in lines:
                        yield line
            finally:
                await response.aclose()
        except httpx2.ReadTimeout as exc:
            raise Unavailable(f"the broker at {self.url} said nothing for {silence_seconds:g} s") from exc
        except httpx2.HTTPError as exc:
            raise self._unreachable() from exc

    async def _run(self, call: Call) -> Answer:
        """Repeat until answered, or until the deadline."""
        attempts = Attempts()
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        refusal: HiveError | None = None
        with anyio.move_on_after(self._deadline_seconds):
            while True:
                try:
                    return await self._attempt(call, attempts)
                except TryAgain as exc:
                    refusal = exc.answer
                    log.debug("broker_call_repeated", path=call.path, reason=str(exc))
                await anyio.sleep(backoff.next())
        if attempts.unsure and call.unsure:
            raise OutcomeUnknown(
                f"the broker at {self.url} did not answer within {self._deadline_seconds:g} s; {call.unsure}",
                details={"idempotency_key": call.key} if call.key else {},
            )
        raise refusal or self._unreachable()

    async def _attempt(self, call: Call, attempts: Attempts) -> Answer:
        """One request, and those that follow a 401 while the token may just be changing hands.

        Raises:
            TryAgain: when the broker is away.
            HiveError: what the broker answered.
        """
        answer = await self._request(call, attempts)
        if answer.status == 401:
            answer = await self._ask_again_as_rotated(call, attempts, answer)
        if answer.is_success:
            return answer
        error = _find_error(answer)
        if answer.status in _TRANSIENT:
            # The broker's own 503 says that nothing was done; a gateway's says nothing of the kind.
            if isinstance(error, Unavailable):
                attempts.nothing_done()
            raise TryAgain(f"status {answer.status}", error)
        raise error or self._not_understood(call, answer)

    async def _ask_again_as_rotated(self, call: Call, attempts: Attempts, answer: Answer) -> Answer:
        pause = _FIRST_PAUSE_SECONDS
        attempts.nothing_done()
        with anyio.move_on_after(ROTATION_SECONDS):
            while answer.status == 401:
                await anyio.sleep(pause)
                pause *= 2
                answer = await self._request(call, attempts)
                if answer.status == 401:
                    attempts.nothing_done()
        if answer.status == 401:
            raise Unauthenticated(
                f"the broker at {self.url} does not accept the token in {self._token_file.path}; "
                "the operator can write a new one (hivectl token rotate NAME), unless the agent was destroyed"
            )
        return answer

    async def _request(self, call: Call, attempts: Attempts) -> Answer:
        headers, content = self._describe(call)
        target = call.path
        try:
            if call.query:
                target += f"?{urlencode(call.query)}"
            request = self._peer.encode(call.method, target, headers, content)
        except UnicodeEncodeError as exc:
            raise InvalidInput("contains half a surrogate pair; send valid Unicode") from exc
        attempts.begin()
        try:
            return await self._peer.ask(request, on_leaving=attempts.left)
        except NoAnswer as exc:
            raise TryAgain(str(exc)) from exc

    def _describe(self, call: Call) -> tuple[dict[str, str], bytes | None]:
        """Headers and body, under the token as it is now."""
        if self._peer.is_closed:
            raise Unavailable("this daemon is stopping; try again in a moment")
        headers = {
            "User-Agent": self._program,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Authorization": f"Bearer {self._token_file.current()}",
            "X-Request-Id": request_id.get() or new_ulid(),
        }
        content = None
        if call.body is not None:
            headers["Content-Type"] = "application/json"
            content = call.body.model_dump_json(exclude_none=True).encode()
        if call.key is not None:
            headers["Idempotency-Key"] = call.key
        return headers, content

    def _unreachable(self) -> Unavailable:
        return Unavailable(
            f"the broker is not reachable at {self.url}; nothing was changed. "
            "It is tried anew with every call: try again later"
        )

    def _not_understood(self, call: Call, answer: Answer) -> HiveError:
        text = f"what answers at {self.url} is not a broker this version understands"
        log.error("broker_answer_not_understood", path=call.path, status=answer.status)
        if call.unsure and answer.is_success:
            return OutcomeUnknown(f"{text}; {call.unsure}")
        return Unavailable(f"{text} (status {answer.status}); check HIVE_URL and both versions")


def _find_error(answer: Answer) -> HiveError | None:
    """The error a broker answered, or None when the answer is not in a broker's shape."""
    try:
        body = json.loads(answer.content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not isinstance(body.get("code"), str):
        return None
    error = error_from_wire(answer.status, body)
    # Also what a proxy in between has set; a date instead of seconds is not worth reading.
    if answer.retry_after.isdecimal() and len(answer.retry_after) < _MAX_DIGITS:
        error.details.setdefault("retry_after_seconds", int(answer.retry_after))
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
