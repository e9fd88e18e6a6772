"""Arguments are strict, schemas compact, errors say what is expected."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field

from shared.errors import InvalidInput
from shared.mcp.arguments import WHOLE, ToolArguments, compact_schema, parse_arguments, signature


class Demo(ToolArguments):
    to: Annotated[str, Field(min_length=1, description="whom")]
    count: Annotated[int, Field(ge=1), WHOLE] | None = None
    flag: bool | None = None


def parse(given: object) -> Demo:
    assert given is None or isinstance(given, dict)
    return parse_arguments("demo", Demo, given)


def test_good_arguments_are_taken_as_they_are() -> None:
    assert parse({"to": "a", "count": 2, "flag": True}) == Demo(to="a", count=2, flag=True)


def test_an_explicit_null_means_absent() -> None:
    assert parse({"to": "a", "count": None}).count is None


def test_a_whole_float_is_an_integer() -> None:
    assert parse({"to": "a", "count": 3.0}).count == 3


@pytest.mark.parametrize(
    "given", [{"count": "3"}, {"count": 3.5}, {"count": True}, {"flag": "yes"}, {"flag": 1}]
)
def test_nothing_is_coerced(given: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=f"`{next(iter(given))}"):
        parse({"to": "a", **given})


def test_an_unknown_argument_is_named_with_the_signature() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse({"to": "a", "too": "b"})
    assert "`too` is not an argument" in caught.value.message
    assert "demo(to: string, count?: integer, flag?: boolean)" in caught.value.message


@pytest.mark.parametrize("given", [None, {}])
def test_a_missing_argument_is_named(given: object) -> None:
    with pytest.raises(InvalidInput, match="`to` is missing"):
        parse(given)


def test_the_given_value_is_not_echoed() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse({"to": "a", "count": "hunter2-secret"})
    assert "hunter2" not in caught.value.message


def test_the_schema_has_no_titles_no_null_branches_and_refuses_unknown_properties() -> None:
    assert compact_schema(Demo) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["to"],
        "properties": {
            "to": {"type": "string", "minLength": 1, "description": "whom"},
            "count": {"type": "integer", "minimum": 1},
            "flag": {"type": "boolean"},
        },
    }


def test_the_signature_marks_what_may_be_left_out() -> None:
    assert signature("demo", Demo) == "demo(to: string, count?: integer, flag?: boolean)"
