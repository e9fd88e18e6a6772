"""What every daemon does to itself first: no core dumps, no reading of its memory, private files."""

from __future__ import annotations

import os
import resource

from shared.prctl import PR_SET_DUMPABLE, prctl


def harden_process() -> None:
    """Make the process not dumpable, forbid core files, and create files as 0600 and directories as 0700.

    Raises:
        OSError: when the kernel refuses; a daemon that holds tokens should not start then.
    """
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    prctl(PR_SET_DUMPABLE, 0)
