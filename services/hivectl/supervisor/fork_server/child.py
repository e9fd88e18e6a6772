"""What a forked process does before it is a unit: what `launch` and an exec would have done for it."""

from __future__ import annotations

import gc
import os
import runpy
import sys
from typing import NoReturn

import setproctitle

from services.hivectl.supervisor.fork_server.protocol import ForkRequest
from services.hivectl.supervisor.launch import EXIT_ORPHANED, tie_to


def become(request: ForkRequest, descriptors: list[int], supervisor: int) -> NoReturn:
    """Wait for the supervisor's word, then be the unit until it ends. Leaves nothing to return to."""
    go, stdin, log, *listener = descriptors
    if not os.read(go, 1):
        # It has given up on us, or is gone; it may have started the unit in another way.
        os._exit(EXIT_ORPHANED)
    tie_to(supervisor)
    os.dup2(stdin, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for descriptor in (go, stdin, log):
        os.close(descriptor)
    if listener and listener[0] != request.listen_fd:
        # Nothing can be in the way: the server's own descriptors are closed, and so are those three.
        os.dup2(listener[0], int(request.listen_fd or 0))
        os.close(listener[0])
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.env)
    setproctitle.setproctitle(request.title)
    sys.argv = [request.title]
    gc.enable()
    runpy.run_module(request.module, run_name="__main__", alter_sys=True)
    raise SystemExit(0)
