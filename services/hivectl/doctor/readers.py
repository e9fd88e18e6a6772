"""Readers of notices: has each a credential here and a durable at the broker."""

from __future__ import annotations

from services.hivectl.doctor.check import Check, passed, warning
from services.hivectl.doctor.hive_state import BrokerState
from services.hivectl.hive_file import HiveFile
from services.hivectl.provision import list_readers, list_revoked
from shared.layout import HiveLayout

_NAME = "notices.readers"


def check_readers(layout: HiveLayout, hive: HiveFile, broker: BrokerState) -> list[Check]:
    """What a grant or a revocation that was cut off has left; nothing where no reader was given at all."""
    if hive.nats is None or not broker.answered:
        return []
    known = {reader.name: reader for reader in broker.readers}
    credentials, revoked = set(list_readers(layout)), set(list_revoked(layout))
    findings = [
        *(
            warning(_NAME, f"{name} was not revoked to the end", f"hivectl notices revoke {name}")
            for name in sorted(revoked)
        ),
        *(
            warning(_NAME, f"{name} has a credential and no durable", f"hivectl notices grant {name}")
            for name in sorted(credentials - known.keys())
        ),
        *(
            warning(
                _NAME,
                f"{name} has a durable and no credential",
                f"hivectl notices grant {name}; or hivectl notices revoke {name}",
            )
            for name in sorted(known.keys() - credentials - revoked)
        ),
    ]
    return findings or [passed(_NAME, ", ".join(sorted(credentials)))]
