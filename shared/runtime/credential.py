"""Bearer tokens: making, hashing, and reading them from a file that may be rotated at any time."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import time
from pathlib import Path

from shared.errors import Misconfigured
from shared.runtime.log import get_logger

TOKEN = re.compile(r"[A-Za-z0-9_-]{20,128}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_FILE_BYTES = 4096
# More rotations within the ten minutes that an old token may go on end the oldest ones early.
MAX_RETIRING = 8
# What identifies one version of a file: device, inode, size, both times.
_Version = tuple[int, int, int, int, int]
# The hash of a token, and when it ends.
_Retiring = tuple[str, float]

log = get_logger()


def new_token() -> str:
    """A random 256-bit token, 43 characters of `[A-Za-z0-9_-]`."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """The SHA-256 of a token in hex, the only form in which a token is stored elsewhere."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def retiring_path(token_file: Path) -> Path:
    """Where hashes of earlier tokens lie while those are still accepted.

    JSON: an array of `{"sha256", "expires_at"}`, the newest last, or one such object.
    """
    return token_file.with_name(token_file.name + ".retiring")


class TokenFile:
    """The token in a file, read again whenever the file changes.

    Args:
        path: the file; 0600, one token matching `[A-Za-z0-9_-]{20,128}`, a trailing newline is ignored.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._retiring_path = retiring_path(path)
        self._version: _Version | None = None
        self._token = ""
        self._hash = ""
        self._retiring_version: _Version | None = None
        self._retiring: tuple[_Retiring, ...] = ()

    def current(self) -> str:
        """The token as it is now.

        Raises:
            Misconfigured: when the file is missing, empty, readable by others, or holds no token.
        """
        try:
            version = _version(self.path)
            if version != self._version:
                self._token = self._read()
                self._hash, self._version = hash_token(self._token), version
        except OSError as exc:
            self._version = None
            raise Misconfigured(
                f"cannot read the token file {self.path}: {exc.strerror}; "
                "set HIVE_TOKEN_FILE to the file with the agent's token"
            ) from exc
        return self._token

    def accepts(self, token: str) -> bool:
        """Whether `token` is the current one, or an earlier one within its time. Constant time.

        False as well, with an error in the log, while the file cannot be read: no file, no access.
        """
        given = hash_token(token)
        try:
            self.current()
        except Misconfigured as exc:
            # The reason is all there is to know; a traceback a request would only fill the log.
            log.error("token_file_unusable", reason=exc.message)  # noqa: TRY400
            return False
        now = time.time()
        # All are always compared, so that the time taken does not tell which one matched.
        accepted = hmac.compare_digest(given, self._hash)
        for retiring, expires_at in self._list_retiring():
            accepted |= hmac.compare_digest(given, retiring) and now < expires_at
        return accepted

    def _read(self) -> str:
        content, mode = _read_small(self.path)
        if mode & 0o077 and not _is_systemd_credential(self.path):
            raise Misconfigured(
                f"the token file {self.path} is readable by others (mode {mode:04o}); "
                f"run: chmod 600 {self.path}"
            )
        token = content.decode("ascii", "replace").strip()
        if not token:
            raise Misconfigured(f"the token file {self.path} is empty; run: hivectl token rotate NAME --now")
        if not TOKEN.fullmatch(token):
            raise Misconfigured(
                f"the token file {self.path} holds no token: "
                "expected one line of 20 to 128 of A-Z a-z 0-9 _ -"
            )
        return token

    def _list_retiring(self) -> tuple[_Retiring, ...]:
        """Hashes and ends of earlier tokens; a file that is not right is as good as none."""
        try:
            version = _version(self._retiring_path)
        except OSError:
            version = None
        if version != self._retiring_version:
            # Noted before reading, so that a bad file is complained of once and not at every request.
            self._retiring_version, self._retiring = version, ()
            if version is not None:
                self._retiring = _read_retiring(self._retiring_path)
        return self._retiring


def _read_retiring(path: Path) -> tuple[_Retiring, ...]:
    try:
        content, mode = _read_small(path)
        found = json.loads(content)
        records = found[-MAX_RETIRING:] if isinstance(found, list) else [found]
        retiring = tuple((str(record["sha256"]), float(record["expires_at"])) for record in records)
    except (OSError, ValueError, LookupError, TypeError, RecursionError, Misconfigured) as exc:
        log.warning("retiring_token_ignored", path=str(path), reason=type(exc).__name__)
        return ()
    if mode & 0o022 or not all(_SHA256.fullmatch(sha256) for sha256, _ in retiring):
        log.warning("retiring_token_ignored", path=str(path), reason="writable by others, or no hash")
        return ()
    return retiring


def _version(path: Path) -> _Version:
    found = os.stat(path)  # noqa: PTH116 - asked with every request, and pathlib takes twice as long
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _read_small(path: Path) -> tuple[bytes, int]:
    """Content (at most 4 KiB) and permission bits of a regular file."""
    # O_NONBLOCK: a FIFO in the file's place must be an error and not a daemon that hangs.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise Misconfigured(f"{path} is no regular file")
        return os.read(fd, _MAX_FILE_BYTES), stat.S_IMODE(mode)
    finally:
        os.close(fd)


def _is_systemd_credential(path: Path) -> bool:
    """Whether systemd made the file: it guards the directory and sets modes of its own (systemd.exec(5))."""
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    return bool(directory) and path.resolve().parent == Path(directory or "").resolve()
