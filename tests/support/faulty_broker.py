"""`hive-broker` that ends itself by SIGKILL at one step of a delivery: `FAULT_AT=claimed:2`, the second time.

For `Unit.preload`: the broker is the real one, composed with a watcher of its steps.
"""

from __future__ import annotations

import os
import signal

from services.broker.app import create_app
from services.broker.config import Settings
from shared.runtime.log import configure_logging
from shared.runtime.serve import exit_with_reason, serve
from shared.runtime.settings import load_settings

STEPS = ("due", "claimed", "delivered", "committed")


class Fault:
    """Kills the process when a step is reached for the n-th time; never without `FAULT_AT`."""

    def __init__(self, wanted: str) -> None:
        self._step, _, number = wanted.partition(":")
        self._left = int(number or 0)

    def __call__(self, step: str) -> None:
        if step == self._step:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """As the broker's own."""
    settings = load_settings(Settings)
    configure_logging("broker", level=settings.log_level)
    with exit_with_reason():
        app = create_app(settings, at_step=Fault(os.environ.get("FAULT_AT", "")))
    serve(app, host="127.0.0.1", port=settings.port, port_setting="HIVE_BROKER_PORT", on_stop=app.state.stop)
