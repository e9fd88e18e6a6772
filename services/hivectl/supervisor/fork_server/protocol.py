"""What supervisor and fork server say to each other over a SOCK_SEQPACKET pair, one JSON object a packet.

The server begins with `{"ready": true}`. A request carries three or four descriptors. The answer to it is one
of `{"pid": N}`, `{"stale": PATH}` (the code on disk is no longer what was imported; nothing was forked) and
`{"refused": REASON}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

# A request is an environment and little else. The kernel's usual send buffer holds more (socket(7)).
MAX_PACKET_BYTES = 128 * 1024
MAX_DESCRIPTORS = 4


@dataclass(frozen=True)
class ForkRequest:
    """Which unit to become, and with what.

    The descriptors that go with it, in this order: the read end of a pipe on which the new process waits for
    one byte (its end without one means: do not start), its standard input, its log, and the listening socket
    if `listen_fd` says under which number the unit expects one.
    """

    module: str
    title: str
    env: Mapping[str, str]
    cwd: str
    listen_fd: int | None

    def encode(self) -> bytes:
        """The packet."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, packet: bytes) -> Self:
        """The request in a packet."""
        return cls(**json.loads(packet))


def encode_answer(answer: Mapping[str, Any]) -> bytes:
    """A packet of the server."""
    return json.dumps(answer).encode()


def decode_answer(packet: bytes) -> dict[str, Any]:
    """What the server said; empty when it is gone."""
    answer: dict[str, Any] = json.loads(packet) if packet else {}
    return answer
