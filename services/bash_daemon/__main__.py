"""`hive-bash-daemon`: read settings, configure logging, build the app, serve."""

from __future__ import annotations

from services.bash_daemon.app import UNIT, create_surface
from services.bash_daemon.config import Settings
from shared.runtime.harden import harden_process
from shared.runtime.log import configure_logging
from shared.runtime.serve import exit_with_reason, serve
from shared.runtime.settings import load_settings


def main() -> None:
    """Run the bash surface of one agent until SIGTERM."""
    settings = load_settings(Settings)
    configure_logging(UNIT, agent=settings.label, level=settings.log_level)
    harden_process()
    with exit_with_reason():
        surface = create_surface(settings)
    serve(
        surface.app,
        host="127.0.0.1",
        port=settings.port,
        port_setting="HIVE_BASH_PORT",
        on_stop=surface.stop,
    )


if __name__ == "__main__":
    main()
