"""What becomes of the bash surface's tasks over restarts, what wakes their agent, and what bounds them."""

from __future__ import annotations

ROWS: dict[str, dict[str, str]] = {
    "spec 7, restarts": {
        "bash.daemon-killed": "tasks outlive their daemon, killed or stopped; true ends, told once",
        "bash.random-kills": "what was answered for runs once and is told once, whenever the daemon dies",
        "bash.spawner-killed": "tasks outlive the process that starts them; one not begun yet begins anew",
        "bash.fifo": "at most so many run; the rest is pending, starts in order, and can be killed before",
    },
    "spec 7, bounds": {
        "bash.flood": "memory, disk and answers stay within their caps, whatever a task writes",
        "bash.disk-full": "a full disk costs output, not the task's end, nor the daemon",
        "bash.scale": "ten thousand ended tasks slow neither the tools nor a start",
        "bash.burst": "two hundred tasks at once all run, thirty-two at a time",
        "bash.quota": "old results that were read make room for new ones, and say so",
        "bash.retention": "what has been kept long enough goes, what nobody has read later",
    },
    "spec 7, places": {
        "bash.any-user": "tasks run and end as well for an ordinary user, and without a sandbox",
        "bash.no-room": "a full process table is a clear failure, and passes",
        "bash.own-directory": "nothing that an agent does to its directory of output reaches beyond it",
    },
    "spec 7, wakes": {
        "bash.wake-inline": "an end that an answer of run, status or kill shows wakes nobody",
        "bash.wake-once": "any other end makes one todo, with exit code and last lines, and no second one",
        "bash.wake-cleared": "an answer that shows the end clears the todo",
        "bash.wake-caller-gone": "a caller who has left before the end came is woken",
        "bash.wake-input": (
            "a task that waits for input is told once a prompt, until the prompt was shown or answered"
        ),
        "bash.wake-socket-away": "todos wait on disk while nobody takes them, and come once",
    },
}
