"""What notices are read with, and what helps when that does not work: who runs the NATS server decides."""

from __future__ import annotations

from services.hivectl.bus import ReaderLogin
from services.hivectl.hive_file import NatsPart, read_secret
from services.hivectl.provision import find_nats
from shared.errors import Misconfigured
from shared.layout import HiveLayout

_ELSEWHERE = "that server is not the hive's own"


def is_nats_ours(layout: HiveLayout) -> bool:
    """Whether the hive starts and configures the server itself; so where nothing tells."""
    try:
        return find_nats(layout).is_embedded
    except Misconfigured:
        return True


def read_login(layout: HiveLayout, part: NatsPart) -> ReaderLogin:
    """The login of the reader of `hive.json`.

    Raises:
        Misconfigured: when its password is missing or damaged.
    """
    file, user = part.reader_password_file, part.reader_user
    if is_nats_ours(layout):
        return ReaderLogin(part.url, user, read_secret(file), part.inbox_prefix)
    try:
        password = read_secret(file)
    except Misconfigured as exc:
        what = f"{file} holds no password"
        mend = f"{_ELSEWHERE}: put the password that {user} has there into the file"
        raise Misconfigured(f"{what}; {mend}", details={"what": what, "mend": mend}) from exc
    return ReaderLogin(
        part.url,
        user,
        password,
        part.inbox_prefix,
        when_away=f"{_ELSEWHERE}: see to it that it runs at this address; or `hivectl down` and `hivectl up` "
        "with another --nats-url, `embedded` for the hive's own",
        when_refused=f"{_ELSEWHERE}: whoever runs it must let that user read notices, with the password in "
        f"{file}; docs/notices.md says what it needs",
    )
