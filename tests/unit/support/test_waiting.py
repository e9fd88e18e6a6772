"""`eventually` waits for a truth, not longer than it was told, and says what it saw last."""

from __future__ import annotations

import pytest

from tests.support.waiting import eventually


def test_the_first_true_answer_is_returned() -> None:
    answers = iter([None, 0, "here"])
    assert eventually(lambda: next(answers)) == "here"


def test_a_failing_probe_is_asked_again() -> None:
    answers = iter([OSError("refused"), None])

    def probe() -> bool:
        if error := next(answers):
            raise error
        return True

    assert eventually(probe)


def test_the_last_answer_is_reported() -> None:
    with pytest.raises(TimeoutError, match=r"the port.*refused"):
        eventually(lambda: (_ for _ in ()).throw(OSError("refused")), within=0, what="the port")
