"""The real Claude Code CLI, headless, against a scripted model: one-shot runs and sessions that stay open.

Nothing of the user's own configuration reaches it, and it reaches nothing but the two URLs it is given.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from tests.support.install_claude import find_claude
from tests.support.script import JsonObject, ToolResult

Era = Literal["2025-11-25", "2026-07-28"]
ERAS: tuple[Era, ...] = ("2026-07-28", "2025-11-25")
TURN_SECONDS = 60.0


@dataclass(frozen=True)
class ToolCall:
    """A tool call as the CLI reports it."""

    id: str
    name: str
    input: JsonObject


@dataclass
class Turn:
    """The events of one turn, from `init` to `result`."""

    events: list[JsonObject] = field(default_factory=list)

    def _first(self, kind: str) -> JsonObject:
        return next(event for event in self.events if event["type"] == kind)

    def _blocks(self, kind: str, block_type: str) -> Iterator[JsonObject]:
        for event in self.events:
            content = event.get("message", {}).get("content") if event["type"] == kind else None
            if isinstance(content, list):
                yield from (block for block in content if block.get("type") == block_type)

    @property
    def mcp_servers(self) -> dict[str, str]:
        """Server name to connection status, from `init`."""
        return {server["name"]: server["status"] for server in self._first("system")["mcp_servers"]}

    @property
    def tools(self) -> list[str]:
        return list(self._first("system")["tools"])

    @property
    def tool_calls(self) -> list[ToolCall]:
        blocks = self._blocks("assistant", "tool_use")
        return [ToolCall(block["id"], block["name"], block["input"]) for block in blocks]

    @property
    def tool_results(self) -> list[ToolResult]:
        """The results in the order in which they came."""
        return [
            ToolResult(block["tool_use_id"], _text(block.get("content")), bool(block.get("is_error")))
            for block in self._blocks("user", "tool_result")
        ]

    @property
    def result(self) -> JsonObject:
        return self._first("result")

    @property
    def text(self) -> str:
        return str(self.result.get("result", ""))

    def check(self) -> Turn:
        """Fail unless the turn ended well with every server connected."""
        assert self.result["subtype"] == "success", self.result
        assert not self.result["is_error"], self.result
        assert set(self.mcp_servers.values()) == {"connected"}, self.mcp_servers
        return self


@dataclass(frozen=True)
class Claude:
    """One agent's CLI: where its model is, which MCP servers it has, which protocol revision it speaks."""

    model_url: str
    mcp_config: Path
    home: Path
    era: Era = "2026-07-28"
    allowed: tuple[str, ...] = ("mcp__hyperhive", "mcp__bash")

    def env(self) -> dict[str, str]:
        """All of the CLI's environment."""
        # TMPDIR: the CLI opens a socket below it and leaves it behind when killed.
        home = str(self.home)
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": home,
            "TMPDIR": home,
            "CLAUDE_CONFIG_DIR": home,
            "ANTHROPIC_BASE_URL": self.model_url,
            "ANTHROPIC_API_KEY": "not-a-key",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "MCP_CONNECTION_NONBLOCKING": "0",
        }
        return env | ({"MCP_PROTOCOL_NEGOTIATION": "legacy"} if self.era == "2025-11-25" else {})

    def command(self, *more: str) -> list[str]:
        """The command line; `--allowedTools` takes all that follows it, so it comes last."""
        return [
            str(find_claude()),
            "--print",
            *more,
            "--output-format=stream-json",
            "--verbose",
            "--tools=",
            f"--mcp-config={self.mcp_config}",
            "--strict-mcp-config",
            "--allowedTools",
            *self.allowed,
        ]

    def run(self, prompt: str, *, within: float = TURN_SECONDS) -> Turn:
        """One prompt, one process, one turn."""
        with self._started(self.command(prompt), stdin=subprocess.DEVNULL) as session:
            return session.read_turn(within=within)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A process that stays and takes one user message after the other."""
        with self._started(self.command("--input-format=stream-json"), stdin=subprocess.PIPE) as session:
            yield session

    @contextmanager
    def _started(self, command: list[str], *, stdin: int) -> Iterator[Session]:
        errors = self.home / "stderr.log"
        with (
            errors.open("ab") as stderr,
            subprocess.Popen(
                command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, env=self.env(), cwd=self.home
            ) as process,
        ):
            session = Session(process, errors)
            try:
                yield session
            finally:
                session.stop()


class Session:
    """A running CLI process: write user messages, read turns."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self._process = process
        self._errors = errors
        self._events: queue.Queue[JsonObject | None] = queue.Queue()
        assert process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, text: str) -> None:
        """Write a user message without waiting for anything."""
        message = {"type": "user", "message": {"role": "user", "content": text}}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, text: str, *, within: float = TURN_SECONDS) -> Turn:
        """Write a user message and read the turn it starts."""
        self.send(text)
        return self.read_turn(within=within)

    def read_turn(self, *, within: float = TURN_SECONDS) -> Turn:
        """Read up to and including the next `result`.

        Raises:
            TimeoutError: with the events so far and the CLI's own error output.
        """
        turn = Turn()
        deadline = time.monotonic() + within
        while True:
            try:
                event = self._events.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"no result within {within} s; {self._state(turn)}") from None
            if event is None:
                raise AssertionError(f"the CLI ended early; {self._state(turn)}")
            turn.events.append(event)
            if event["type"] == "result":
                return turn

    def stop(self) -> None:
        """End the process: it is killed, since a test that wanted more has read it already."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _state(self, turn: Turn) -> str:
        return f"events {turn.events}; stderr {self._errors.read_text(errors='replace')[-2000:]}"

    def _read(self, stdout: IO[bytes]) -> None:
        for line in stdout:
            self._events.put(json.loads(line))
        self._events.put(None)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content or [] if block.get("type") == "text")
