"""A small HTTP/1.1 load generator on raw connections: a client library would cost more than what it measures.

Bounded by count and by time. Knows keep-alive, Content-Length and chunked bodies; nothing else.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

CONNECT_SECONDS = 5.0

MakeRequest = Callable[[], bytes]


@dataclass(frozen=True)
class Target:
    """Where requests go, and the headers they all have."""

    url: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, url: str, token: str) -> Target:
        """A target behind a bearer token."""
        return cls(url, {"Authorization": f"Bearer {token}"})

    def encode(self, method: str, path: str, body: object = None, **extra: str) -> bytes:
        """The bytes of one request; header names come from `extra` with `_` for `-`."""
        payload = b"" if body is None else json.dumps(body).encode()
        headers = {"Host": urlsplit(self.url).netloc, **self.headers}
        headers |= {name.replace("_", "-"): value for name, value in extra.items()}
        if body is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(payload))}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + payload


@dataclass(frozen=True)
class Sample:
    """What one measurement found. Latencies are of single requests, in milliseconds."""

    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float


async def measure(
    target: Target, make: MakeRequest, *, connections: int, max_requests: int, max_seconds: float
) -> Sample:
    """Send requests over `connections` at a time until one of the bounds is reached.

    Raises:
        RuntimeError: when an answer is not 2xx, or says `isError`, with its first bytes.
    """
    latencies: list[float] = []
    budget = iter(range(max_requests))
    # Made before: what making them costs is not the server's.
    requests = [make() for _ in range(max_requests)]
    gc.collect()
    gc.disable()
    began = time.perf_counter()

    async def work() -> None:
        reader, writer = await connect(target)
        try:
            for number in budget:
                sent = time.perf_counter()
                if sent - began > max_seconds:
                    return
                writer.write(requests[number])
                await read_answer(reader)
                latencies.append(time.perf_counter() - sent)
        finally:
            writer.close()

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(connections):
                tasks.create_task(work())
        seconds = time.perf_counter() - began
    finally:
        gc.enable()
    p50, p99 = percentiles(latencies)
    return Sample(len(latencies), round(len(latencies) / seconds, 1), p50, p99)


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """The median and the 99th percentile, in milliseconds."""
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return round(ordered[len(ordered) // 2] * 1000, 3), round(p99 * 1000, 3)


async def ask(target: Target, request: bytes) -> bytes:
    """Send one request on a connection of its own; the body of its answer."""
    reader, writer = await connect(target)
    try:
        writer.write(request)
        return await read_answer(reader)
    finally:
        writer.close()


async def connect(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A new connection to the target."""
    parts = urlsplit(target.url)
    async with asyncio.timeout(CONNECT_SECONDS):
        return await asyncio.open_connection(parts.hostname, parts.port)


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    """The body of the next answer, which must be a good one."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"transfer-encoding: chunked" in head:
        body = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readexactly(2)
    else:
        length = head.partition(b"content-length:")[2].split(b"\r\n")[0]
        body = await reader.readexactly(int(length or b"0"))
    if not head.startswith(b"http/1.1 2") or b'"isError":true' in body:
        status = head.split(b"\r\n")[0]
        raise RuntimeError(f"{status.decode()}: {body[:300].decode(errors='replace')}")
    return body
