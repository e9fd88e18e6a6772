"""Who calls: from a credential to an agent or the operator, and to nobody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from services.broker.service.clock import Clock
from services.broker.store import Store, Tx
from services.broker.store.agents import AgentRow
from shared.errors import Unauthenticated
from shared.runtime.credential import hash_token

AGENT_TREE = "/v1/agent/"
OPERATOR_TREE = "/v1/operator/"
_MAX_CACHED = 2_048


@dataclass(frozen=True, slots=True)
class AgentCaller:
    """A live agent, by its row's id: a re-created agent of the same name is another one."""

    agent_id: int
    name: str

    @property
    def scope(self) -> str:
        """Whose idempotency keys these are."""
        return f"agent:{self.agent_id}"


@dataclass(frozen=True, slots=True)
class OperatorCaller:
    """The operator."""

    scope: str = "operator"


Caller = AgentCaller | OperatorCaller


class Authenticator:
    """Finds the caller of a request, looking only at the credential that its tree accepts.

    Args:
        store: where agents' credentials are.
        is_operator: whether a token is the operator's; compares in constant time.
        clock: for tokens that are being retired.
    """

    def __init__(self, store: Store, *, is_operator: Callable[[str], bool], clock: Clock) -> None:
        self._store = store
        self._is_operator = is_operator
        self._clock = clock
        self._known: dict[str, tuple[AgentCaller, int | None]] = {}
        self._generation = 0

    async def authenticate(self, path: str, token: str) -> Caller | None:
        """The caller, or None when the token is not one of those that open this path."""
        if path.startswith(OPERATOR_TREE):
            return OperatorCaller() if self._is_operator(token) else None
        if path.startswith(AGENT_TREE):
            return await self._find_agent(hash_token(token))
        return None

    def forget(self) -> None:
        """Look every token up anew: call it when a change of tokens or agents is committed."""
        self._generation += 1
        self._known.clear()

    async def _find_agent(self, sha256: str) -> AgentCaller | None:
        now = self._clock()
        if (known := self._known.get(sha256)) is not None and (known[1] is None or known[1] > now):
            return known[0]
        generation = self._generation
        found = await self._store.read(partial(_find_token, sha256=sha256, now=now), snapshot=False)
        if found is None:
            return None
        caller = AgentCaller(found[0], found[1])
        # A change committed since then makes what was read stale. Another broker's changes are not heard of.
        if generation == self._generation and not self._store.is_shared:
            if len(self._known) >= _MAX_CACHED:
                self._known.clear()
            self._known[sha256] = (caller, found[2])
        return caller


def _find_token(tx: Tx, *, sha256: str, now: int) -> tuple[int, str, int | None] | None:
    return tx.tokens.find_agent(sha256, now=now)


def get_self(tx: Tx, caller: AgentCaller, *, lock: bool = False) -> AgentRow:
    """The caller's own row.

    Raises:
        Unauthenticated: when the agent was destroyed since its credential was checked.
    """
    row = tx.agents.find_live(caller.agent_id, lock=lock)
    if row is None:
        raise Unauthenticated("a valid bearer token is required")
    return row
