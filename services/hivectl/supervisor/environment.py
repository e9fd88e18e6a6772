"""What of the caller's environment reaches a unit: a short list, the shared settings, and the unit's own.

`deploy/` does the same with EnvironmentFile; docs/operating.md repeats the list.
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.layout import HiveLayout, PortPlan

PASSED_ON: frozenset[str] = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    }
)
PASSED_ON_PREFIXES: tuple[str, ...] = ("LC_", "XDG_")
UNIT_PREFIXES: Mapping[str, str] = {
    "broker": "HIVE_BROKER_",
    "hyperhive": "HIVE_MCP_",
    "bash": "HIVE_BASH_",
    "matrix": "HIVE_MATRIX_",
    "subagent": "HIVE_SUBAGENT_",
}
# Identity and sockets are the supervisor's to give: `up` may itself run inside somebody's environment.
_OURS: frozenset[str] = frozenset(
    {
        "HIVE_ROOT",
        "HIVE_URL",
        "HIVE_LABEL",
        "HIVE_TOKEN_FILE",
        "HIVE_STATE_DIR",
        "HIVE_AGENT_SOCKET",
        "HIVE_CORE_SOCKET",
        "HIVE_LISTEN_FD",
    }
)


def base_environment(caller: Mapping[str, str]) -> dict[str, str]:
    """The part that is no setting of ours."""
    return {
        name: value
        for name, value in caller.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }


def unit_environment(
    caller: Mapping[str, str], unit: str, settings: Mapping[str, str], *, listen_fd: int
) -> dict[str, str]:
    """The environment of a unit of ours: `settings` win over what the caller has set."""
    foreign = tuple(prefix for name, prefix in UNIT_PREFIXES.items() if name != unit)
    shared = {
        name: value
        for name, value in caller.items()
        if name.startswith("HIVE_") and name not in _OURS and not name.startswith(foreign)
    }
    return base_environment(caller) | shared | dict(settings) | {"HIVE_LISTEN_FD": str(listen_fd)}


def broker_settings(layout: HiveLayout, ports: PortPlan, hive_name: str) -> dict[str, str]:
    """What `up` decides for the broker."""
    return {
        "HIVE_ROOT": str(layout.root),
        "HIVE_BROKER_PORT": str(ports.broker),
        "HIVE_BROKER_HIVE_NAME": hive_name,
        "HIVE_BROKER_OPERATOR_TOKEN_FILE": str(layout.operator_token_file),
    }


def surface_settings(
    layout: HiveLayout, ports: PortPlan, agent: str, block: int, surface: str
) -> dict[str, str]:
    """What `up` decides for a surface of an agent."""
    paths = layout.agent(agent)
    return {
        "HIVE_ROOT": str(layout.root),
        "HIVE_URL": f"http://127.0.0.1:{ports.broker}",
        "HIVE_LABEL": agent,
        "HIVE_TOKEN_FILE": str(paths.token_file),
        "HIVE_STATE_DIR": str(paths.state_dir),
        "HIVE_AGENT_SOCKET": str(paths.agent_socket),
        "HIVE_CORE_SOCKET": str(paths.core_socket),
        f"{UNIT_PREFIXES[surface]}PORT": str(ports.surface(block, surface)),
        f"{UNIT_PREFIXES[surface]}DATA_DIR": str(paths.daemons_dir),
    }
