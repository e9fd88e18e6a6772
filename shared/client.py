"""What a daemon asks of the broker, over HTTP under its agent's credential.

Every call ends within its deadline: it is repeated while the broker is away, then fails with an error that
says whether anything can have happened. Nothing here needs a restart to recover.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Self

from pydantic import TypeAdapter, ValidationError

from shared.plan_client import PlanClient
from shared.runtime.calls import Call
from shared.runtime.credential import TokenFile
from shared.runtime.link import Link
from shared.runtime.log import get_logger
from shared.wire.agents import AgentMeta, AgentSelf
from shared.wire.control import ControlEvent, Hello, Report, Unit
from shared.wire.messages import (
    AckRequest,
    AckResult,
    InboxLevel,
    RecvRequest,
    RecvResult,
    ReleaseRequest,
    ReleaseResult,
    SendRequest,
    SendResult,
    SentMessage,
    StatesRequest,
    StatesResult,
    StatusText,
)

DEADLINE_SECONDS = 20.0
# The broker pings every 10 s.
SILENCE_SECONDS = 30.0

_EVENT: TypeAdapter[ControlEvent] = TypeAdapter(ControlEvent)

log = get_logger()


class BrokerClient:
    """The broker as one agent's daemon sees it. Use it as an async context manager, or `aclose` it.

    Args:
        url: the broker, without a path.
        token_file: the agent's credential; read again when it changes.
        unit: this daemon.
        boot: ULID of this daemon's start.
        deadline_seconds: how long a call may take, retries included.
        silence_seconds: how long the control stream may say nothing.

    All calls raise `Unavailable` when the broker could not be reached and nothing was done, `OutcomeUnknown`
    when a change may or may not have been made, `Unauthenticated`, and whatever error the broker answered.
    """

    def __init__(
        self,
        url: str,
        token_file: TokenFile,
        *,
        unit: Unit,
        boot: str,
        deadline_seconds: float = DEADLINE_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self.unit = unit
        self.boot = boot
        self._silence_seconds = silence_seconds
        self._link = Link(url, token_file, program=f"hyperhive-{unit}", deadline_seconds=deadline_seconds)
        self.plans = PlanClient(self._link)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; open control streams end."""
        await self._link.aclose()

    async def self_info(self) -> AgentSelf:
        """Who the credential is, and in which hive."""
        return await self._link.ask(Call("GET", "/v1/agent/self"), AgentSelf)

    async def send(self, request: SendRequest, key: str) -> SendResult:
        """Store a message. `key` names this one act: a repeat under it stores nothing twice."""
        unsure = (
            "the message may or may not have been stored. Sending it again may deliver it twice: ask the "
            "recipient whether it arrived, or wait for its answer, before you do"
        )
        return await self._link.ask(Call("POST", "/v1/agent/messages", request, key, unsure), SendResult)

    async def get_sent(self, message_id: int) -> SentMessage:
        """How a message that this agent sent stands; its body is left out.

        Raises:
            NotFound: when there is none by this id that this agent sent.
        """
        return await self._link.ask(Call("GET", f"/v1/agent/messages/{message_id:d}"), SentMessage)

    async def recv(self, request: RecvRequest, key: str) -> RecvResult:
        """Hand out rows. A repeat under the same `key` hands out the same ones."""
        unsure = "messages may have been handed out; those not acked are handed out again later, none is lost"
        return await self._link.ask(Call("POST", "/v1/agent/inbox/recv", request, key, unsure), RecvResult)

    async def ack(self, request: AckRequest) -> AckResult:
        """Ack own rows up to an id. A repeat after an answer that was lost counts none of them again."""
        unsure = "the messages may or may not have been acked; acking again is safe"
        return await self._link.ask(Call("POST", "/v1/agent/inbox/ack", request, unsure=unsure), AckResult)

    async def release(self, request: ReleaseRequest, key: str) -> ReleaseResult:
        """Return delivered rows to pending; a failed turn counts once on each of its rows.

        A repeat under the same `key` takes no row back that was handed to somebody else meanwhile.
        """
        unsure = "the messages may or may not have been returned; those that were not come again later"
        return await self._link.ask(
            Call("POST", "/v1/agent/inbox/release", request, key, unsure), ReleaseResult
        )

    async def get_states(self, request: StatesRequest) -> StatesResult:
        """How own rows stand; what is not this agent's is left out."""
        return await self._link.ask(Call("POST", "/v1/agent/inbox/states", request), StatesResult)

    async def count_pending(self) -> int:
        """How many messages wait for this agent."""
        return (await self._link.ask(Call("GET", "/v1/agent/inbox/level"), InboxLevel)).pending

    async def get_meta(self, name: str | None = None) -> AgentMeta:
        """What any agent may know of an agent; of this one when `name` is None.

        Raises:
            NotFound: when no agent has the name.
        """
        query = {} if name is None else {"name": name}
        return await self._link.ask(Call("GET", "/v1/agent/meta", query=query), AgentMeta)

    async def set_status(self, status: StatusText) -> None:
        """Set the agent's one-line status."""
        unsure = "the status may or may not have been set; setting it again is safe"
        await self._link.tell(Call("PUT", "/v1/agent/status", status, unsure=unsure))

    async def report(self, report: Report) -> None:
        """Tell the broker what changed in this daemon."""
        unsure = "the report may or may not have arrived; sending it again is safe"
        await self._link.tell(Call("POST", "/v1/agent/reports", report, unsure=unsure))

    async def control(self, hello: Hello) -> AsyncGenerator[ControlEvent, None]:
        """Open the control stream and yield its events, pings included; it ends when the broker closes it.

        One attempt: whoever reads it dials again. Close it with `contextlib.aclosing`.

        Raises:
            Unavailable: when the broker cannot be reached, or says nothing for `silence_seconds`.
            Unauthenticated: when the credential is not valid.
        """
        call = Call("POST", "/v1/agent/control", hello)
        async with aclosing(self._link.stream_lines(call, silence_seconds=self._silence_seconds)) as lines:
            async for line in lines:
                event = _parse_event(line)
                if event is not None:
                    yield event


def _parse_event(line: bytes) -> ControlEvent | None:
    """An event, or None for what this version does not know: a newer broker may say more."""
    try:
        return _EVENT.validate_json(line)
    except ValidationError:
        log.warning("control_event_ignored", size=len(line))
        return None
