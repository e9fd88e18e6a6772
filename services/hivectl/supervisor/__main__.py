"""The detached supervisor of `up --detach`: `-m services.hivectl.supervisor REQUEST_JSON STATUS_FD`."""

from __future__ import annotations

import sys

from services.hivectl.supervisor.detach import run_detached
from services.hivectl.supervisor.request import UpRequest


def main() -> None:
    """Run until a signal."""
    request = UpRequest.model_validate_json(sys.argv[1])
    sys.exit(run_detached(request, int(sys.argv[2])))


if __name__ == "__main__":
    main()
