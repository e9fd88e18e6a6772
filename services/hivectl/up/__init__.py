"""`hivectl up`: run the hive here, detached, or join the one that runs; then say where everything is."""

from services.hivectl.up.options import UpOptions
from services.hivectl.up.run import run_up

__all__ = ["UpOptions", "run_up"]
