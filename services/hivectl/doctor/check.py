"""What a check answers: one fact, whether it is as it should be, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad it is. Only an error makes `doctor` fail."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Check:
    """One line of the report. `name` is dotted and stable; `mend` is empty where all is well."""

    name: str
    ok: bool
    severity: Severity
    detail: str
    mend: str = ""

    def as_json(self) -> dict[str, Any]:
        """The fields of the contract."""
        return {
            "name": self.name,
            "ok": self.ok,
            "severity": self.severity.value,
            "detail": self.detail,
            "mend": self.mend,
        }


def passed(name: str, detail: str) -> Check:
    """All is well."""
    return Check(name, ok=True, severity=Severity.INFO, detail=detail)


def warning(name: str, detail: str, mend: str) -> Check:
    """Worth knowing; the hive works."""
    return Check(name, ok=False, severity=Severity.WARNING, detail=detail, mend=mend)


def error(name: str, detail: str, mend: str) -> Check:
    """Something does not work, or is not safe."""
    return Check(name, ok=False, severity=Severity.ERROR, detail=detail, mend=mend)
