"""The program in docs/notices.md, run as it is written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import anyio

from shared.wire.notices import inbox_prefix_of
from tests.integration.notices.parts import Parts
from tests.support.nats import NatsServer

PAGE = Path(__file__).parents[3] / "docs/notices.md"


async def test_the_program_on_the_page_reads_live_durable_and_history(
    parts: Parts, server: NatsServer, tmp_path: Path
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    identity = server.identity()
    (tmp_path / "password").write_text(server.readers["default"])
    login = {
        "url": server.url,
        "reader_user": identity,
        "reader_password_file": str(tmp_path / "password"),
        "inbox_prefix": inbox_prefix_of(identity),
        "durable": identity,
    }
    (tmp_path / "hive.json").write_text(json.dumps({"nats": login}))

    async def publish(event: str) -> None:
        subject = f"swarm.notices.h1.ruth.{event}"
        body = json.dumps({"data": {"agent_id": 1}}).encode()
        await parts.bus.publish(event_id=event, subject=subject, payload=body, request_id=None)

    await publish("started")
    with anyio.fail_after(30):
        async with await anyio.open_process(
            [sys.executable, "-c", program],
            env={**os.environ, "HIVE_ROOT": str(tmp_path), "PYTHONUNBUFFERED": "1"},
            stderr=subprocess.STDOUT,
        ) as process:
            assert process.stdout is not None
            heard = ""
            while "first" not in heard:
                heard += (await process.stdout.receive()).decode()
            await publish("stopped")
            async for chunk in process.stdout:
                heard += chunk.decode()

    assert heard.splitlines() == [
        "durable swarm.notices.h1.ruth.started {'agent_id': 1}",
        "first swarm.notices.h1.ruth.started",
        "live swarm.notices.h1.ruth.stopped",
    ]
