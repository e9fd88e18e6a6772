"""What the daemon and the spawner agree on."""

from __future__ import annotations

from typing import Final

# In the place of a policy: the task is not put into a sandbox.
NO_POLICY: Final = b" "
