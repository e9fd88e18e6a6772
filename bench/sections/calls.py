"""`send` and `recv` as MCP calls against a bare echo on the SDK's own server, in both protocol eras."""

from __future__ import annotations

import asyncio
from functools import partial

from bench.compare import Bounds, Case, Result, alternate, ratio, summaries
from bench.echo import running_echo
from bench.hive import Hive
from bench.load import Target
from bench.mail import BODY, refill
from bench.mcp_calls import ERAS, Era, encode_call

ARGUMENTS = {"to": "ruth", "body": BODY}


def run(bounds: Bounds, hive: Hive) -> Result:
    """Latencies at one connection for each era; `ratio` is of medians, our call to the echo."""
    with running_echo() as url:
        return {era: asyncio.run(_measure(hive, Target(url, {}), era, bounds)) for era in ERAS}


async def _measure(hive: Hive, bare: Target, era: Era, bounds: Bounds) -> Result:
    iris, otto = hive.surface("iris"), hive.surface("otto")
    # The same bytes but for the names: the echo gets a token as well, and looks at it as little.
    bare = Target(bare.url, iris.headers)
    fill = partial(refill, hive.broker("iris"), hive.broker("otto"), "otto", bounds.requests)
    cases = [
        Case("echo", bare, lambda: encode_call(bare, era, "echo", ARGUMENTS)),
        Case("send", iris, lambda: encode_call(iris, era, "send", ARGUMENTS)),
        Case("recv", otto, lambda: encode_call(otto, era, "recv", {}), fill),
        Case("get_agent_meta", iris, lambda: encode_call(iris, era, "get_agent_meta", {})),
    ]
    found = await alternate(cases, connections=1, bounds=bounds)
    ratios = {name: ratio(found[name], found["echo"], "p50_ms") for name in found if name != "echo"}
    return summaries(found) | {"ratio": ratios}
