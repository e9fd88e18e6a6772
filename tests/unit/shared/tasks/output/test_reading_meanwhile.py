"""A daemon that reads while the supervisor writes, exchanges segments, and joins them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from shared.tasks.output.stored import StoredStream, StreamFiles
from shared.tasks.output.stream_end import StreamEnd
from shared.tasks.output.views import page, tail_view
from tests.unit.shared.tasks.output.feeding import NAME

# The supervisor's part, in a process of its own: 8 bytes at 8n are n, whatever the position.
_WRITER = f"""
import json, os, sys
sys.path.insert(0, sys.argv[1])
from shared.tasks.output.spool import Spool
directory = os.open(sys.argv[2], os.O_RDONLY)
spool = Spool(directory, {NAME!r}, 400_000, floor_bytes=0)
source, sink = os.pipe()
os.set_blocking(source, False)
for start in range(0, 1_500_000, 2_000):
    data = b"".join(b"%07d\\n" % number for number in range(start, start + 2_000))
    while data:
        data = data[os.write(sink, data[:60_000]):]
        while spool.pump(source) is not None:
            pass
print(json.dumps(spool.finish().to_record()), flush=True)
sys.stdin.readline()
assert spool.merge()
"""


@pytest.mark.requirement("output.read-meanwhile", "output.merge-anywhere")
def test_a_reader_sees_only_what_was_written_where_it_was_written(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[5]
    directory_fd = os.open(tmp_path, os.O_RDONLY)
    looks = 0
    command = [sys.executable, "-I", "-S", "-c", _WRITER, str(root), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin
        assert writer.stdout
        while not select.select([writer.stdout], [], [], 0)[0]:
            _look(StreamFiles(directory_fd, NAME))
            looks += 1
        # The end is on record before head and tail are joined.
        end = StreamEnd.from_record(json.loads(writer.stdout.readline()))
        writer.stdin.close()
        while writer.poll() is None:
            _look(StreamFiles(directory_fd, NAME, end))
            looks += 1
    assert writer.returncode == 0
    assert looks > 20
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    os.close(directory_fd)


def _look(files: StreamFiles) -> None:
    with StoredStream(files) as stored:
        at = 0
        while (chunk := stored.read(at, 100_000)).data:
            first = -(-chunk.start // 8)
            whole = chunk.data[first * 8 - chunk.start :]
            whole = whole[: len(whole) // 8 * 8]
            assert whole == b"".join(b"%07d\n" % number for number in range(first, first + len(whole) // 8))
            at = chunk.end
    for shown in (tail_view(files), page(files, -5000)):
        # What was given up between the look and the reading is a hole; what is shown is in one piece.
        numbers = [int(line) for line in shown.text.split("\n")[1:-1]]
        assert [number - index for index, number in enumerate(numbers)] == numbers[:1] * len(numbers)
