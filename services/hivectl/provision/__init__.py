"""The files of a hive and its agents: made, completed after a crash, replaced, put away.

All of it may be called again at any point: whatever an interrupted call left is completed by the next.
"""

from services.hivectl.provision.agent_files import AgentRegistry, add_agent, archive_agent, ensure_agents
from services.hivectl.provision.nats import (
    DEFAULT_READER,
    NatsFiles,
    check_nats_url,
    describe_foreign_nats,
    describe_nats,
    ensure_embedded_nats,
)
from services.hivectl.provision.reader_files import list_readers, list_revoked, reader_file, readers_dir
from services.hivectl.provision.readers import (
    NatsPlace,
    add_reader,
    find_nats,
    forget_reader,
    withdraw_reader,
)
from services.hivectl.provision.records import is_hive_file_right, refresh_hive_file, write_hive_file
from services.hivectl.provision.root import (
    NATS_PREFIX,
    ForeignNats,
    HiveSettings,
    ensure_hive_files,
    find_settings,
    hive_lock,
    save_settings,
)
from services.hivectl.provision.surfaces import BUILT_SURFACES, list_blocks
from services.hivectl.provision.tokens import rotate_token

__all__ = [
    "BUILT_SURFACES",
    "DEFAULT_READER",
    "NATS_PREFIX",
    "AgentRegistry",
    "ForeignNats",
    "HiveSettings",
    "NatsFiles",
    "NatsPlace",
    "add_agent",
    "add_reader",
    "archive_agent",
    "check_nats_url",
    "describe_foreign_nats",
    "describe_nats",
    "ensure_agents",
    "ensure_embedded_nats",
    "ensure_hive_files",
    "find_nats",
    "find_settings",
    "forget_reader",
    "hive_lock",
    "is_hive_file_right",
    "list_blocks",
    "list_readers",
    "list_revoked",
    "reader_file",
    "readers_dir",
    "refresh_hive_file",
    "rotate_token",
    "save_settings",
    "withdraw_reader",
    "write_hive_file",
]
