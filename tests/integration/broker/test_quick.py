"""The quick way of the busiest routes and the framework's: nobody can tell which way a request went.

JSON in UTF-16 is what the framework reads and the quick way leaves to it.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from shared.wire.messages import AckResult
from tests.integration.broker.running import BOOTS, Broker, Peer

UNSTEADY = {"date", "server", "x-request-id"}
QUICK, FRAMEWORK = "utf-8", "utf-16"


async def post(peer: Peer, path: str, body: Any, encoding: str, *keys: str) -> httpx2.Response:
    headers = [
        ("Authorization", f"Bearer {peer.token}"),
        ("Content-Type", "application/json"),
        *(("Idempotency-Key", key) for key in keys),
    ]
    content = json.dumps(body).encode(encoding)
    return await peer.http.post(f"{peer.tree}{path}", content=content, headers=headers)


def look(response: httpx2.Response) -> tuple[int, list[tuple[str, str]], bytes]:
    """All of an answer but what differs between any two."""
    headers = [item for item in response.headers.multi_items() if item[0] not in UNSTEADY]
    content = response.content
    if response.is_error:
        content = json.dumps({**response.json(), "request_id": None}).encode()
    return response.status_code, headers, content


@pytest.mark.parametrize("ways", [(QUICK, FRAMEWORK), (FRAMEWORK, QUICK)])
async def test_a_repeat_that_goes_the_other_way_gets_the_same_bytes(
    broker: Broker, ruth: Peer, iris: Peer, ways: tuple[str, str]
) -> None:
    message = {"to": "iris", "body": "na\u00efve \U0001f41d\u2028", "turn": "t1", "urgent": False}
    sent = [look(await post(ruth, "/messages", message, way, "k1")) for way in ways]
    request = {"max": 2, "boot": BOOTS[0], "turn": "t2"}
    received = [look(await post(iris, "/inbox/recv", request, way, "k2")) for way in ways]
    assert sent[0] == sent[1]
    assert sent[0][0] == 201
    assert received[0] == received[1]
    assert json.loads(received[0][2])["messages"][0]["body"] == message["body"]


@pytest.mark.parametrize("way", [QUICK, FRAMEWORK])
async def test_an_ack_answers_alike_both_ways(broker: Broker, ruth: Peer, iris: Peer, way: str) -> None:
    message_id = await ruth.send("iris")
    await iris.recv()
    status, headers, content = look(await post(iris, "/inbox/ack", {"up_to": message_id}, way))
    assert status == 200
    assert headers == [("content-length", str(len(content))), ("content-type", "application/json")]
    result = AckResult.model_validate_json(content)
    assert content == result.model_dump_json().encode()
    assert result.acked_ids == [message_id]


@pytest.mark.parametrize(
    ("path", "body", "keys"),
    [
        ("/messages", {"to": "nobody", "body": "x"}, ()),
        ("/messages", {"to": "ruth", "body": "x"}, ()),
        ("/messages", {"to": "iris", "body": " "}, ()),
        ("/messages", {"to": "iris", "body": "\ud800"}, ()),
        ("/messages", {"to": "iris", "body": "x", "in_reply_to": 1.0}, ()),
        ("/messages", {"to": "iris", "body": "x"}, ("not a key",)),
        ("/messages", {"to": "iris", "body": "x", "color": "red"}, ()),
        ("/inbox/recv", {"max": True}, ()),
        ("/inbox/ack", {"up_to": 0}, ()),
        ("/inbox/ack", None, ()),
    ],
)
async def test_a_refusal_reads_alike_both_ways(
    standing: Broker, path: str, body: Any, keys: tuple[str, ...]
) -> None:
    ruth = standing.agents["ruth"]
    quick, framework = [look(await post(ruth, path, body, way, *keys)) for way in (QUICK, FRAMEWORK)]
    assert quick == framework
    assert quick[0] >= 400


async def test_of_two_keys_the_same_one_counts_both_ways(broker: Broker, ruth: Peer) -> None:
    sent = [
        look(await post(ruth, "/messages", {"to": "iris", "body": "x"}, way, *keys))
        for way, keys in ((FRAMEWORK, ("k1", "k2")), (QUICK, ("k1", "k2")))
    ]
    assert sent[0] == sent[1]


@pytest.mark.parametrize("name", [None, "iris", "ruth", "nobody", "-"])
async def test_metadata_read_alike_both_ways(standing: Broker, name: str | None) -> None:
    # What it does not know the framework leaves aside, and the quick way leaves all to the framework.
    ruth = standing.agents["ruth"]
    headers = {"Authorization": f"Bearer {ruth.token}"}
    queries = [
        {} if name is None else {"name": name},
        {"aside": "1"} | ({} if name is None else {"name": name}),
    ]
    quick, framework = [
        look(await ruth.http.get(f"{ruth.tree}/meta", params=query, headers=headers)) for query in queries
    ]
    assert quick == framework
    assert (quick[0] == 200) == (name in {None, "iris", "ruth"})
