"""Names: what an agent, a hive and a wake label may be called, and how a near miss is answered.

Every name becomes a path part, a NATS token and a marker in prompts, so the alphabets are narrow.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

OPERATOR = "operator"
SYSTEM = "system"
EVERYBODY = "*"
GRACEFUL_STOP = "graceful-stop"
ROOT_AGENT = "ruth"
SURFACES: tuple[str, ...] = ("hyperhive", "bash", "matrix", "subagent")

RESERVED_LABELS: frozenset[str] = frozenset({OPERATOR, SYSTEM, GRACEFUL_STOP, "all", "hive"})
RESERVED_AGENT_NAMES: frozenset[str] = RESERVED_LABELS | frozenset(SURFACES)

_AGENT = re.compile(r"[a-z][a-z0-9-]{0,31}")
_HIVE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_LABEL = re.compile(r"[a-z0-9][a-z0-9._:-]{0,63}")


def check_agent_name(value: str) -> str:
    """An agent's name: `[a-z][a-z0-9-]{0,31}` and not reserved.

    Raises:
        ValueError: saying which rule it breaks.
    """
    if not _AGENT.fullmatch(value):
        raise ValueError("must be 1 to 32 of a-z, 0-9 and '-', beginning with a letter")
    if value in RESERVED_AGENT_NAMES:
        raise ValueError(f"is reserved; these are: {', '.join(sorted(RESERVED_AGENT_NAMES))}")
    return value


def check_hive_name(value: str) -> str:
    """A hive's or swarm's name: `[a-z0-9][a-z0-9_-]{0,31}`.

    Raises:
        ValueError: saying the rule.
    """
    if not _HIVE.fullmatch(value):
        raise ValueError("must be 1 to 32 of a-z, 0-9, '_' and '-', beginning with a letter or digit")
    return value


def fold_label(value: str) -> str:
    """A label or a name without what separates: labels and names that are alike in this look alike.

    So `operator.`, `sys-tem` and `r.u.t.h` are taken for `operator`, `system` and `ruth`.
    """
    return re.sub("[._:-]", "", value)


def find_reserved(label: str) -> str | None:
    """The reserved word that a label is, or looks like."""
    return next((word for word in sorted(RESERVED_LABELS) if fold_label(word) == fold_label(label)), None)


def check_label(value: str) -> str:
    """A wake label: `[a-z0-9][a-z0-9._:-]{0,63}`; whether it may be used the broker says.

    Raises:
        ValueError: saying the rule.
    """
    if not _LABEL.fullmatch(value):
        raise ValueError(
            "must be 1 to 64 of a-z, 0-9, '.', '_', ':' and '-', beginning with a letter or digit"
        )
    return value


def check_party_name(value: str) -> str:
    """What a message may come from or go to: an agent, `operator`, `system` or a wake label.

    Raises:
        ValueError: saying the rule.
    """
    if not _LABEL.fullmatch(value):
        raise ValueError("must be an agent's name, 'operator', 'system' or the label of a wake")
    return value


def find_near_names(wanted: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """Names close to `wanted`, best first; empty when none is near (difflib ratio of 0.6)."""
    return difflib.get_close_matches(wanted[:64].lower(), sorted(known), n=limit, cutoff=0.6)


def _describe(pattern: re.Pattern[str], limit: int) -> WithJsonSchema:
    # For documents alone: the checks above refuse with a text of their own.
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern.pattern}$", "maxLength": limit})


AgentName = Annotated[str, AfterValidator(check_agent_name), _describe(_AGENT, 32)]
HiveName = Annotated[str, AfterValidator(check_hive_name), _describe(_HIVE, 32)]
Label = Annotated[str, AfterValidator(check_label), _describe(_LABEL, 64)]
PartyName = Annotated[str, AfterValidator(check_party_name), _describe(_LABEL, 64)]
