"""Root may run `hivectl` on a hive of other users: files stay theirs, and their links lead root nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.hivectl.provision import ensure_hive_files
from services.hivectl.provision.owned import read_owned
from services.hivectl.provision.tokens import read_token
from shared.errors import Misconfigured
from shared.layout import HiveLayout

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@as_root
def test_a_hive_completed_by_root_belongs_to_the_owner_of_its_root(tmp_path: Path) -> None:
    root = tmp_path / "hive"
    root.mkdir(mode=0o700)
    os.chown(root, 4242, 4242)

    ensure_hive_files(HiveLayout(root))

    assert {path.stat().st_uid for path in root.rglob("*")} == {4242}


@as_root
def test_a_root_that_root_makes_stays_root_s(tmp_path: Path) -> None:
    above = tmp_path / "somebody"
    above.mkdir()
    os.chown(above, 4242, 4242)

    ensure_hive_files(HiveLayout(above / "hive"))

    assert {path.stat().st_uid for path in (above / "hive").rglob("*")} == {0}


def test_link_in_place_of_a_token_is_not_followed(tmp_path: Path) -> None:
    layout = HiveLayout(tmp_path / "hive")
    ensure_hive_files(layout)
    paths = layout.agent("iris")
    paths.home.mkdir(parents=True)
    paths.token_file.symlink_to(layout.operator_token_file)

    with pytest.raises(Misconfigured, match="cannot be read"):
        read_token(paths)


def test_pipe_in_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")

    assert read_owned(tmp_path / "token") == b""
