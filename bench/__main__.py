"""Runs the benchmark and prints one JSON object: `python -m bench [--requests N] [--seconds S]`."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict

from bench.hive import Hive, running_hive
from bench.load import MakeRequest, Sample, Target, measure

BODY = "x" * 400
PROTOCOL = "2026-07-28"


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--requests", type=int, default=2000, help="at most this many a measurement")
    parser.add_argument("--seconds", type=float, default=4, help="at most this long a measurement")
    options = parser.parse_args()
    with running_hive() as hive:
        samples = asyncio.run(run(hive, max_requests=options.requests, max_seconds=options.seconds))
    result = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "samples": {name: asdict(sample) for name, sample in samples.items()},
        "ratios": ratios(samples),
    }
    print(json.dumps(result, indent=2))


async def run(hive: Hive, *, max_requests: int, max_seconds: float) -> dict[str, Sample]:
    """Measure each endpoint at one and at sixteen connections, after a short warm-up."""
    samples = {}
    for (name, (target, make)), connections in itertools.product(list_cases(hive).items(), (1, 16)):
        for warm_up in (True, False):
            samples[f"{name} c={connections}"] = await measure(
                target,
                make,
                connections=connections,
                max_requests=max_requests // 10 if warm_up else max_requests,
                max_seconds=max_seconds,
            )
    return samples


def list_cases(hive: Hive) -> dict[str, tuple[Target, MakeRequest]]:
    """What is measured: a target, and a function that makes the next request to it."""
    keys = map(str, itertools.count())
    broker = Target(hive.broker_url, {"Authorization": f"Bearer {hive.token('iris')}"})
    otto = Target(hive.broker_url, {"Authorization": f"Bearer {hive.token('otto')}"})
    endpoint = hive.surface("iris")
    surface = Target(endpoint.url, {"Authorization": f"Bearer {endpoint.token}"})

    def send() -> bytes:
        message = {"to": "otto", "body": BODY}
        return broker.encode("POST", "/v1/agent/messages", message, Idempotency_Key=next(keys))

    def recv() -> bytes:
        return otto.encode("POST", "/v1/agent/inbox/recv", {"max": 1}, Idempotency_Key=next(keys))

    return {
        "broker healthz": (broker, lambda: broker.encode("GET", "/healthz")),
        "broker send": (broker, send),
        "broker recv": (otto, recv),
        "surface healthz": (surface, lambda: surface.encode("GET", "/healthz")),
        "mcp list": (surface, lambda: encode_mcp(surface, next(keys), "tools/list", {})),
        "mcp get_agent_meta": (surface, lambda: encode_call(surface, next(keys), "get_agent_meta", {})),
        "mcp send": (surface, lambda: encode_call(surface, next(keys), "send", {"to": "otto", "body": BODY})),
    }


def encode_call(surface: Target, key: str, tool: str, arguments: Mapping[str, object]) -> bytes:
    """A `tools/call` of the self-contained era."""
    params = {"name": tool, "arguments": arguments}
    return encode_mcp(surface, key, "tools/call", params, Mcp_Name=tool)


def encode_mcp(surface: Target, key: str, method: str, params: Mapping[str, object], **headers: str) -> bytes:
    """A JSON-RPC request of the self-contained era (MCP revision 2026-07-28)."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": PROTOCOL,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": int(key), "method": method, "params": {**params, "_meta": meta}}
    return surface.encode(
        "POST",
        "/mcp",
        body,
        Accept="application/json, text/event-stream",
        MCP_Protocol_Version=PROTOCOL,
        Mcp_Method=method,
        **headers,
    )


def ratios(samples: dict[str, Sample]) -> dict[str, float]:
    """Throughput as a share of the bare endpoint of the same process at the same concurrency."""
    bare = {"broker": "broker healthz", "mcp": "surface healthz"}
    return {
        name: round(sample.per_second / samples[f"{bare[name.split()[0]]} {name.split()[-1]}"].per_second, 3)
        for name, sample in samples.items()
        if name.split()[1] != "healthz"
    }


if __name__ == "__main__":
    main()
