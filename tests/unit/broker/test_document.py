"""The OpenAPI document says what the routes are: none more, none less, with every error and every limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI

from services.broker.app import create_app
from services.broker.config import Settings
from services.broker.routes.document import get_document
from services.broker.routes.failures import ErrorBody
from shared.runtime.answers import ErrorAnswer

METHODS = {"get", "put", "post", "delete", "patch"}
BOUNDED = {
    "string": ("maxLength", "pattern", "enum", "const"),
    "integer": ("maximum", "enum", "const"),
    "array": ("maxItems",),
}

Json = dict[str, Any]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    return create_app(Settings(root=tmp_path_factory.mktemp("hive")))


@pytest.fixture(scope="module")
def document(app: FastAPI) -> Json:
    return get_document(app)


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert method in METHODS
            yield method.upper(), path, operation


def walk(routes: Iterable[Any]) -> Iterator[Any]:
    """All routes, also those of routers that FastAPI keeps whole."""
    for route in routes:
        if (router := getattr(route, "original_router", None)) is not None:
            yield from walk(router.routes)
        else:
            yield route


def resolve(document: Json, node: Json) -> Json:
    while "$ref" in node:
        _, _, kind, name = node["$ref"].split("/")
        node = document["components"][kind][name]
    return node


def test_document_and_routes_agree(app: FastAPI, document: Json) -> None:
    served = {(method, route.path) for route in walk(app.routes) for method in route.methods}
    served -= {("HEAD", "/healthz"), ("HEAD", "/readyz")}

    assert {(method, path) for method, path, _ in operations(document)} == served


def test_every_operation_has_one_stable_name_that_begins_with_its_tree(document: Json) -> None:
    named = {operation["operationId"]: path for _, path, operation in operations(document)}

    assert len(named) == len(list(operations(document)))
    for name, path in named.items():
        tree = path.split("/")[2] if path.startswith("/v1/") else "open"
        assert name.startswith(f"{tree}_")


def test_every_operation_names_the_credential_of_its_tree(document: Json) -> None:
    schemes = document["components"]["securitySchemes"]
    assert {name: (scheme["type"], scheme["scheme"]) for name, scheme in schemes.items()} == {
        "agentToken": ("http", "bearer"),
        "operatorToken": ("http", "bearer"),
    }
    for _, path, operation in operations(document):
        wanted = {"agent": "agentToken", "operator": "operatorToken"}.get(f"{path}//".split("/")[2])
        assert operation["security"] == ([{wanted: []}] if wanted else []), path


def test_every_declared_error_has_the_shared_shape(document: Json) -> None:
    shape = {"$ref": "#/components/schemas/ErrorBody"}
    for method, path, operation in operations(document):
        answers = {
            int(status): resolve(document, answer) for status, answer in operation["responses"].items()
        }
        errors = {status: answer for status, answer in answers.items() if status >= 400}
        if path in ("/healthz", "/readyz"):
            errors.pop(503, None)
        else:
            assert {401, 403, 421, 422, 500, 503, 504} <= set(errors), (method, path)
        assert {400, 408, 413, 415} <= set(errors) or "requestBody" not in operation, (method, path)
        for status, answer in errors.items():
            assert answer["content"]["application/json"]["schema"] == shape, (method, path, status)


def test_the_shape_of_an_error_is_the_one_that_is_sent() -> None:
    sent = ErrorBody.model_validate_json(bytes(ErrorAnswer(409, "conflict", "x").body))

    assert sent.model_dump(mode="json") == {
        "code": "conflict",
        "message": "x",
        "details": {},
        "request_id": None,
    }


def test_every_operation_says_what_it_answers_with(document: Json) -> None:
    for method, path, operation in operations(document):
        assert operation["description"], (method, path)
        good = {status: answer for status, answer in operation["responses"].items() if status < "400"}
        (status,) = good
        if status != "204":
            (content,) = good[status]["content"].values()
            assert content["schema"], (method, path)


def test_every_input_has_a_limit_that_shows(document: Json) -> None:
    unlimited = []
    for method, path, operation in operations(document):
        schemas = [("", parameter["schema"]) for parameter in operation.get("parameters", [])]
        if "requestBody" in operation:
            schemas.append(("body", operation["requestBody"]["content"]["application/json"]["schema"]))
        unlimited += [
            f"{method} {path} {where}"
            for name, schema in schemas
            for where in list_unlimited(document, schema, name)
        ]

    assert unlimited == []


def test_requests_refuse_unknown_fields(document: Json) -> None:
    for method, path, operation in operations(document):
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            assert resolve(document, schema)["additionalProperties"] is False, (method, path)


def list_unlimited(document: Json, schema: Json, where: str) -> Iterator[str]:
    schema = resolve(document, schema)
    kind = schema.get("type")
    if kind in BOUNDED and not any(bound in schema for bound in BOUNDED[kind]):
        yield where
    for name, part in schema.get("properties", {}).items():
        yield from list_unlimited(document, part, f"{where}.{name}")
    if "items" in schema:
        yield from list_unlimited(document, schema["items"], f"{where}[]")
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from list_unlimited(document, branch, where)
