"""The text of the server's configuration, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.hivectl.nats_config import render_config
from shared.errors import Misconfigured

PASSWORD = "p" * 20


def render(**changes: object) -> str:
    fields: dict[str, object] = {
        "port": 7022,
        "http": None,
        "store_dir": Path("/x/store"),
        "server_name": "swarm",
        "hive": "h1",
        "broker_password": PASSWORD,
        "sys_password": PASSWORD,
        "readers": {"default": PASSWORD},
    }
    return render_config(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_server_listens_on_loopback_alone_and_syncs_always() -> None:
    text = render()

    assert 'listen: "127.0.0.1:7022"' in text
    assert "sync_interval: always" in text
    assert "http:" not in text


def test_monitoring_pages_are_on_loopback_too() -> None:
    assert 'http: "127.0.0.1:8022"' in render(http=8022)


@pytest.mark.parametrize("name", ["", "..", "A", "a.b", "a>", "a*", 'a"', "a b", "x" * 33, "\u0430"])
def test_a_name_that_could_widen_a_permission_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be 1 to 32"):
        render(hive=name)
    with pytest.raises(ValueError, match="must be 1 to 32"):
        render(readers={name: PASSWORD})


@pytest.mark.parametrize("password", ["", "short", 'quote"' + "x" * 20, "$VARIABLE" + "x" * 20, "x" * 129])
def test_a_password_that_could_end_its_string_is_refused(password: str) -> None:
    with pytest.raises(Misconfigured, match="NATS password of h1-READER-default"):
        render(readers={"default": password})
