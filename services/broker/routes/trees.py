"""The two trees: every router is made here, so that none lacks its credential or its operation names."""

from __future__ import annotations

from fastapi import APIRouter

from services.broker.routes.callers import operator_only
from services.broker.routes.document import name_operation


def agent_router(tag: str) -> APIRouter:
    """For routes below `/v1/agent`; each takes the caller as an argument (`AsAgent`)."""
    return APIRouter(prefix="/v1/agent", tags=[tag], generate_unique_id_function=name_operation)


def operator_router(tag: str) -> APIRouter:
    """For routes below `/v1/operator`, for the operator alone."""
    return APIRouter(
        prefix="/v1/operator",
        tags=[tag],
        dependencies=[operator_only],
        generate_unique_id_function=name_operation,
    )
