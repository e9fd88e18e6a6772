"""Private files: whole or not at all, through no link, private."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from shared.errors import HiveError, Misconfigured
from shared.runtime.files import make_private_dir, open_directory, remove_private, write_private


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """What a planted link points to, and what must stay as it is."""
    target = tmp_path / "elsewhere"
    target.mkdir(mode=0o755)
    (target / "file").write_text("untouched")
    return target


def test_content_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "token"

    write_private(path, b"one")
    write_private(path, b"two")

    assert path.read_bytes() == b"two"
    assert mode_of(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_asked_for_holds_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_private(tmp_path / "shared", b"", mode=0o640)
    finally:
        os.umask(before)

    assert mode_of(tmp_path / "shared") == 0o640


def test_a_reader_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "hive.json"
    write_private(path, b"old")

    with path.open("rb") as file:
        write_private(path, b"new")
        assert file.read() == b"old"


def test_a_link_at_the_path_is_replaced_not_followed(tmp_path: Path, elsewhere: Path) -> None:
    path = tmp_path / "status"
    path.symlink_to(elsewhere / "file")

    write_private(path, b"mine")

    assert not path.is_symlink()
    assert (elsewhere / "file").read_text() == "untouched"


def test_a_linked_directory_is_refused_by_name(tmp_path: Path, elsewhere: Path) -> None:
    (tmp_path / "reminders").symlink_to(elsewhere)

    with pytest.raises(Misconfigured, match="reminders is a symbolic link"):
        write_private(tmp_path / "reminders" / "new", b"x")
    with pytest.raises(Misconfigured, match="reminders is a symbolic link"):
        make_private_dir(tmp_path / "reminders")

    assert sorted(p.name for p in elsewhere.iterdir()) == ["file"]
    assert mode_of(elsewhere) == 0o755


def test_links_further_up_are_refused_within_a_root(tmp_path: Path, elsewhere: Path) -> None:
    (elsewhere / "tasks").mkdir()
    (tmp_path / "harness").symlink_to(elsewhere)
    path = tmp_path / "harness" / "tasks" / "1.out"

    with pytest.raises(HiveError):
        write_private(path, b"x", within=tmp_path)

    assert list((elsewhere / "tasks").iterdir()) == []
    (tmp_path / "harness").unlink()
    make_private_dir(path.parent)
    write_private(path, b"x", within=tmp_path)
    assert path.read_bytes() == b"x"


@pytest.mark.parametrize("path", ["root/../out", "out"])
def test_nothing_leaves_the_root(tmp_path: Path, path: str) -> None:
    (tmp_path / "root").mkdir()

    with pytest.raises(ValueError), open_directory(tmp_path / path, within=tmp_path / "root"):
        pass


def test_a_missing_parent_is_an_error_that_names_the_path(tmp_path: Path) -> None:
    path = tmp_path / "none" / "token"

    with pytest.raises(Misconfigured, match=f"cannot write {path}: No such file"):
        write_private(path, b"x")


def test_a_full_disk_is_an_error_and_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_private(path, b"old")
    # /dev/full has no directories; a file size limit fails the write in the same place, with EFBIG.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        with pytest.raises(HiveError, match=f"cannot write {path}") as caught:
            write_private(path, b"x" * 4096)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert caught.value.code == "storage_failed"
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_removing_is_done_once_and_harmless_twice(tmp_path: Path, elsewhere: Path) -> None:
    (tmp_path / "link").symlink_to(elsewhere / "file")

    remove_private(tmp_path / "link")
    remove_private(tmp_path / "link")

    assert not (tmp_path / "link").is_symlink()
    assert (elsewhere / "file").exists()


def test_directories_are_made_private_with_their_parents(tmp_path: Path) -> None:
    path = tmp_path / "agents" / "ruth" / "state"

    make_private_dir(path, 0o750)

    assert [mode_of(p) for p in (path, path.parent, path.parent.parent)] == [0o750, 0o700, 0o700]


def test_an_open_directory_is_closed_again(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir(mode=0o777)

    make_private_dir(path)

    assert mode_of(path) == 0o700


def test_a_file_in_a_directorys_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")

    with pytest.raises(Misconfigured, match="Not a directory"):
        make_private_dir(tmp_path / "run")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_hands_over_what_it_makes_to_the_owner_of_the_directory(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 4242, 4243)

    write_private(home / "token", b"one", hand_over=True)
    make_private_dir(home / "state", hand_over=True)
    write_private(home / "kept", b"two")

    owners = {path.name: (path.stat().st_uid, path.stat().st_gid) for path in home.iterdir()}
    assert owners == {"token": (4242, 4243), "state": (4242, 4243), "kept": (0, 0)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_directory_that_exists_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.mkdir()
    os.chown(path, 4242, 4243)

    make_private_dir(path, hand_over=True)

    assert (path.stat().st_uid, mode_of(path)) == (4242, 0o700)
