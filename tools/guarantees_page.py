"""Renders docs/guarantees.md from tests/requirements and from the tests that claim to prove each row."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from tests.claims import Claim, list_claims
from tests.requirements import GUARANTEES, REQUIREMENTS

_INTRO = """\
# Delivery guarantees

<!-- Made from tests/requirements and the tests by `make generate`; edit those. -->

What a hive promises about messages and notices: each promise with an id, the part of the specification that
asks for it, and the tests that prove it. A test says by its id which promise it proves. The suite fails when
a promise has no test, when a test names none that exists, and when this page is not what they say.

In short: a message is stored before `send` answers, once, whatever is repeated or dies. It is handed out at
least once: again when its turn failed or its daemon started anew, never after its ack, and to one hand at a
time. Every change of an agent's life is on the stream once and in order.
"""


def render_guarantees_page() -> str:
    """The page, as it must stand in docs/."""
    claims: dict[str, list[Claim]] = {}
    for claim in list_claims():
        claims.setdefault(claim.requirement, []).append(claim)
    parts = [_INTRO]
    for source, title in GUARANTEES.items():
        rows = [
            f"| `{name}` | {row.text} | {_proofs(claims.get(name, []))} |"
            for name, row in REQUIREMENTS.items()
            if row.source == source
        ]
        parts.append(
            "\n".join(
                [f"## {title}\n\nSource: {source}.\n", "| id | promise | proved by |", "|---|---|---|", *rows]
            )
        )
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _proofs(claims: Iterable[Claim]) -> str:
    """Files and their tests, `all` for a claim of the whole file."""
    files = []
    for path, group in groupby(claims, key=lambda claim: claim.path):
        tests = [claim.test for claim in group]
        named = "all" if None in tests else ", ".join(f"`{test}`" for test in tests)
        files.append(f"`{path}`: {named}")
    return "<br>".join(files)
