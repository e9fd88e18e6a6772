"""Whatever a task writes, disk, memory and answers stay within their caps; what is kept is as written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bash import BashSurface, id_of, running_bash, state_of

CAP = 4 * 1024 * 1024
# A stream has half of it; joining takes one segment more for a moment.
STREAM_CAP = CAP // 2
ANSWER_BYTES = 40_000
# What an answer about the largest output may add to a daemon's memory.
GROWTH_KB = 24_000


@pytest.fixture(scope="module")
def bash() -> Iterator[BashSurface]:
    """A bash surface whose tasks keep 4 MiB of output each."""
    limits = {"HIVE_BASH_MAX_OUTPUT_BYTES": str(CAP), "HIVE_BASH_OUTPUT_QUOTA_BYTES": str(16 * CAP)}
    with running_bash(HIVE_BASH_KILL_GRACE_SECONDS="1", HIVE_BASH_MIN_FREE_BYTES="0", **limits) as running:
        running.run("true")
        yield running


def peak_kb(pid: int) -> int:
    """The most memory that a process has ever had, in kB."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


def on_disk(bash: BashSurface, task: str) -> int:
    """Bytes of all files of a task, whatever they are called."""
    return sum(path.stat().st_blocks * 512 for path in bash.output_dir.glob(f"{task}.*"))


@pytest.mark.requirement("bash.output-capped", "bash.memory-bounded")
def test_an_endless_writer_takes_no_more_than_its_cap_and_can_be_killed(bash: BashSurface) -> None:
    before = peak_kb(bash.unit.pid)
    answer = bash.run("yes", timeout_secs=1.5, wait_seconds=20)
    task = id_of(answer)

    assert state_of(answer).startswith("timed_out, signal")
    assert len(answer.encode()) < ANSWER_BYTES
    assert "were not kept" in answer
    assert on_disk(bash, task) <= STREAM_CAP + 65_536
    assert set(bash.output(task)) == set(b"y\n")
    assert peak_kb(bash.unit.pid) - before < GROWTH_KB


@pytest.mark.requirement("bash.output-capped", "bash.output-ends")
def test_of_a_log_of_a_hundred_million_bytes_head_and_tail_are_kept(bash: BashSurface) -> None:
    answer = bash.run("seq 1 11222222", wait_seconds=30, timeout_secs=30)
    task = id_of(answer)
    kept = bash.output(task)

    assert state_of(answer).startswith("done, exit code 0")
    assert len(kept) == STREAM_CAP or STREAM_CAP - len(kept) < STREAM_CAP // 8
    assert kept.startswith(b"1\n2\n3\n")
    assert kept.endswith(b"11222221\n11222222\n")
    total = int(re.search(r"stdout: the end of (\d+) bytes", answer)[1])  # type: ignore[index]
    assert total > 88_000_000
    last = bash.status(task, stream="out", offset=-9)
    assert "11222222" in last
    gap = bash.status(task, stream="out", offset=total // 2)
    assert "were not kept (cap)" in gap


@pytest.mark.requirement("bash.output-ends")
def test_what_fits_is_kept_byte_for_byte(bash: BashSurface) -> None:
    task = id_of(bash.run(r"printf 'a\0b\r\033[31mred\033[0m\377\n'; printf 'err' >&2"))

    assert bash.output(task) == b"a\0b\r\033[31mred\033[0m\xff\n"
    assert bash.output(task, "err") == b"err"


@pytest.mark.requirement("bash.answer-bounded")
@pytest.mark.parametrize(
    "cmd",
    [
        "head -c 3000000 /dev/urandom",
        "head -c 3000000 /dev/zero",
        "i=0; while [ $i -lt 30000 ]; do printf '\\rstep %d of 30000' $i; i=$((i+1)); done",
        "head -c 1500000 /dev/zero | tr '\\0' 'x'",
        "head -c 300000 /dev/zero | tr '\\0' '\"'; head -c 300000 /dev/zero | tr '\\0' '\\\\' >&2",
    ],
    ids=["noise", "nul", "progress", "one-line", "escapes"],
)
def test_answers_about_any_output_are_bounded(bash: BashSurface, cmd: str) -> None:
    before = peak_kb(bash.unit.pid)
    answer = bash.run(cmd, wait_seconds=30)
    task = id_of(answer)
    pages = [
        bash.status(task, stream="out", offset=offset, max_bytes=28_000) for offset in (0, 100_000, -5_000)
    ]
    found = bash.status(task, grep="step 29|x$|zzz")

    assert all(len(text.encode()) < ANSWER_BYTES for text in (answer, *pages, found))
    assert peak_kb(bash.unit.pid) - before < GROWTH_KB


@pytest.mark.requirement("bash.answer-bounded")
def test_a_line_of_progress_is_shown_as_it_was_last(bash: BashSurface) -> None:
    answer = bash.run(r"for i in 1 2 3; do printf '\r%d of 3' $i; done; echo; printf '\033[1mbold\033[0m\n'")

    assert "3 of 3" in answer
    assert "1 of 3" not in answer
    assert "bold\n" in answer
    assert "\x1b" not in answer


@pytest.mark.requirement("bash.output-capped")
def test_a_command_that_reads_its_own_output_ends_at_the_cap(bash: BashSurface) -> None:
    newest = "f=$(ls -t $HIVE_STATE_DIR/harness/bash-tasks/*.out | head -1)"
    cmd = f"{newest}; echo seed; cat $f $f $f; tail -c +1 -f $f"
    answer = bash.run(cmd, timeout_secs=1.5, wait_seconds=20)

    assert state_of(answer).startswith(("timed_out", "done"))
    assert on_disk(bash, id_of(answer)) <= CAP + 131_072


@pytest.mark.requirement("bash.pages")
def test_pages_follow_each_other_without_a_gap(bash: BashSurface) -> None:
    task = id_of(bash.run("seq 1 20000", wait_seconds=20))
    shown, offset = "", 0
    while True:
        page = bash.status(task, stream="out", offset=offset, max_bytes=20_000)
        shown += page.split("\n", 2)[2].rpartition("\n--- end")[0]
        following = re.search(r"^Next: offset=(\d+)$", page, re.MULTILINE)
        if following is None:
            break
        offset = int(following[1])
        shown = shown if shown.endswith("\n") else shown + "\n"
    assert shown.split() == [str(number) for number in range(1, 20_001)]


@pytest.mark.requirement("bash.grep")
def test_lines_are_found_with_number_and_offset_in_bounded_time(bash: BashSurface) -> None:
    task = id_of(bash.run("seq 1 50000; echo " + "a" * 60 + "b", wait_seconds=20))

    assert "49999 @" in bash.status(task, grep="^49999$")
    assert "0 lines matched" in bash.status(task, grep="^nothing$")
    assert "no regular expression" in bash.access.call("status", id=task, grep="(").error()
    slow = bash.status(task, grep="(a+)+$")
    assert "too slow" in slow or "lines matched" in slow
