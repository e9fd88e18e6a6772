"""Tasks of the bash surface against the same commands started bare: to the end, many at once, much output."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from bench.compare import Bounds, Result
from bench.hive import Hive
from bench.load import Target, ask, connect, measure, percentiles, read_answer
from bench.mcp_calls import MODERN, encode_call

CLIENTS = 16
GIGABYTE = 1_000_000_000
# A third of what is asked for elsewhere: each starts several processes.
_SHARE = 3
_WRITES = f"head -c {GIGABYTE} /dev/zero"


def run(bounds: Bounds, hive: Hive) -> Result:
    """`true` to its end, beside a bare spawn; how many a second at 16 clients; a gigabyte through a task."""
    return asyncio.run(_measure(hive.surface("iris", "bash"), bounds))


async def _measure(bash: Target, bounds: Bounds) -> Result:
    count = max(10, bounds.requests // _SHARE)
    ours: list[float] = []
    bare: list[float] = []
    reader, writer = await connect(bash)

    async def run_true() -> None:
        writer.write(_encode(bash, "true"))
        _check(await read_answer(reader))

    # In turns, and the first of each is the one that starts the process that starts tasks.
    for _ in range(count + 1):
        ours.append(await _time(run_true))
        bare.append(await _time(lambda: _spawn("true")))
    writer.close()
    sample = await measure(
        bash,
        lambda: _encode(bash, "true"),
        connections=CLIENTS,
        max_requests=count,
        max_seconds=bounds.seconds * 2,
    )
    much, plain = await _measure_output(bash)
    (ours_p50, ours_p99), (bare_p50, bare_p99) = percentiles(ours[1:]), percentiles(bare[1:])
    return {
        "run": {"p50_ms": ours_p50, "p99_ms": ours_p99},
        "spawn": {"p50_ms": bare_p50, "p99_ms": bare_p99},
        "ratio": round(ours_p50 / bare_p50, 2),
        "per_second": sample.per_second,
        "output": {
            "task_seconds": round(much, 2),
            "file_seconds": round(plain, 2),
            "ratio": round(much / plain, 2),
        },
    }


async def _measure_output(bash: Target) -> tuple[float, float]:
    """Seconds for a gigabyte: through a task, and into a file."""
    through, into = [], []
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "out"
        for _ in range(3):
            into.append(await _time(lambda: _spawn(f"{_WRITES} > {file}")))
            file.unlink()
            through.append(await _time(lambda: _run_task(bash, _WRITES)))
    return median(through), median(into)


async def _run_task(bash: Target, cmd: str) -> None:
    _check(await ask(bash, _encode(bash, cmd)))


def _encode(bash: Target, cmd: str) -> bytes:
    return encode_call(bash, MODERN, "run", {"cmd": cmd, "wait_seconds": 30})


def _check(answer: bytes) -> None:
    if b"done, exit code 0" not in answer:
        raise RuntimeError(f"the task did not end well: {answer[:500]!r}")


async def _spawn(cmd: str) -> None:
    process = await asyncio.create_subprocess_shell(cmd, stdin=asyncio.subprocess.DEVNULL)
    if await process.wait() != os.EX_OK:
        raise RuntimeError(f"{cmd} did not end well")


async def _time(work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began
