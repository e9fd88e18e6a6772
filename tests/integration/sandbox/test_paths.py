"""Paths of a policy: swapped for links, odd, missing, reached through links, bound anew."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.sandbox import Kind, Prepared, SandboxFailed, choose, prepare, run_inside, wait_for
from tests.integration.sandbox.conftest import SECRET, Place


@pytest.mark.requirement("sandbox.swapped")
def test_an_added_path_that_becomes_a_link_after_the_look_is_not_shown(own_place: Place, kind: Kind) -> None:
    shown = own_place.base / "data/sub"
    shown.mkdir()
    policy = own_place.policy(readable=(str(shown),), writable=(own_place.facts["state"],))
    prepared = prepare(policy, choose(kind))
    shown.rmdir()
    shown.symlink_to(own_place.base / "outside")

    code = _exit_code(
        prepared, lambda: int(_can_read(shown / "secret") or _can_read(own_place.base / "outside/secret"))
    )

    assert code == 0


@pytest.mark.requirement("sandbox.swapped", "sandbox.all-or-nothing")
def test_a_state_directory_that_became_a_link_is_an_error_and_nothing_runs(
    own_place: Place, kind: Kind
) -> None:
    prepared = prepare(own_place.policy(), choose(kind))
    shutil.rmtree(own_place.state)
    own_place.state.symlink_to(own_place.base / "outside")
    ran = own_place.base / "outside/ran"

    with pytest.raises(SandboxFailed, match="state"):
        _exit_code(prepared, lambda: _create(own_place.state / "ran"))

    assert not ran.exists()


@pytest.mark.requirement("sandbox.swapped")
def test_a_link_laid_in_the_private_tmp_moves_nothing_outside(place: Place) -> None:
    # Below /tmp the state directory's place is made inside the private one, which the agent fills.
    private = Path(place.policy().temporary)
    if not place.base.is_relative_to("/tmp"):
        base = Path("/tmp", place.base.name)
        place.base.rename(base)
        moved = {name: str(value).replace(str(place.base), str(base)) for name, value in place.facts.items()}
        place.base, place.facts = base, moved
        private = Path(place.policy().temporary)
    (private / place.base.name).symlink_to(place.base / "outside")

    done = place.inside(Kind.NAMESPACES, "pwd; echo x > made")

    assert done.stdout.strip() == str(place.state)
    assert (place.state / "made").exists()
    assert sorted(path.name for path in (place.base / "outside").iterdir()) == ["secret"]


@pytest.mark.requirement("sandbox.odd-paths")
def test_spaces_newlines_and_odd_bytes_in_paths_do_no_harm(place: Place, kind: Kind) -> None:
    odd = place.base / "a\nb \udcff:,\\"
    odd.mkdir()
    (odd / "file").write_text("odd")

    done = place.inside(kind, f"cd '{place.base}'; cat a*/file", readable=(str(odd),))

    # With Landlock the directory above cannot be listed.
    direct = place.run(
        *place.command(kind, "cat", str(odd / "file"), policy=place.policy(readable=(str(odd),)))
    )
    assert direct.stdout == "odd"
    assert done.stdout == "odd" or kind is Kind.LANDLOCK


@pytest.mark.requirement("sandbox.odd-paths")
def test_a_hive_reached_through_a_link_is_there_by_both_names(place: Place, kind: Kind) -> None:
    alias = place.base / "alias"
    alias.symlink_to("hive")

    def named(path: str) -> str:
        return path.replace(str(place.home), str(alias))

    ours = place.policy()
    done = place.inside(
        kind,
        f"cd '{alias}/agents/iris/state'; echo x > one && cat '{place.state}/one' ../../../operator/token",
        home=named(ours.home),
        writable=tuple(map(named, ours.writable)),
        sockets=tuple(map(named, ours.sockets)),
        temporary=named(ours.temporary),
    )

    assert done.stdout == "x\n"
    assert done.returncode != 0


@pytest.mark.requirement("sandbox.odd-paths")
def test_what_is_missing_is_left_out_but_not_the_state_directory(place: Place, kind: Kind) -> None:
    prepare(place.policy(readable=("/nowhere/at/all",)), choose(kind))

    with pytest.raises(SandboxFailed, match="state directory"):
        prepare(place.policy(writable=(str(place.home / "agents/eve/state"),)), choose(kind))


@pytest.mark.requirement("sandbox.protected")
def test_a_hive_inside_an_added_directory_stays_hidden(place: Place, kind: Kind) -> None:
    policy = place.policy(
        writable=(place.facts["state"], str(place.base)), protected=(place.facts["protected"],)
    )
    hidden = f"'{place.facts['operator_token']}' '{place.facts['protected_file']}'"
    script = f"cat {hidden}; cat '{place.base}/library/file'"

    done = place.run(*place.command(kind, "sh", "-c", script, policy=policy))

    assert done.stdout == SECRET


@pytest.mark.requirement("sandbox.protected", "sandbox.odd-paths")
@pytest.mark.parametrize("access", ["readable", "writable"])
def test_where_all_of_the_machine_is_added_the_hive_and_what_is_protected_stay_hidden(
    place: Place, kind: Kind, access: str
) -> None:
    policy = place.policy()
    hidden = f"'{place.facts['operator_token']}' '{place.facts['protected_file']}' /etc/shadow"
    script = f"cat {hidden}; echo works > f; cat f"

    done = place.inside(kind, script, **{access: (*getattr(policy, access), "/")})

    assert done.stdout == "works\n", done.stderr


@pytest.mark.requirement("sandbox.hive")
def test_an_added_path_that_leads_into_the_hive_by_a_link_or_dots_is_not_shown(
    place: Place, kind: Kind
) -> None:
    (place.base / "library/link").symlink_to(place.home / "operator")
    added = (f"{place.base}/library/link", f"{place.base}/op/../hive/operator")

    done = place.inside(kind, f"cat '{place.facts['operator_token']}'", readable=added)

    assert done.returncode != 0


@pytest.mark.requirement("sandbox.protected")
def test_an_added_path_that_is_protected_is_not_shown(place: Place, kind: Kind) -> None:
    done = place.inside(kind, f"cat '{place.facts['protected_file']}'", readable=(place.facts["protected"],))

    assert done.returncode != 0


@pytest.mark.requirement("sandbox.ids")
def test_what_is_written_inside_belongs_to_the_same_user_outside(place: Place, kind: Kind) -> None:
    done = place.inside(kind, "umask 022; mkdir made; echo x > made/file; id -u")

    assert done.returncode == 0, done.stderr
    owner = (place.state / "made/file").stat()
    assert (str(owner.st_uid), owner.st_uid) == (done.stdout.strip(), place.state.stat().st_uid)


@pytest.mark.requirement("sandbox.sockets")
def test_a_socket_that_is_bound_anew_is_reached_from_a_task_that_runs_already(place: Place) -> None:
    connect = (
        "import socket, sys\nsys.stdin.readline()\n"
        f"with socket.socket(socket.AF_UNIX) as s:\n  s.connect({place.facts['agent_socket']!r})\n"
        "  print(s.recv(9))"
    )
    command = place.command(Kind.NAMESPACES, place.python, "-c", connect)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        subprocess.Popen(
            ["sh", "-c", 'echo ready; exec "$@"', "sh", *command], **place.options(pipes)
        ) as task,
        socket.socket(socket.AF_UNIX) as server,
    ):
        assert task.stdout is not None
        task.stdout.readline()
        server.bind(place.facts["agent_socket"])
        Path(place.facts["agent_socket"]).chmod(0o666)
        server.listen()
        assert task.stdin is not None
        task.stdin.write("\n")
        task.stdin.flush()
        peer, _ = server.accept()
        peer.sendall(b"anew")
        peer.close()
        assert task.stdout.readline() == "b'anew'\n"


def _exit_code(prepared: Prepared, work: Callable[[], int]) -> int:
    return wait_for(run_inside(prepared, work))


def _can_read(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except OSError:
        return False


def _create(path: Path) -> int:
    path.write_text("x")
    return 0
