"""The hive's own files: private, made once, and what `up` was told is kept."""

import json
from pathlib import Path

import pytest

from services.hivectl.hive_file import read_hive_file
from services.hivectl.provision import (
    ForeignNats,
    HiveSettings,
    check_nats_url,
    describe_foreign_nats,
    ensure_embedded_nats,
    ensure_hive_files,
    find_settings,
    save_settings,
    write_hive_file,
)
from shared.errors import Misconfigured
from shared.layout import HiveLayout

SETTINGS = HiveSettings(port_base=9000, hive_name="north")
ELSEWHERE = ForeignNats(url="nats://127.0.0.1:4222")


@pytest.fixture
def layout(tmp_path: Path) -> HiveLayout:
    layout = HiveLayout(tmp_path / "hive")
    ensure_hive_files(layout)
    return layout


def test_everything_is_private_and_the_operator_s_token_is_made_once(layout: HiveLayout) -> None:
    token = layout.operator_token_file.read_text()
    ensure_hive_files(layout)
    ensure_embedded_nats(layout, SETTINGS)
    assert layout.operator_token_file.read_text() == token
    for path in layout.root.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_settings_are_kept(layout: HiveLayout) -> None:
    assert find_settings(layout) is None
    save_settings(layout, SETTINGS)
    assert find_settings(layout) == SETTINGS


@pytest.mark.parametrize("content", ["not json", '{"port_base": 0}', '{"hive_name": "../x"}'])
def test_damaged_settings_name_the_file(layout: HiveLayout, content: str) -> None:
    (layout.root / "settings.json").write_text(content)
    with pytest.raises(Misconfigured, match=r"settings\.json"):
        find_settings(layout)


def test_hive_json_names_broker_and_reader(layout: HiveLayout) -> None:
    nats = ensure_embedded_nats(layout, SETTINGS)
    write_hive_file(layout, SETTINGS.ports, nats.part)
    assert json.loads(layout.hive_json.read_text()) == {
        "broker": {
            "url": "http://127.0.0.1:9000",
            "operator_token_file": str(layout.operator_token_file),
        },
        "nats": {
            "url": "nats://127.0.0.1:9022",
            "reader_user": "north-READER-default",
            "reader_password_file": str(layout.nats_dir / "readers" / "default.password"),
            "inbox_prefix": "_INBOX_north-READER-default",
            "durable": "north-READER-default",
        },
        "agents": {},
    }
    assert read_hive_file(layout).broker.url == "http://127.0.0.1:9000"


def test_passwords_of_nats_are_made_once(layout: HiveLayout) -> None:
    ensure_embedded_nats(layout, SETTINGS)
    before = (layout.nats_dir / "nats.conf").read_text()
    assert ensure_embedded_nats(layout, SETTINGS).config == layout.nats_dir / "nats.conf"
    assert (layout.nats_dir / "nats.conf").read_text() == before


def test_a_server_elsewhere_has_no_reader_unless_its_password_was_put_there(layout: HiveLayout) -> None:
    assert describe_foreign_nats(layout, SETTINGS, ELSEWHERE).part is None
    readers = layout.nats_dir / "readers"
    readers.mkdir()
    (readers / "default.password").write_text("x" * 20)
    part = describe_foreign_nats(layout, SETTINGS, ELSEWHERE).part
    assert part is not None
    assert part.url == "nats://127.0.0.1:4222"


@pytest.mark.parametrize("url", ["127.0.0.1:4222", "nats://user:secret@host:4222", "http://host", "nats://"])
def test_an_url_of_nats_is_checked_and_its_secret_not_shown(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        check_nats_url(url, what="--nats-url")
    assert "secret" not in caught.value.message
