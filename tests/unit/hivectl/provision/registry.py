"""A broker's registry in memory, as far as provisioning needs it, which can break off at any call."""

from __future__ import annotations

from shared.errors import Conflict, NotFound, OutcomeUnknown
from shared.permissions import AGENT_DEFAULT
from shared.wire.agents import Agent, CreateAgent, Grants, RotateToken


class Registry:
    """`fail_before` and `fail_after` name the methods whose next call breaks off, undone or done."""

    def __init__(self) -> None:
        self.agents: dict[str, Agent] = {}
        self.current: dict[str, str] = {}
        self.retiring: dict[str, str] = {}
        self.fail_before: set[str] = set()
        self.fail_after: set[str] = set()

    def list_agents(self) -> list[Agent]:
        return list(self.agents.values())

    def get_agent(self, name: str) -> Agent:
        self._break(self.fail_before, "get_agent")
        if name not in self.agents:
            raise NotFound(f"no agent {name}")
        return self.agents[name]

    def create_agent(self, request: CreateAgent) -> Agent:
        self._break(self.fail_before, "create_agent")
        if request.name in self.agents:
            raise Conflict("exists")
        agent = Agent(
            id=len(self.agents) + 1,
            name=request.name,
            parent=request.parent,
            port_block=len(self.agents),
            running=False,
            wanted=request.wanted,
            created_at=1,
            grants=Grants(groups=sorted(AGENT_DEFAULT), capabilities=[]),
        )
        self.agents[request.name] = agent
        self.current[request.name] = request.token_sha256
        self._break(self.fail_after, "create_agent")
        return agent

    def rotate_token(self, name: str, request: RotateToken) -> None:
        self._break(self.fail_before, "rotate_token")
        self.get_agent(name)
        if self.retiring.get(name) == request.token_sha256:
            raise Conflict("in use before")
        if self.current[name] != request.token_sha256:
            self.retiring.pop(name, None)
            if request.grace_seconds:
                self.retiring[name] = self.current[name]
            self.current[name] = request.token_sha256
        self._break(self.fail_after, "rotate_token")

    def drop_retiring_token(self, name: str) -> None:
        self._break(self.fail_before, "drop_retiring_token")
        self.retiring.pop(name, None)
        self._break(self.fail_after, "drop_retiring_token")

    def _break(self, where: set[str], method: str) -> None:
        if method in where:
            where.discard(method)
            raise OutcomeUnknown("the connection broke")
