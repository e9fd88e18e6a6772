"""The sandbox of tasks, turns and children: a process inside can use what its policy names, and no more.

Linux, standard library, no threads. What each kind keeps apart: docs/isolation.md.
"""

from shared.sandbox.detection import choose, detect
from shared.sandbox.enter import Prepared, fork_into, prepare, run_inside, wait_for
from shared.sandbox.failure import SandboxFailed
from shared.sandbox.init import act_as_init, pass_signals_to
from shared.sandbox.kinds import Isolation, Kind
from shared.sandbox.policy import Policy, build_policy, default_protected, interpreter_paths
from shared.sandbox.words import MEND, describe

__all__ = [
    "MEND",
    "Isolation",
    "Kind",
    "Policy",
    "Prepared",
    "SandboxFailed",
    "act_as_init",
    "build_policy",
    "choose",
    "default_protected",
    "describe",
    "detect",
    "fork_into",
    "interpreter_paths",
    "pass_signals_to",
    "prepare",
    "run_inside",
    "wait_for",
]
