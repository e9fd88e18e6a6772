"""Finding real paths, and cutting trees around what is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.sandbox.paths import cut_around, find_real, is_within


def test_a_real_path_comes_with_the_links_on_its_way(tmp_path: Path) -> None:
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to(tmp_path / "real")

    found = find_real(f"{tmp_path}/one/./deep/../deep")

    assert found is not None
    assert found.path == str(tmp_path / "real/deep")
    assert found.links == ((f"{tmp_path}/one", "two"), (f"{tmp_path}/two", f"{tmp_path}/real"))


def test_a_link_inside_an_untrusted_tree_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/laid").symlink_to("/etc")

    assert find_real(f"{tmp_path}/theirs/laid/passwd", untrusted=[f"{tmp_path}/theirs"]) is None
    assert find_real(f"{tmp_path}/theirs/laid/passwd") is not None


def test_a_link_that_leads_to_itself_or_to_nothing_is_missing(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nothing")

    assert find_real(f"{tmp_path}/loop") is None
    assert find_real(f"{tmp_path}/dangling") is None


@pytest.mark.parametrize(
    ("path", "tree", "within"),
    [("/a/b", "/a", True), ("/a", "/a", True), ("/ab", "/a", False), ("/a", "/", True), ("/", "/a", False)],
)
def test_within_goes_by_whole_names(path: str, tree: str, within: bool) -> None:
    assert is_within(path, tree) is within


def test_a_tree_is_cut_so_that_nothing_hidden_is_in_any_part(tmp_path: Path) -> None:
    for name in ("a/secret/x", "a/open", "b", "secret2"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("b")

    parts = set(cut_around(str(tmp_path), [f"{tmp_path}/a/secret", f"{tmp_path}/secret2", "/elsewhere"]))

    assert parts == {
        ("directory", f"{tmp_path}"),
        ("directory", f"{tmp_path}/a"),
        ("whole", f"{tmp_path}/a/open"),
        ("whole", f"{tmp_path}/b"),
        ("link", f"{tmp_path}/link"),
    }


def test_a_tree_that_is_hidden_itself_has_no_parts(tmp_path: Path) -> None:
    assert list(cut_around(str(tmp_path), [str(tmp_path)])) == []
