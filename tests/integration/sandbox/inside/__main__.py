"""What a task may try: makes each attempt in a process of its own, prints what came of it as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

from tests.integration.sandbox.inside import hive, processes, system, work  # noqa: F401 - they register
from tests.integration.sandbox.inside.trying import ATTEMPTS, FACTS


def report(function: Callable[[], object]) -> str:
    """`yes`, or why not, from a process of its own: an attempt may end it or change its root."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            function()
            answer = "yes"
        except BaseException as exc:
            answer = f"no: {type(exc).__name__}: {exc}"
        os.write(writing, answer.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer_file:
        answer = answer_file.read()
    os.waitpid(pid, 0)
    return answer or "no: ended"


if __name__ == "__main__":
    FACTS |= json.loads(sys.argv[1])
    print(json.dumps({name: report(ATTEMPTS[name]) for name in sys.argv[2:] or ATTEMPTS}))
