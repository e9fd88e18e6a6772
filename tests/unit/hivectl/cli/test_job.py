"""A job that another one of its agent does not admit is asked for again when that one has ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.hivectl.client import OperatorClient
from services.hivectl.job import queue_job
from shared.errors import Conflict, NotFound
from shared.wire.lifecycle import JobKind
from tests.unit.hivectl.cli.answers import Answer, reply, serve_answers

HIVE = {
    "hive_name": "hive",
    "revision": "1",
    "agents": 1,
    "nats_connected": True,
    "notices_waiting": 0,
    "driver_connected": True,
}


def _job(number: int, kind: str, state: str) -> dict[str, Any]:
    return {
        "id": number,
        "kind": kind,
        "agent": "iris",
        "agent_id": 4,
        "port_block": 1,
        "state": state,
        "created_at": 1,
    }


def _json(status: int, body: dict[str, Any]) -> Answer:
    return reply(status, json.dumps(body).encode())


UNDER_WAY = _json(409, {"code": "job_under_way", "message": "iris has job 7", "details": {"job": 7}})


def _queue(*answers: Answer, patience_seconds: float = 60) -> tuple[int, list[str], list[bytes]]:
    said: list[str] = []
    with serve_answers(*answers) as (url, received), OperatorClient(url, "secret") as client:
        job = queue_job(client, "iris", JobKind.START, say=said.append, patience_seconds=patience_seconds)
    return job.id, said, received


def test_it_waits_says_for_what_and_asks_again() -> None:
    open_, done = _job(7, "stop", "claimed"), _job(7, "stop", "done")
    made = _json(201, _job(8, "start", "queued"))
    number, said, received = _queue(
        *(UNDER_WAY, _json(200, open_), _json(200, HIVE)),
        *(UNDER_WAY, _json(200, open_), _json(200, HIVE)),
        *(UNDER_WAY, _json(200, done), made),
    )
    assert number == 8
    assert said == ["iris: waiting for the end of job 7 (stop) before the start"]
    assert received[1].startswith(b"GET /v1/operator/jobs/7?wait_seconds=5 ")


def test_a_job_that_failed_is_no_longer_in_the_way() -> None:
    failed = _json(200, _job(7, "stop", "failed"))
    assert _queue(UNDER_WAY, failed, _json(201, _job(8, "start", "queued")))[:2] == (8, [])


def test_what_was_destroyed_meanwhile_is_not_found() -> None:
    gone = _json(404, {"code": "not_found", "message": "there is no agent iris"})
    with pytest.raises(NotFound):
        _queue(UNDER_WAY, _json(200, _job(7, "destroy", "done")), gone)


def test_patience_ends() -> None:
    with pytest.raises(Conflict) as caught:
        _queue(UNDER_WAY, _json(200, _job(7, "stop", "claimed")), patience_seconds=0)
    assert caught.value.code == "job_under_way"


def test_without_a_supervisor_there_is_nothing_to_wait_for() -> None:
    away = _json(200, {**HIVE, "driver_connected": False})
    with pytest.raises(Conflict, match="hivectl up") as caught:
        _queue(UNDER_WAY, _json(200, _job(7, "stop", "queued")), away)
    assert (caught.value.code, caught.value.details) == ("job_under_way", {"job": 7})


def test_another_conflict_is_not_waited_for() -> None:
    with pytest.raises(Conflict, match="below it"):
        _queue(_json(409, {"code": "root_has_children", "message": "has agents below it"}))
