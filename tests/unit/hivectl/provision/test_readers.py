"""Readers' files: made once, taken aside before they go, and never those of a server that is not ours."""

from pathlib import Path

import pytest

from services.hivectl.provision import (
    ForeignNats,
    HiveSettings,
    add_reader,
    describe_foreign_nats,
    ensure_embedded_nats,
    ensure_hive_files,
    find_nats,
    forget_reader,
    list_readers,
    list_revoked,
    save_settings,
    withdraw_reader,
    write_hive_file,
)
from shared.errors import Conflict
from shared.layout import HiveLayout

SETTINGS = HiveSettings(port_base=9000, hive_name="north")
ELSEWHERE = ForeignNats(url="nats://127.0.0.1:4222")


@pytest.fixture
def layout(tmp_path: Path) -> HiveLayout:
    """The files of a hive with a server of its own."""
    layout = HiveLayout(tmp_path / "hive")
    ensure_hive_files(layout)
    save_settings(layout, SETTINGS)
    write_hive_file(layout, SETTINGS.ports, ensure_embedded_nats(layout, SETTINGS).part)
    return layout


def config(layout: HiveLayout) -> str:
    return (layout.nats_dir / "nats.conf").read_text()


def test_a_reader_gets_a_private_password_once_and_is_in_the_configuration(layout: HiveLayout) -> None:
    path = add_reader(layout, "pager")
    password = path.read_text().strip()
    assert add_reader(layout, "pager") == path
    assert path.read_text().strip() == password
    assert path.stat().st_mode & 0o777 == 0o600
    assert f'user: "north-READER-pager", password: "{password}"' in config(layout)
    assert "north-READER-default" in config(layout)
    assert list_readers(layout) == ["default", "pager"]


def test_a_withdrawn_reader_is_out_of_the_configuration_until_it_is_forgotten(layout: HiveLayout) -> None:
    path = add_reader(layout, "pager")
    password = path.read_text().strip()
    for _ in range(2):
        assert withdraw_reader(layout, "pager") == password
        assert not path.exists()
        assert "pager" not in config(layout)
        assert (list_readers(layout), list_revoked(layout)) == (["default"], ["pager"])
    forget_reader(layout, "pager")
    assert withdraw_reader(layout, "pager") is None
    assert list_revoked(layout) == []


def test_one_granted_again_has_another_password_and_is_not_being_revoked(layout: HiveLayout) -> None:
    old = add_reader(layout, "pager").read_text()
    withdraw_reader(layout, "pager")
    assert add_reader(layout, "pager").read_text() != old
    assert list_revoked(layout) == []


def test_a_file_that_is_named_otherwise_is_no_reader(layout: HiveLayout) -> None:
    for name in ("A.password", "pager.password.old", "a b.password", ".password"):
        (layout.nats_dir / "readers" / name).write_text("x" * 20)
    ensure_embedded_nats(layout, SETTINGS)
    assert list_readers(layout) == ["default"]


def test_on_a_server_of_somebody_else_it_is_said_what_to_do(tmp_path: Path) -> None:
    layout = HiveLayout(tmp_path / "hive")
    ensure_hive_files(layout)
    save_settings(layout, SETTINGS)
    write_hive_file(layout, SETTINGS.ports, None)
    with pytest.raises(Conflict, match=r"default") as first:
        add_reader(layout, "pager")
    readers = layout.nats_dir / "readers"
    readers.mkdir()
    (readers / "default.password").write_text("x" * 20)
    part = describe_foreign_nats(layout, SETTINGS, ELSEWHERE).part
    write_hive_file(layout, SETTINGS.ports, part)
    with pytest.raises(Conflict) as second:
        add_reader(layout, "pager")
    (readers / "pager.password").write_text("y" * 20)

    assert add_reader(layout, "pager") == readers / "pager.password"
    assert not find_nats(layout).is_embedded
    assert not (layout.nats_dir / "nats.conf").exists()
    for refused in (first, second):
        assert refused.value.code == "foreign_nats"
        assert "user north-READER-pager there (docs/adr/0006" in refused.value.message
        assert str(readers / "pager.password") in refused.value.message
