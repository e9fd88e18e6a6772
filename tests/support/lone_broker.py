"""A broker process on a real nats-server; the test is the driver, and stops, copies and restores both.

No surfaces, no supervisor: agents are rows, and what happens to them is what the test reports.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
from nats.js import api

from services.hivectl.nats_config import BROKER_USER, SYS_USER
from shared.runtime.ids import new_ulid
from shared.wire.notices import STREAM, inbox_prefix_of
from tests.support.nats import NatsServer, nats_server
from tests.support.notices import Notice, connected_reader
from tests.support.script import JsonObject
from tests.support.units import STOP_SECONDS, Units, running_units
from tests.support.waiting import eventually

RELAY_SECONDS = 30.0
_PROBE = "probe"


@dataclass
class LoneBroker:
    """The two processes and their files."""

    units: Units
    server: NatsServer
    copies: Path
    _ids: dict[str, int] = field(default_factory=dict)

    def hive(self) -> JsonObject:
        """What the broker says of the hive."""
        return dict(self.units.operator.json("GET", "/hive"))

    def saw(self, agent: str, *kinds: str) -> None:
        """Report what happened to an agent, one transition after the other."""
        if agent not in self._ids:
            self._ids[agent] = self.units.operator.json("GET", f"/agents/{agent}")["id"]
        rows = [
            {"event_id": new_ulid(), "kind": kind, "at": 1_800_000_000, "agent_id": self._ids[agent]}
            for kind in kinds
        ]
        self.units.operator.json("POST", "/driver/events", {"driver_id": new_ulid(), "events": rows})

    def stop_broker(self) -> None:
        """End it in order."""
        process = self.units.broker.process
        assert process is not None
        process.terminate()
        assert process.wait(STOP_SECONDS) == 0

    def wait_published(self) -> None:
        """Wait until no notice waits."""
        eventually(
            lambda: self.hive()["notices_waiting"] == 0,
            within=RELAY_SECONDS,
            what="all notices are published",
        )

    async def published(self) -> list[Notice]:
        """All notices in the stream, in its order."""
        async with connected_reader(self.login()) as reader:
            return [notice for notice in await reader.history() if notice.what[0] != _PROBE]

    def login(self, name: str = "default") -> JsonObject:
        """What `hive.json` would say of a reader."""
        identity = self.server.identity(name)
        file = self.server.directory / f"{name}.password"
        file.write_text(self.server.readers[name])
        return {
            "url": self.server.url,
            "reader_user": identity,
            "reader_password_file": str(file),
            "inbox_prefix": inbox_prefix_of(identity),
            "durable": identity,
        }

    def save(self, place: Path) -> None:
        """Copy a directory away; whoever writes it must be down."""
        shutil.copytree(place, self.copies / place.name)

    def restore(self, place: Path) -> None:
        """Put the copy in its place, with nothing left of what was there."""
        shutil.rmtree(place)
        shutil.copytree(self.copies / place.name, place)

    @property
    def database(self) -> Path:
        """The directory of the broker's database."""
        return self.units.layout.database.parent

    @property
    def store(self) -> Path:
        """The directory of JetStream's files."""
        return self.server.directory / "store"

    async def forget_ids(self) -> None:
        """Have the server forget the ids of what was published, as it does by itself after an hour."""
        async with self.server.broker() as (client, _):
            stream = client.jetstream()
            config = (await stream.stream_info(STREAM)).config
            await stream.update_stream(api.StreamConfig.from_response(config.as_dict()), duplicate_window=0.1)
            subject = f"swarm.notices.{self.server.hive}.{_PROBE}.started"
            headers = {"Nats-Msg-Id": _PROBE}
            await stream.publish(subject, b"{}", headers=headers)
            with anyio.fail_after(10):
                while (await stream.publish(subject, b"{}", headers=headers)).duplicate:  # noqa: ASYNC110
                    await anyio.sleep(0.05)


@contextmanager
def lone_broker(directory: Path, *, start_nats: bool = True, **broker_env: str) -> Iterator[LoneBroker]:
    """Run both, with the agents `ruth` (root) and `iris`, and the reader `default` granted."""
    with nats_server(directory / "nats", start=start_nats) as server:
        env = {
            "HIVE_BROKER_HIVE_NAME": server.hive,
            "HIVE_BROKER_NATS_URL": server.url,
            "HIVE_BROKER_NATS_USER": BROKER_USER,
            "HIVE_BROKER_NATS_PASSWORD_FILE": str(server.directory / "broker.password"),
            "HIVE_BROKER_NATS_SYS_USER": SYS_USER,
            "HIVE_BROKER_NATS_SYS_PASSWORD_FILE": str(server.directory / "sys.password"),
        }
        with running_units(**{**env, **broker_env}) as units:
            units.enlist("ruth")
            units.enlist("iris", parent="ruth")
            units.operator.json("POST", "/notice-readers", {"name": "default"})
            yield LoneBroker(units, server, directory)
