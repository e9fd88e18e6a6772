"""Driver events: a program's last words never keep a transition from being told."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from shared.wire.lifecycle import DriverEvent
from shared.wire.model import MAX_UNIX_SECONDS

FACT = {"event_id": "e1", "kind": "crashed", "at": 1, "agent_id": 1}


def test_what_no_store_can_hold_is_replaced_in_a_reason() -> None:
    event = DriverEvent.model_validate({**FACT, "error": "half \ud800 and \x00"})

    assert event.error == "half \ufffd and \ufffd"


def test_a_time_that_no_notice_can_write_is_refused() -> None:
    assert DriverEvent.model_validate({**FACT, "at": MAX_UNIX_SECONDS}).at == MAX_UNIX_SECONDS
    with pytest.raises(ValidationError):
        DriverEvent.model_validate({**FACT, "at": MAX_UNIX_SECONDS + 1})
