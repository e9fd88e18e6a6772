"""The process that is forked: its descriptors, its end, its failures; and the wrapper around it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path

import pytest

from shared.sandbox import Kind, SandboxFailed, choose, detect, fork_into, prepare, wait_for
from tests.integration.sandbox.conftest import Place


@pytest.mark.requirement("sandbox.processes")
def test_of_the_descriptors_only_those_asked_for_are_inside(own_place: Place, kind: Kind) -> None:
    reading, writing = os.pipe()
    left = os.open("/", os.O_RDONLY)
    prepared = prepare(own_place.policy(), choose(kind))

    pid = fork_into(prepared, keep=(writing,))
    if pid == 0:
        os.dup2(writing, 1)
        os.set_inheritable(writing, True)
        os.execv("/bin/ls", ["ls", "/proc/self/fd"])
    os.close(writing)
    with os.fdopen(reading) as answer:
        found = {int(line) for line in answer}
    os.close(left)

    assert wait_for(pid) == 0
    assert {0, 1, 2, writing} < found
    assert len(found) == 5, "one more than those is the listing's own"


@pytest.mark.requirement("sandbox.all-or-nothing")
def test_what_cannot_be_set_up_is_an_error_in_the_parent_and_nothing_runs(
    own_place: Place, kind: Kind
) -> None:
    prepared = prepare(own_place.policy(), choose(kind))
    Path(own_place.policy().temporary).rmdir()
    reading, writing = os.pipe()

    with pytest.raises(SandboxFailed) as failure:
        fork_into(prepared, keep=(writing,))

    os.close(writing)
    assert failure.value.errno == errno.ENOENT
    assert "tmp" in failure.value.step
    assert os.read(reading, 1) == b"", "somebody holds the pipe still"
    os.close(reading)


@pytest.mark.requirement("sandbox.ends")
def test_all_processes_of_a_sandbox_end_with_its_first(own_place: Place) -> None:
    reading, writing = os.pipe()
    prepared = prepare(own_place.policy(), choose(Kind.NAMESPACES))

    pid = fork_into(prepared, keep=(writing,))
    if pid == 0:
        os.dup2(writing, 1)
        os.execv("/bin/sh", ["sh", "-c", "(trap '' TERM HUP; setsid sh -c 'echo up; sleep 600') & wait"])
    os.close(writing)
    with os.fdopen(reading) as answer:
        assert answer.readline() == "up\n"
        os.kill(pid, signal.SIGKILL)
        assert wait_for(pid) == -signal.SIGKILL
        assert answer.read() == "", "somebody holds the pipe still"


@pytest.mark.requirement("sandbox.all-or-nothing")
def test_a_prepared_policy_knows_when_what_it_was_made_from_has_changed(place: Place, kind: Kind) -> None:
    prepared = prepare(place.policy(), choose(kind))
    assert prepared.is_current()

    (Path(place.facts["operator_home"]) / "new").mkdir()

    assert not prepared.is_current()


@pytest.mark.requirement("sandbox.wrapper")
@pytest.mark.parametrize(
    ("script", "code", "output"),
    [("echo out; exit 3", 3, "out\n"), ("kill -TERM $$", 143, ""), ("no-such-program", 127, "")],
)
def test_the_wrapper_passes_on_output_and_exit_codes(
    place: Place, kind: Kind, script: str, code: int, output: str
) -> None:
    done = place.inside(kind, script)

    assert (done.returncode, done.stdout) == (code, output)


@pytest.mark.requirement("sandbox.wrapper")
def test_the_wrapper_passes_on_signals(place: Place, kind: Kind) -> None:
    script = "trap 'echo told; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    command = place.command(kind, "sh", "-c", script)
    with subprocess.Popen(command, **place.options({"stdout": subprocess.PIPE, "text": True})) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "told\n"
        assert process.wait(30) == 7


@pytest.mark.requirement("sandbox.wrapper")
def test_the_wrapper_says_what_is_wrong_with_its_call_or_policy(place: Place, kind: Kind) -> None:
    module = [place.python, "-m", "shared.sandbox"]
    assert place.run(*module, "--policy", "x").returncode == 2
    assert place.run(*module, "--policy", str(place.base / "none"), "--", "true").returncode == 125
    (place.base / "policy.json").write_text("{}")
    done = place.run(*module, "--policy", str(place.base / "policy.json"), "--", "true")
    assert (done.returncode, "no sandbox policy" in done.stderr) == (125, True)


@pytest.mark.requirement("sandbox.light")
def test_the_sandbox_needs_the_standard_library_alone(place: Place) -> None:
    done = place.run(place.python, "-S", "-m", "shared.sandbox", "--detect")

    assert (done.returncode, done.stdout) == (0, "tasks run isolated (namespaces)\n"), done.stderr


@pytest.mark.requirement("sandbox.detected")
def test_where_namespaces_are_refused_landlock_is_found_and_who_refused_is_said(place: Place) -> None:
    # A user namespace whose own limit allows no more of them, as some systems set it for all.
    refuse = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    namespace = ("unshare", "--user", "--map-root-user", "sh", "-c", refuse, "sh")
    done = place.run(*namespace, place.python, "-m", "shared.sandbox", "--detect")

    assert done.stdout.startswith("tasks run isolated (landlock), not kept apart: names and modes of files")
    assert "user namespaces are refused (sysctl user.max_user_namespaces=0)" in done.stdout


@pytest.mark.requirement("sandbox.detected")
def test_this_machine_offers_a_sandbox() -> None:
    assert detect().kind is not Kind.NONE, "the tests of the sandbox need a kernel with one"
