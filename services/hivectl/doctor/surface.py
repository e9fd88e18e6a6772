"""An agent's MCP surface, end to end: with the agent's own `mcp.json`, over HTTP, as `claude` does it.

Speaks JSON-RPC itself: the MCP package is not part of the `cli` extra.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx2

from services.hivectl.doctor.check import Check, error, passed, warning
from services.hivectl.doctor.ports import ExpectedPort
from services.hivectl.doctor.versions import check_revision
from services.hivectl.reading import read_json
from shared.errors import HiveError, Unauthenticated, Unavailable
from shared.wire.agents import Agent

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
TIMEOUT_SECONDS = 5.0
_CLIENT = {"name": "hivectl-doctor", "version": "1"}


class McpProbe:
    """One surface, asked in both protocol eras.

    Raises:
        Unavailable: when nothing answers, or not in MCP.
        Unauthenticated: when it refuses the credential.
    """

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url = url
        self._headers = {**headers, "Accept": "application/json, text/event-stream"}

    def list_tools(self) -> list[str]:
        """Discover the server in the modern era, initialise in the legacy one, and list its tools."""
        timeout = httpx2.Timeout(TIMEOUT_SECONDS, connect=3)
        with httpx2.Client(timeout=timeout, trust_env=False, headers=self._headers) as http:
            self._ask(http, "server/discover", {}, modern=True)
            legacy = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
            self._ask(http, "initialize", legacy, modern=False)
            tools = self._ask(http, "tools/list", {}, modern=True).get("tools", [])
        return [str(tool["name"]) for tool in tools]

    def _ask(
        self, http: httpx2.Client, method: str, params: dict[str, Any], *, modern: bool
    ) -> dict[str, Any]:
        headers = {}
        if modern:
            headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": _CLIENT,
            }
            params = {**params, "_meta": meta}
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        try:
            response = http.post(self.url, json=request, headers=headers)
        except httpx2.TransportError as exc:
            raise Unavailable(f"{self.url} does not answer {method}") from exc
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            raise Unauthenticated(f"{self.url} refuses the credential in mcp.json")
        result = _result(response)
        if result is None:
            raise Unavailable(f"{self.url} answers {method} with status {response.status_code} and no result")
        return result


def _result(response: httpx2.Response) -> dict[str, Any] | None:
    """The result of a JSON answer, or of the last event of an event stream."""
    text = response.text
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        events = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
        text = events[-1] if events else ""
    try:
        result = json.loads(text)["result"]
    except (ValueError, KeyError, TypeError):
        return None
    return result if isinstance(result, dict) else None


def check_agent(agent: Agent, mcp_config: Path) -> tuple[list[Check], list[ExpectedPort]]:
    """Whether an agent runs as it should, and each of its surfaces serves tools."""
    name = f"agent.{agent.name}"
    try:
        servers = read_json(mcp_config)["mcpServers"]
        entries = {str(key): (httpx2.URL(row["url"]), dict(row["headers"])) for key, row in servers.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, httpx2.InvalidURL):
        return [
            error(name, f"{mcp_config} cannot be used", "`hivectl down`, then `hivectl up`, writes it")
        ], []
    if not agent.running:
        if agent.wanted:
            mend = f"its log in the root's logs/ says why; hivectl agent restart {agent.name}"
            return [error(name, "should run and does not", mend)], _ports(agent, entries, set())
        return [passed(name, "stopped, as it was told")], _ports(agent, entries, set())
    checks = [
        _check_link(name, agent, entries),
        check_revision(f"{name}.revision", agent.name, agent.revision),
    ]
    answered = set()
    for surface, (url, headers) in entries.items():
        check = _check_surface(agent.name, surface, McpProbe(str(url), headers))
        checks.append(check)
        if check.ok:
            answered.add(surface)
    return checks, _ports(agent, entries, answered)


def _check_link(name: str, agent: Agent, surfaces: Iterable[str]) -> Check:
    missing = [surface for surface in surfaces if surface not in agent.connected_units]
    if not missing:
        return passed(name, f"running; connected: {', '.join(agent.connected_units)}")
    which = f"its {' and '.join(missing)} surface" if agent.connected_units else "it"
    detail = f"runs, but {which} is not connected to the broker"
    return warning(name, detail, f"hivectl agent restart {agent.name}")


def _check_surface(agent: str, surface: str, probe: McpProbe) -> Check:
    name = f"surface.{agent}.{surface}"
    try:
        tools = probe.list_tools()
    except Unauthenticated as exc:
        return error(name, exc.message, f"hivectl token rotate {agent}")
    except HiveError as exc:
        return error(name, exc.message, f"hivectl agent restart {agent}")
    return passed(name, f"{len(tools)} tools at {probe.url}")


def _ports(
    agent: Agent, entries: dict[str, tuple[httpx2.URL, dict[str, str]]], answered: set[str]
) -> list[ExpectedPort]:
    return [
        ExpectedPort(
            port=port,
            what=f"{agent.name}'s {surface} surface",
            answered=surface in answered,
            wanted=agent.running,
        )
        for surface, (url, _) in entries.items()
        if (port := url.port) is not None
    ]
