"""Finishing the files of a task whose supervisor is gone: nothing stored is lost or doubled."""

from __future__ import annotations

import contextlib
import os

from shared.tasks.output.files import copy_file, list_segments, open_file, remove_file
from shared.tasks.output.stored import StoredStream, StreamFiles
from shared.tasks.output.stream_end import StreamEnd


def find_end(directory_fd: int, name: str, *, reason: str | None = None) -> StreamEnd:
    """Tell from the files alone how a stream ended that nobody wrote an end for.

    To be recorded before `merge_stream`. Bytes that still were in the pipe are not known of.

    Args:
        directory_fd: the directory of tasks.
        name: the stream's file in it.
        reason: why bytes are missing, where some are.
    """
    with StoredStream(StreamFiles(directory_fd, name)) as stored:
        dropped = stored.dropped_bytes
        return StreamEnd(
            stored.total_bytes,
            stored.head_bytes,
            dropped,
            (reason or "cap") if dropped else None,
            removed=stored.removed,
        )


def merge_stream(directory_fd: int, name: str, end: StreamEnd) -> bool:
    """Do what is left of `Spool.merge`, from wherever it was broken off; whether all is done.

    Safe to call at any time after the supervisor is gone, and again.
    """
    segments = list_segments(directory_fd, name)
    with contextlib.ExitStack() as stack:
        if not segments:
            return True
        try:
            head = open_file(directory_fd, name, write=True)
            stack.callback(os.close, head)
        except OSError:
            head = None
        limit = end.total_bytes
        for start, file in reversed(segments):
            if head is not None and end.tail_start <= start < limit:
                try:
                    segment = open_file(directory_fd, file)
                    stack.callback(os.close, segment)
                    copy_file(segment, head, limit - start, start - end.dropped_bytes)
                except FileNotFoundError:
                    pass  # the agent took it: there is a hole
                except OSError:
                    return False
            limit = min(limit, start)
            remove_file(directory_fd, file)
    return True
