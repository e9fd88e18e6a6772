"""What the bash surface's tasks do, and how they end."""

from __future__ import annotations

ROWS: dict[str, dict[str, str]] = {
    "spec 7, processes": {
        "bash.tree-killed": (
            "`kill` ends every process a task has started, also what called setsid, forked twice, ignores "
            "SIGTERM or was stopped"
        ),
        "bash.timeout": "`timeout_secs` ends all of it in the same way and marks the task `timed_out`",
        "bash.leftovers-ended": "what a command leaves running is ended when it ends, and named",
        "bash.prompt-end": "the end of the command is told promptly, whoever still holds its output open",
        "bash.true-end": "the exit code, or the signal, is the command's own",
        "bash.kill-early": "a task that is killed while it starts ends by SIGTERM as any other",
        "bash.kill-stopped": "a task that was stopped by SIGSTOP can be killed",
        "bash.kill-forker": "a task that forks without end can be killed",
        "bash.kill-again": "killing a task that has ended changes nothing and shows its end",
        "bash.interrupted": "a task that is gone without an end written is `interrupted`, and nothing stays",
        "bash.no-set-id": "a task can make no file with a set-user-id or set-group-id bit",
        "bash.limits": "memory and processor time of each process of a task are held by the settings",
        "bash.machine-restart": "what ran at a restart of the machine is `interrupted`, with what it wrote",
        "bash.no-daemon-signals": "a task can signal no process but its own",
    },
    "spec 7, control groups": {
        "bash.cgroup": (
            "where the daemon may divide its control group, each task is in one of its own, which is removed "
            "with it; daemon and supervisors stay outside"
        ),
        "bash.cgroup-kill": "`kill`, a timeout and a task's own end take all that is in its group",
        "bash.cgroup-orphans": "a supervisor that is killed leaves nothing, not even what called setsid",
        "bash.cgroup-restart": "the next daemon, or the end of the agent, finds the groups that were left",
        "bash.cgroup-absent": "a control group that was not handed to the daemon is left as it is",
    },
    "spec 7, the operator": {
        "bash.operator-sees": "`hivectl tasks` shows what runs and how it ended, `tasks kill` ends it",
        "bash.operator-paths": "a path that the operator opens or closes counts from the next task on",
        "bash.agent-stop": "the end of an agent ends its tasks, a restart of its daemons does not",
    },
    "spec 7, output": {
        "bash.output-capped": "a task keeps no more on disk than its cap, whatever it writes",
        "bash.output-ends": "what fits is kept byte for byte; of more the first and the last, and it is said",
        "bash.memory-bounded": "the daemon's memory does not grow with a task's output",
        "bash.answer-bounded": "an answer is bounded and readable, whatever was written",
        "bash.pages": "pages of a stream follow each other without a gap",
        "bash.retention": "a result that was read goes after its days, an unread one much later",
        "bash.quota": "room for new output is made of the oldest results that were read, within the quota",
        "bash.output-place": "no link or file in the place of the output directory is followed or used",
        "bash.grep": "lines are searched by a regular expression, in bounded time",
    },
    "spec 7, tools": {
        "bash.definitions": "the definitions are as reviewed, and short",
        "bash.arguments": "a wrong argument starts nothing and is refused with what is right",
        "bash.cannot-start": "what cannot be started is `failed`, with the reason",
        "bash.surroundings": "a task has the documented environment, no descriptor more and no terminal",
        "bash.input": "input is sent and ended; where it cannot be, the error says why",
        "bash.input-recognised": "a task that waits for input is recognised and said",
        "bash.alone": "the surface serves both eras without broker and in-agent socket",
    },
}
