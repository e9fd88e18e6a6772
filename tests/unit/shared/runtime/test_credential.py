"""Tokens in files: read again at every change, refused with a reason."""

from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from shared.errors import Misconfigured
from shared.runtime.credential import TokenFile, hash_token, new_token, retiring_path
from shared.runtime.files import write_private
from shared.runtime.log import configure_logging

OLD, NEW = "o" * 43, "n" * 43


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_private(tmp_path / "token", f"{OLD}\n".encode())
    return tmp_path / "token"


def retire(path: Path, content: Any, *, mode: int = 0o600) -> None:
    write_private(retiring_path(path), json.dumps(content).encode(), mode=mode)


def test_new_tokens_are_long_different_and_fit_the_file(tmp_path: Path) -> None:
    tokens = {new_token() for _ in range(100)}

    assert {len(token) for token in tokens} == {43}
    assert len(tokens) == 100
    write_private(tmp_path / "token", tokens.pop().encode())
    assert TokenFile(tmp_path / "token").current()


def test_hash_is_sha256_in_hex() -> None:
    assert hash_token("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_current_token_and_no_other_is_accepted(path: Path) -> None:
    file = TokenFile(path)

    assert file.current() == OLD
    assert file.accepts(OLD)
    for wrong in (NEW, "", OLD[:-1], OLD + "o", "ö" * 43, "\ud800", hash_token(OLD)):
        assert not file.accepts(wrong)


def test_a_replaced_file_is_read_again(path: Path) -> None:
    file = TokenFile(path)
    assert file.accepts(OLD)

    write_private(path, NEW.encode())

    assert file.current() == NEW
    assert file.accepts(NEW)
    assert not file.accepts(OLD)


def test_a_file_rewritten_in_place_is_read_again(path: Path) -> None:
    file = TokenFile(path)
    file.current()

    path.write_text(NEW)
    # Same inode and length; a coarse clock may give the same times to both writes.
    os.utime(path, ns=(1, 1))

    assert file.current() == NEW


def test_a_retiring_token_is_accepted_until_it_expires(path: Path) -> None:
    file = TokenFile(path)
    write_private(path, NEW.encode())

    retire(path, {"sha256": hash_token(OLD), "expires_at": time.time() + 600})
    assert file.accepts(OLD)
    assert file.accepts(NEW)

    retire(path, {"sha256": hash_token(OLD), "expires_at": time.time() - 1})
    assert not file.accepts(OLD)


def test_a_retiring_token_ends_at_once_when_its_file_is_removed(path: Path) -> None:
    file = TokenFile(path)
    write_private(path, NEW.encode())
    retire(path, {"sha256": hash_token(OLD), "expires_at": time.time() + 600})
    assert file.accepts(OLD)

    retiring_path(path).unlink()

    assert not file.accepts(OLD)


def test_each_of_several_retiring_tokens_has_its_own_end(path: Path) -> None:
    file = TokenFile(path)
    older = new_token()
    write_private(path, NEW.encode())
    ends = {hash_token(older): time.time() - 1, hash_token(OLD): time.time() + 600}
    retire(path, [{"sha256": sha256, "expires_at": at} for sha256, at in ends.items()])
    assert [file.accepts(token) for token in (older, OLD, NEW)] == [False, True, True]


@pytest.mark.parametrize(
    "content",
    [
        [],
        [{"sha256": hash_token(OLD)}],
        [[hash_token(OLD), 9e9]],
        {},
        {"sha256": "x", "expires_at": 9e9},
        {"sha256": "", "expires_at": 9e9},
        {"sha256": hash_token(OLD)},
        {"sha256": hash_token(OLD), "expires_at": "soon"},
        {"sha256": hash_token(OLD), "expires_at": float("nan")},
    ],
)
def test_a_bad_retiring_file_is_as_good_as_none(path: Path, content: Any) -> None:
    file = TokenFile(path)
    write_private(path, NEW.encode())

    retire(path, content)

    assert file.accepts(NEW)
    assert not file.accepts(OLD)
    assert not file.accepts("")


def test_a_retiring_file_that_others_may_write_counts_for_nothing_and_is_told_once(path: Path) -> None:
    out = io.StringIO()
    configure_logging("test", stream=out)
    file = TokenFile(path)
    write_private(path, NEW.encode())
    retire(path, {"sha256": hash_token(OLD), "expires_at": time.time() + 600}, mode=0o622)

    assert [file.accepts(OLD) for _ in range(3)] == [False] * 3

    assert out.getvalue().count("retiring_token_ignored") == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"short", "holds no token"),
        (b"x" * 129, "holds no token"),
        (b"two words of some length", "holds no token"),
        (b"t" * 43 + b"\n" + b"t" * 43, "holds no token"),
        ("ö" * 43, "holds no token"),
    ],
)
def test_what_is_no_token_is_refused_without_repeating_it(
    path: Path, content: bytes | str, expected: str
) -> None:
    write_private(path, content.encode() if isinstance(content, str) else content)

    with pytest.raises(Misconfigured, match=expected) as caught:
        TokenFile(path).current()

    assert str(path) in caught.value.message
    assert "ttt" not in caught.value.message
    assert "two words" not in caught.value.message


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused_with_the_remedy(path: Path, mode: int) -> None:
    path.chmod(mode)

    with pytest.raises(Misconfigured, match=f"chmod 600 {path}"):
        TokenFile(path).current()


def test_opening_a_file_up_later_is_noticed(path: Path) -> None:
    file = TokenFile(path)
    file.current()

    path.chmod(0o644)

    with pytest.raises(Misconfigured):
        file.current()


def test_systemd_may_use_modes_of_its_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.chmod(0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(path.parent))

    assert TokenFile(path).current() == OLD


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo"])
def test_no_file_means_no_access_and_says_which_setting(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "token"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    file = TokenFile(path)

    assert not file.accepts(OLD)
    with pytest.raises(Misconfigured, match=str(path)):
        file.current()


def test_a_file_that_comes_back_is_accepted_again(path: Path) -> None:
    file = TokenFile(path)
    file.current()
    path.unlink()
    assert not file.accepts(OLD)

    write_private(path, OLD.encode())

    assert file.accepts(OLD)
