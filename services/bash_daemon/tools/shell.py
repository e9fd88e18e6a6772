"""The five tools: arguments, the copy a model reads, one service call each.

Every word of a description is paid for on every turn; the wording is held by a snapshot test.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from services.bash_daemon.service.bash import BashService
from services.bash_daemon.service.reading import PageRequest
from shared.mcp.arguments import WHOLE, ToolArguments
from shared.mcp.tool import Call, Tool
from shared.wire.model import MAX_ID, check_content

MAX_WAIT_SECONDS = 30
MAX_TIMEOUT_SECONDS = 30 * 86_400
MAX_INPUT_LENGTH = 65_536

TaskId = Annotated[str, Field(min_length=1, max_length=64)]
WaitSeconds = Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS, allow_inf_nan=False)]


class RunArguments(ToolArguments):
    """Arguments of `run`."""

    cmd: Annotated[str, AfterValidator(check_content), Field(description="for `sh -c`")]
    timeout_secs: Annotated[
        Annotated[float, Field(gt=0, le=MAX_TIMEOUT_SECONDS, allow_inf_nan=False)] | None,
        Field(description="kills it then; default: never"),
    ] = None
    wait_seconds: Annotated[WaitSeconds | None, Field(description="default 3, at most 30")] = None
    cwd: Annotated[
        Annotated[str, Field(max_length=4096)] | None, Field(description="default: your state directory")
    ] = None
    env: Annotated[dict[str, str] | None, Field(description="added to the environment")] = None
    stdin: Annotated[bool | None, Field(description="keep its input open for `send_input`")] = None


class StatusArguments(ToolArguments):
    """Arguments of `status`."""

    id: TaskId
    wait_seconds: Annotated[
        WaitSeconds | None, Field(description="waits so long for its end; default 0, at most 30")
    ] = None
    stream: Annotated[
        Literal["out", "err"] | None, Field(description="read this stream instead of the last lines")
    ] = None
    offset: Annotated[
        Annotated[int, Field(ge=-MAX_ID, le=MAX_ID), WHOLE] | None,
        Field(description="byte to read from; negative: from the end"),
    ] = None
    max_bytes: Annotated[Annotated[int, Field(ge=1), WHOLE] | None, Field(description="at most 32768")] = None
    grep: Annotated[
        Annotated[str, Field(min_length=1, max_length=1_000)] | None,
        Field(description="show only lines that match this regular expression"),
    ] = None


class KillArguments(ToolArguments):
    """Arguments of `kill`."""

    id: TaskId


class ListArguments(ToolArguments):
    """`list` has none."""


class SendInputArguments(ToolArguments):
    """Arguments of `send_input`."""

    id: TaskId
    text: Annotated[
        Annotated[str, Field(max_length=MAX_INPUT_LENGTH)] | None, Field(description="with its line break")
    ] = None
    eof: Annotated[bool | None, Field(description="ends the input after it")] = None


def build_shell_tools(service: BashService) -> list[Tool]:
    """These tools, wired to their service."""

    async def run(args: RunArguments, _call: Call) -> str:
        return await service.run(
            args.cmd,
            timeout_seconds=args.timeout_secs,
            wait_seconds=args.wait_seconds,
            cwd=args.cwd,
            env=args.env,
            has_stdin=bool(args.stdin),
        )

    async def status(args: StatusArguments, _call: Call) -> str:
        page = PageRequest.of(args.stream, args.offset, args.max_bytes, args.grep)
        return await service.status(args.id, wait_seconds=args.wait_seconds or 0, page=page)

    async def kill(args: KillArguments, _call: Call) -> str:
        return await service.kill(args.id)

    async def list_(_args: ListArguments, _call: Call) -> str:
        return await service.list()

    async def send_input(args: SendInputArguments, _call: Call) -> str:
        return await service.send_input(args.id, args.text, eof=bool(args.eof))

    return [
        Tool(
            "run",
            "Run a shell command as a background task. Shows exit code and output if it ends within "
            "wait_seconds, else its id; you are woken when it ends. Processes it leaves behind are ended.",
            RunArguments,
            run,
            reports_progress=False,
        ),
        Tool(
            "status",
            "State, exit code and last output of a task; or a page, or matching lines, of one stream.",
            StatusArguments,
            status,
            read_only=True,
            reports_progress=False,
        ),
        Tool(
            "kill",
            "End a task and every process it started (SIGTERM, then SIGKILL).",
            KillArguments,
            kill,
            idempotent=True,
            reports_progress=False,
        ),
        Tool(
            "list",
            "Running and waiting tasks, and the newest ended ones.",
            ListArguments,
            list_,
            read_only=True,
            reports_progress=False,
        ),
        Tool(
            "send_input",
            "Write to the input of a task that was started with stdin.",
            SendInputArguments,
            send_input,
            reports_progress=False,
        ),
    ]
