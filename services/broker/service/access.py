"""The operator's hand on an agent: its permissions, in force on its next call, and its credential."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from services.broker.service.clock import Clock
from services.broker.service.hub import ControlHub
from services.broker.service.naming import get_agent
from services.broker.service.rights import apply_change
from services.broker.store import Store, Topic, Tx
from shared.errors import Conflict
from shared.wire.agents import Grants, PermissionsChange, PermissionsResult, RotateToken

CONFIRM_SECONDS = 2.0

_log = structlog.get_logger(__name__)


class AccessService:
    """Changes permissions and tokens.

    Args:
        store: where they are kept.
        hub: where changed grants are pushed.
        on_tokens_changed: called in the event loop once a change of tokens is committed.
        check_path: says how a path meets the hive's own files, if it does.
        clock: for tokens that are being retired.
    """

    def __init__(
        self,
        store: Store,
        hub: ControlHub,
        *,
        on_tokens_changed: Callable[[], None],
        check_path: Callable[[str], str | None],
        clock: Clock,
    ) -> None:
        self._store = store
        self._hub = hub
        self._on_tokens_changed = on_tokens_changed
        self._check_path = check_path
        self._clock = clock

    async def change_permissions(self, name: str, change: PermissionsChange) -> PermissionsResult:
        """Change what an agent may do, and wait up to 2 s until its connected daemons have confirmed it.

        Raises:
            NotFound: when there is no such agent.
            InvalidInput: when the change contradicts itself.
        """

        def work(tx: Tx) -> tuple[int, Grants]:
            agent = get_agent(tx, name, lock=True)
            after = apply_change(agent.grants, change, check=self._check_path)
            if after is not agent.grants:
                tx.agents.set_grants(agent.id, after)
                tx.announce(Topic.GRANTS, agent.id)
            return agent.id, after

        agent_id, grants = await self._store.write(work)
        self._hub.push(agent_id, grants)
        confirmed = await self._hub.wait_confirmed(agent_id, grants.version, seconds=CONFIRM_SECONDS)
        _log.info("permissions_changed", agent=name, version=grants.version, confirmed=confirmed)
        return PermissionsResult(grants=grants, confirmed=confirmed)

    async def rotate_token(self, name: str, request: RotateToken) -> None:
        """Accept a new token; those before it end after the grace. Repeating it changes nothing.

        Raises:
            NotFound: when there is no such agent.
            Conflict: when the token was in use before.
        """
        now = self._clock()

        def work(tx: Tx) -> bool:
            agent = get_agent(tx, name, lock=True)
            tx.tokens.delete_expired(now=now)
            owner = tx.tokens.find_owner(request.token_sha256)
            if owner is not None and owner != (agent.id, None):
                raise Conflict("this token is or was in use; make a new one")
            if owner is None:
                tx.tokens.insert(request.token_sha256, agent_id=agent.id, created_at=now)
            tx.tokens.retire_others(agent.id, keep=request.token_sha256, at=now + request.grace_seconds)
            tx.on_commit(self._on_tokens_changed)
            return owner is None

        if await self._store.write(work):
            _log.info("token_rotated", agent=name, grace_seconds=request.grace_seconds)

    async def drop_retiring_tokens(self, name: str) -> None:
        """End all earlier tokens of an agent at once, and the streams that may have been opened with one.

        Raises:
            NotFound: when there is no such agent.
        """

        def work(tx: Tx) -> tuple[int, int]:
            agent = get_agent(tx, name, lock=True)
            dropped = tx.tokens.delete_retiring(agent.id)
            tx.on_commit(self._on_tokens_changed)
            if dropped:
                tx.announce(Topic.CUT, agent.id)
            return agent.id, dropped

        agent_id, dropped = await self._store.write(work)
        if dropped:
            self._hub.close_agent(agent_id)
        _log.info("retiring_tokens_dropped", agent=name, tokens=dropped)
