"""URLs that a setting may name. Pure checks; opens nothing."""

from __future__ import annotations

from urllib.parse import urlsplit


def check_broker_url(value: str) -> str:
    """`http://host:port` or `https://host[:port]`, returned without a trailing slash.

    Raises:
        ValueError: saying what was expected; the URL itself is not repeated, it may carry a password.
    """
    expected = "must be http://HOST:PORT or https://HOST[:PORT], without path, query or credentials"
    try:
        parts = urlsplit(value.strip())
        port = parts.port
    except ValueError:
        raise ValueError(expected) from None
    plain = parts.path in ("", "/") and not (
        parts.query or parts.fragment or parts.username or parts.password
    )
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain or port == 0:
        raise ValueError(expected)
    return value.strip().rstrip("/")
