"""What is raised when a sandbox cannot be set up."""

from __future__ import annotations

import os

from shared.errors import Unavailable


class SandboxFailed(Unavailable):
    """Nothing ran: the sandbox could not be set up.

    `step` says what was tried, `errno` what the kernel answered.
    """

    default_code = "sandbox_failed"

    def __init__(self, step: str, errno: int) -> None:
        super().__init__(f"the sandbox cannot be set up: {step}: {os.strerror(errno)}")
        self.step = step
        self.errno = errno
