"""`hive-broker`: reads settings, builds the app, serves it."""

from __future__ import annotations

from services.broker.app import create_app
from services.broker.config import Settings
from shared.runtime.harden import harden_process
from shared.runtime.log import configure_logging
from shared.runtime.serve import exit_with_reason, serve
from shared.runtime.settings import load_settings


def main() -> None:
    """Run the broker until a signal."""
    harden_process()
    settings = load_settings(Settings)
    configure_logging("broker", level=settings.log_level)
    with exit_with_reason():
        app = create_app(settings)
    serve(app, host="127.0.0.1", port=settings.port, port_setting="HIVE_BROKER_PORT", on_stop=app.state.stop)


if __name__ == "__main__":
    main()
