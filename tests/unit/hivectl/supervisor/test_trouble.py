"""What fails over and over is told when that changes, and not at every attempt."""

from __future__ import annotations

from structlog.testing import CapturingLogger

from services.hivectl.supervisor.trouble import Trouble


def test_it_is_told_once_a_reason_and_once_that_it_is_over() -> None:
    log = CapturingLogger()
    trouble = Trouble(log, failed="claim_failed", recovered="claims_recovered")
    trouble.clear()
    for code in ("unavailable", "unavailable", "database_damaged", "database_damaged", "unavailable"):
        trouble.note(code, reason="because")
    trouble.clear()
    trouble.clear()
    trouble.note("unavailable", reason="because")
    assert [(call.method_name, call.args[0], call.kwargs.get("code")) for call in log.calls] == [
        ("warning", "claim_failed", "unavailable"),
        ("warning", "claim_failed", "database_damaged"),
        ("warning", "claim_failed", "unavailable"),
        ("info", "claims_recovered", None),
        ("warning", "claim_failed", "unavailable"),
    ]
    assert log.calls[3].kwargs == {"after": "unavailable", "attempts": 5}
