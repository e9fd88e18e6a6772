"""A unit for the tests of `serve`, run as a process: `python -m tests.unit.shared.runtime.serve_demo`.

`DEMO_MODE` says what goes wrong in it; `DEMO_PORT` and `DEMO_HOST` where it listens.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from shared.errors import Misconfigured, Unavailable
from shared.runtime.http import create_http_app
from shared.runtime.log import configure_logging, get_logger
from shared.runtime.serve import exit_with_reason, serve

TOKEN = "t" * 43


def main() -> None:
    """Serve the demo."""
    mode = os.environ.get("DEMO_MODE", "")
    configure_logging("demo", agent="iris", level="debug")
    log = get_logger()
    closed = anyio.Event()
    crash = anyio.Event()

    async def crash_later() -> None:
        await crash.wait()
        raise Unavailable("the database is gone")

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        if mode == "misconfigured":
            raise Misconfigured("the token file is missing; set HIVE_TOKEN_FILE")
        if mode == "bug":
            raise RuntimeError("a bug in the start")
        if mode == "slow_start":
            log.info("start_waits")
            await anyio.sleep_forever()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(crash_later)
            yield
            tasks.cancel_scope.cancel()
        log.info("lifespan_closed")
        if mode == "stuck":
            await anyio.sleep_forever()

    async def authenticate(_path: str, token: str) -> object | None:
        return token if token == TOKEN else None

    app = create_http_app(unit="demo", lifespan=lifespan, authenticate=authenticate, ready=lambda: True)

    @app.get("/slow")
    async def slow() -> dict[str, str]:
        log.info("slow_started")
        await closed.wait()
        return {"slow": "done"}

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def lines() -> AsyncIterator[bytes]:
            log.info("endless_started")
            yield b"first\n"
            await closed.wait()
            yield b"last\n"

        return StreamingResponse(lines())

    @app.get("/deaf")
    async def deaf() -> None:
        log.info("deaf_started")
        await anyio.sleep_forever()

    @app.get("/crash")
    async def crash_now() -> None:
        crash.set()

    @app.get("/environment")
    async def environment() -> list[str]:
        return sorted(name for name in os.environ if "LISTEN" in name)

    def on_stop() -> None:
        closed.set()
        if mode == "on_stop":
            raise RuntimeError("a bug in the stop")

    with exit_with_reason():
        if mode == "early":
            raise Misconfigured("no such directory; set HIVE_ROOT")
    serve(
        app,
        host=os.environ.get("DEMO_HOST", "127.0.0.1"),
        port=int(os.environ.get("DEMO_PORT", "0")),
        port_setting="HIVE_DEMO_PORT",
        on_stop=on_stop,
        grace_seconds=1,
        close_seconds=0.5,
    )
    log.info("main_returned")


if __name__ == "__main__":
    main()
