"""HTTP calls to the broker with deadlines, safe retries and honest errors; knows no route.

Below `BrokerClient`, above httpx2. Foreign exceptions end here.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
import httpx2
from pydantic import BaseModel, ValidationError

from shared.errors import HiveError, OutcomeUnknown, Unauthenticated, Unavailable, error_from_wire
from shared.runtime.credential import TokenFile
from shared.runtime.ids import new_ulid
from shared.runtime.log import get_logger, request_id

# How long an old token may still be refused while a rotation writes the new one.
ROTATION_SECONDS = 2.0
_CONNECT_SECONDS = 3.0
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
_MAX_LINE_BYTES = 1_048_576

R = TypeVar("R", bound=BaseModel)
log = get_logger()


@dataclass(frozen=True)
class Call:
    """One request that is safe to repeat, by its nature or by its key.

    `unsure` is set on changes: what to tell the caller when it may have taken effect unseen.
    """

    method: str
    path: str
    body: BaseModel | None = None
    key: str | None = None
    unsure: str | None = None
    query: Mapping[str, str] = field(default_factory=dict)


class _Retry(Exception):
    """This attempt failed in a way that another one may mend."""


class _Attempts:
    """Whether any request of one call may have been acted on without our knowing."""

    def __init__(self) -> None:
        self._left = False
        self._lost = False

    async def trace(self, event: str, _info: Mapping[str, Any]) -> None:
        """Hear from httpcore: once a request's first byte leaves, the broker may act on it."""
        if event.endswith("send_request_headers.started"):
            self._left = True

    def begin(self) -> None:
        """Note that a request is made; one before it that got no answer stays lost."""
        self._lost = self.unsure
        self._left = False

    def nothing_done(self) -> None:
        """Note an answer which says that this request had no effect."""
        self._left = False

    @property
    def unsure(self) -> bool:
        return self._lost or self._left


class Link:
    """A connection pool to one broker under one credential."""

    def __init__(
        self, url: str, token_file: TokenFile, *, agent_header: str, deadline_seconds: float
    ) -> None:
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
            headers={"User-Agent": agent_header, "Accept": "application/json"},
            limits=httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=30),
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def ask(self, call: Call, result: type[R]) -> R:
        """Make a call and parse its answer.

        Raises:
            HiveError: see `BrokerClient`.
        """
        response = await self._run(call)
        try:
            return result.model_validate_json(response.content)
        except ValidationError as exc:
            raise self._not_understood(call, response) from exc

    async def tell(self, call: Call) -> None:
        """Make a call whose answer has no body."""
        await self._run(call)

    async def _run(self, call: Call) -> httpx2.Response:
        """Repeat until answered, or until the deadline."""
        attempts = _Attempts()
        pause = _FIRST_PAUSE_SECONDS
        with anyio.move_on_after(self._deadline_seconds):
            while True:
                try:
                    return await self._attempt(call, attempts)
                except _Retry as exc:
                    log.debug("broker_call_repeated", path=call.path, reason=str(exc))
                # Jitter, so that all daemons of a hive do not knock in step when the broker is back.
                await anyio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        if attempts.unsure and call.unsure:
            details = {"idempotency_key": call.key} if call.key else {}
            raise OutcomeUnknown(
                f"the broker at {self.url} did not answer within {self._deadline_seconds:g} s; {call.unsure}",
                details=details,
            )
        raise self._unreachable()

    async def _attempt(self, call: Call, attempts: _Attempts) -> httpx2.Response:
        """One request, and those that follow a 401 while the token may just be changing hands.

        Raises:
            _Retry: when the broker is away.
            HiveError: what the broker answered.
        """
        response = await self._request(call, attempts)
        if response.status_code == 401:
            response = await self._retry_as_rotated(call, attempts, response)
        if 200 <= response.status_code < 300:
            return response
        error = _find_error(response)
        # 503 by the broker itself: it says that nothing was done. By anything else: it is being restarted.
        if response.status_code in (502, 503, 504):
            if response.status_code == 503 and error is not None:
                attempts.nothing_done()
            raise _Retry(f"status {response.status_code}")
        raise error or self._not_understood(call, response)

    async def _retry_as_rotated(
        self, call: Call, attempts: _Attempts, response: httpx2.Response
    ) -> httpx2.Response:
        attempts.nothing_done()
        with anyio.move_on_after(ROTATION_SECONDS):
            while response.status_code == 401:
                await anyio.sleep(0.1)
                response = await self._request(call, attempts)
                if response.status_code == 401:
                    attempts.nothing_done()
        if response.status_code == 401:
            raise Unauthenticated(
                f"the broker at {self.url} does not accept the token in {self._token_file.path}; if it was "
                "rotated or the agent was destroyed, the operator must write a new one: "
                "hivectl token rotate NAME"
            )
        return response

    async def _request(self, call: Call, attempts: _Attempts) -> httpx2.Response:
        request = self._build(call, httpx2.Timeout(self._deadline_seconds, connect=_CONNECT_SECONDS))
        request.extensions["trace"] = attempts.trace
        attempts.begin()
        try:
            return await self._http.send(request)
        except httpx2.HTTPError as exc:
            raise _Retry(type(exc).__name__) from exc

    def _build(self, call: Call, timeout: httpx2.Timeout) -> httpx2.Request:
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
        return self._http.build_request(
            call.method,
            self.url + call.path,
            params=dict(call.query) or None,
            content=content,
            headers=headers,
            timeout=timeout,
        )

    async def stream_lines(self, call: Call, *, silence_seconds: float) -> AsyncIterator[bytes]:
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
                async for line in _split_lines(response.aiter_bytes()):
                    yield line
            finally:
                await response.aclose()
        except httpx2.ReadTimeout as exc:
            raise Unavailable(f"the broker at {self.url} said nothing for {silence_seconds:g} s") from exc
        except httpx2.HTTPError as exc:
            raise self._unreachable() from exc

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
    return error_from_wire(response.status_code, body)


async def _split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    buffer = b""
    async for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
        if len(buffer) > _MAX_LINE_BYTES:
            raise Unavailable("the broker sent a line without an end; the stream is given up")
