"""Ties a unit's life to the supervisor's, then becomes the unit: `launch.py SUPERVISOR_PID PROGRAM ARG...`.

Run by path under `python -I -S`, so it imports nothing of ours. It exists because code between fork and exec
is not safe in a process with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

EXIT_ORPHANED = 128 + signal.SIGTERM
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def tie_to(supervisor: int) -> None:
    """Ask the kernel for SIGTERM at the end of `supervisor`, our parent; end now if it is gone already."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # It may have died before the request: then no signal would ever come.
    if os.getppid() != supervisor:
        raise SystemExit(EXIT_ORPHANED)


def main() -> None:
    """Tie, and exec."""
    tie_to(int(sys.argv[1]))
    # This interpreter ignores SIGPIPE, and exec hands that on.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - no shell is the point
    except OSError as exc:
        sys.stderr.write(f"{sys.argv[2]}: {exc.strerror}\n")
        raise SystemExit(127) from exc


if __name__ == "__main__":
    main()
