"""Fifty tasks in every state there is, and what is to become of each, whoever is killed meanwhile."""

from __future__ import annotations

from typing import Any

from tests.support.bash import BashAgent, kill_supervisor_of, state_of
from tests.support.waiting import eventually

TASKS = 50
# Waits for a file, then ends.
_GATED = "while [ ! -e {gate} ]; do sleep 0.1; done; exit {code}"
_STUBBORN = "trap 'echo told' TERM; echo up; while :; do sleep 0.1; done"


class Fifty:
    """The tasks of one agent, started when this is made.

    Attributes:
        ends: how each is to end, by its id: the beginning of its state.
        shown: those whose end an answer has shown, of which no todo may be left.
        stubborn: does not end on SIGTERM; says `told` when it gets one.
    """

    def __init__(self, agent: BashAgent) -> None:
        self._agent = agent
        self._bash = agent.bash
        self.ends: dict[str, str] = {}
        self.shown: set[str] = set()
        self._ended()
        # These hold all 32 places.
        self._gates = {name: agent.bash.state_dir / f"gate-{name}" for name in ("away", "back")}
        for gate in self._gates.values():
            for code in range(10):
                self._start(_GATED.format(gate=gate, code=code), f"done, exit code {code}")
        self._asking = [
            self._start(f"read x; exit {code}", f"done, exit code {code}", stdin=True)
            for code in range(50, 54)
        ]
        self._to_kill = [self._start("sleep 1000", "killed, signal 15 (SIGTERM)") for _ in range(2)]
        self._doomed = self._start("sleep 1000", "interrupted")
        self.stubborn = self._start(_STUBBORN, "killed, signal 9 (SIGKILL)")
        self._bash.wait_for_output(self.stubborn, b"up")
        for _ in range(3):
            self._start("sleep 1000", "timed_out, signal 15 (SIGTERM)", timeout_secs=4)
        self._start("trap '' TERM; sleep 1000 & wait; wait", "timed_out, signal 9 (SIGKILL)", timeout_secs=4)
        assert self._bash.list().count(" running") == 32
        self._queued = TASKS - len(self.ends)
        for number in range(self._queued):
            self._start(f"echo {number} >> ran; exit {100 + number}", f"done, exit code {100 + number}")

    def change_while_the_daemon_is_away(self) -> None:
        """Some end, and one is lost with its supervisor."""
        kill_supervisor_of(self._bash, self._doomed)
        self._gates["away"].touch()

    def bring_to_their_ends(self) -> None:
        """Kill, answer or let go what would run on."""
        for task in self._to_kill:
            self._bash.kill(task)
            self.shown.add(task)
        for task in self._asking:
            self._bash.send_input(task, "go\n")
        self._gates["back"].touch()

    def check(self) -> None:
        """Each has ended as it should, has run once, and was told once, unless its end was shown."""
        open_tasks = set(self.ends) - self.shown
        self._agent.wait_for_todos(*open_tasks)
        eventually(lambda: not [todo for todo in self._agent.todos().values() if "waits" in todo["summary"]])
        told = self._agent.todos()
        assert set(told) == open_tasks
        for task in open_tasks:
            assert f"task {task} {self.ends[task]}" in told[task]["summary"], told[task]
        assert sorted((self._bash.state_dir / "ran").read_text().split()) == [*map(str, range(self._queued))]
        # A daemon that starts over has nothing to add.
        self._bash.unit.restart()
        last = self._bash.start("true")
        self._agent.wait_for_todos(last)
        assert self._agent.todos() == told | {last: self._agent.todos()[last]}
        for task, end in self.ends.items():
            state = state_of(self._bash.status(task))
            assert state.startswith(end), (task, state, end)
        eventually(lambda: set(self._agent.todos()) == {last}, what="all shown, all cleared")

    def _ended(self) -> None:
        for code in range(3):
            self._start(f"exit {code}", f"done, exit code {code}")
        self._start("kill -9 $$", "done, signal 9 (SIGKILL)")
        self._start("true", "failed: cwd /nowhere does not exist", cwd="/nowhere")
        self._start("sleep 1000", "timed_out, signal 15 (SIGTERM)", timeout_secs=0.1)
        eventually(lambda: " running" not in self._bash.list())
        for code in (4, 5):
            task = self._start(f"exit {code}", f"done, exit code {code}")
            self._bash.end(task)
            self.shown.add(task)
        task = self._start("sleep 1000", "killed, signal 15 (SIGTERM)")
        self._bash.kill(task)
        self.shown.add(task)

    def _start(self, cmd: str, end: str, **more: Any) -> str:
        task = self._bash.start(cmd, **more)
        self.ends[task] = end
        return task
