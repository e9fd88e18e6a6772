"""Key and value rows: the last grants, and what the broker has not heard yet.

Lies in the data directory, which the agent itself cannot reach. Nothing here is lost by a kill.
"""

from __future__ import annotations

from pydantic import TypeAdapter

from shared.daemon.kept import KeptState
from shared.wire.control import UnknownSend
from shared.wire.messages import StatusText

_STATUS = "unpushed_status"
_UNKNOWN_SENDS = "unknown_sends"
_COMPACTION = "compaction"
_SENDS: TypeAdapter[list[UnknownSend]] = TypeAdapter(list[UnknownSend])


class StateStore(KeptState):
    """What the hyperhive surface keeps besides its todos."""

    def find_unpushed_status(self) -> StatusText | None:
        """A status that the broker has not confirmed yet."""
        found = self.find(_STATUS)
        return None if found is None else StatusText.model_validate_json(found)

    def save_unpushed_status(self, status: StatusText) -> None:
        self.put(_STATUS, status.model_dump_json())

    def drop_unpushed_status(self, status: StatusText) -> None:
        """Forget `status` once pushed; a newer one that was set meanwhile stays."""
        self.drop(_STATUS, status.model_dump_json())

    def find_unknown_sends(self) -> list[UnknownSend]:
        """Sends whose fate the agent does not know, and the operator has not heard of."""
        found = self.find(_UNKNOWN_SENDS)
        return [] if found is None else _SENDS.validate_json(found)

    def save_unknown_sends(self, sends: list[UnknownSend]) -> None:
        self.put(_UNKNOWN_SENDS, _SENDS.dump_json(sends).decode())

    def is_compaction_wanted(self) -> bool:
        """Whether the context is to be compacted at the end of the turn."""
        return self.find(_COMPACTION) is not None

    def save_compaction(self, *, wanted: bool) -> None:
        if wanted:
            self.put(_COMPACTION, "wanted")
        else:
            self.drop(_COMPACTION)
