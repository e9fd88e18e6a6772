"""Logging is the process's own: what a test configures is put back."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, complains = root.handlers[:], root.level, logging.raiseExceptions
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = complains
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
