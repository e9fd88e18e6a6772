"""Tool arguments: strict models, the compact JSON schema a model reads, and errors it can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from shared.errors import InvalidInput


class ToolArguments(BaseModel):
    """Base of all argument models: nothing is coerced, unknown arguments are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


A = TypeVar("A", bound=ToolArguments)


def _whole(value: object) -> object:
    # JSON Schema 2020-12 (section 6.1.1 of validation): 3.0 is an integer, and some clients write it so.
    return int(value) if isinstance(value, float) and value.is_integer() else value


# Stands last in `Annotated[int, Field(ge=1), WHOLE]`: before a bound it would hide the bound from the schema.
WHOLE = BeforeValidator(_whole)


def compact_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The model's JSON schema less what costs tokens and says nothing: titles, null branches and defaults."""
    schema = model.model_json_schema(mode="validation")
    definitions = schema.pop("$defs", {})
    compacted: dict[str, Any] = _compact(schema, definitions)
    compacted.pop("description", None)
    return compacted


def parse_arguments(tool: str, model: type[A], given: Mapping[str, Any] | None) -> A:
    """Check what a client sent.

    Raises:
        InvalidInput: naming each wrong argument, what is expected, and the whole signature.
    """
    try:
        return model.model_validate(dict(given or {}))
    except ValidationError as exc:
        faults = "; ".join(
            _explain(error) for error in exc.errors(include_url=False, include_input=False)[:5]
        )
        raise InvalidInput(
            f"Invalid arguments for {tool}: {faults}. Expected: {signature(tool, model)}"
        ) from None


def signature(tool: str, model: type[BaseModel]) -> str:
    """`send(to: string, body: string, in_reply_to?: integer)`: one line a model can copy from."""
    schema = compact_schema(model)
    required = set(schema.get("required", ()))
    parts = [
        f"{name}{'' if name in required else '?'}: {_type_name(spec)}"
        for name, spec in schema.get("properties", {}).items()
    ]
    return f"{tool}({', '.join(parts)})"


def _type_name(spec: Mapping[str, Any]) -> str:
    if "enum" in spec:
        return " | ".join(str(value) for value in spec["enum"])
    if "anyOf" in spec:
        return " | ".join(_type_name(branch) for branch in spec["anyOf"])
    if isinstance(spec.get("type"), list):
        return " | ".join(spec["type"])
    kind = str(spec.get("type", "any"))
    return f"list of {_type_name(spec['items'])}" if kind == "array" and "items" in spec else kind


def _explain(error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"]) or "arguments"
    match error["type"]:
        case "missing":
            return f"`{where}` is missing"
        case "extra_forbidden":
            return f"`{where[:80]}` is not an argument"
        case "value_error":
            return f"`{where}` {error['ctx']['error']}"
        case _:
            return f"`{where}`: {error['msg'][0].lower()}{error['msg'][1:]}"


def _compact(node: Any, definitions: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(node, list):
        return [_compact(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[1]]
        return _compact({**target, **{k: v for k, v in node.items() if k != "$ref"}}, definitions)
    if "anyOf" in node:
        branches = [branch for branch in node["anyOf"] if branch.get("type") != "null"]
        if len(branches) == 1:
            rest = {k: v for k, v in node.items() if k != "anyOf"}
            return _compact({**branches[0], **rest}, definitions)
    compacted = {}
    for key, value in node.items():
        if key == "properties":
            compacted[key] = {name: _compact(spec, definitions) for name, spec in value.items()}
        elif key == "title" or (key == "default" and value is None) or (key == "maximum" and value >= 2**53):
            continue
        else:
            compacted[key] = _compact(value, definitions)
    return compacted
