"""What is the hive's, the operator's or another agent's."""

from __future__ import annotations

import os
from pathlib import Path

from tests.integration.sandbox.inside.trying import attempt, connect, fact, own, read


@attempt
def read_operator_token() -> object:
    return read(fact("operator_token"))


@attempt
def read_own_token() -> object:
    return read(fact("own_token"))


@attempt
def read_other_token() -> object:
    return read(fact("other_token"))


@attempt
def read_other_state() -> object:
    return read(fact("other_secret"))


@attempt
def read_other_state_by_dots() -> object:
    return read(f"{fact('state')}/../../bob/state/secret")


@attempt
def read_other_state_by_own_link() -> object:
    link = Path(own("leads-out"))
    link.symlink_to(fact("other_secret"))
    return link.read_bytes()


@attempt
def hard_link_other_state() -> None:
    os.link(fact("other_secret"), own("linked"))


@attempt
def write_other_state() -> object:
    return Path(fact("other_state"), "planted").write_text("x")


@attempt
def truncate_other_state() -> None:
    os.truncate(fact("other_scratch"), 0)


@attempt
def list_other_state() -> object:
    return os.listdir(fact("other_state"))


@attempt
def see_other_state() -> object:
    return os.stat(fact("other_state"))


@attempt
def change_mode_of_other_state() -> None:
    os.chmod(fact("other_scratch"), 0o600)


@attempt
def connect_other_socket() -> object:
    return connect(fact("other_socket"))


@attempt
def bind_over_own_socket() -> None:
    os.unlink(fact("agent_socket"))


@attempt
def read_protected() -> object:
    return read(fact("protected_file"))


@attempt
def read_protected_by_added_link() -> object:
    return read(f"{fact('added_writable')}/laid/secret")
