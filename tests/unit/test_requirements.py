"""Every requirement has a test, and every test that claims one names one that exists."""

from __future__ import annotations

from tests.claims import list_claims
from tests.requirements import GUARANTEES, REQUIREMENTS


def test_every_requirement_has_a_test_and_every_claim_a_requirement() -> None:
    ids = {claim.requirement for claim in list_claims()}
    assert sorted(REQUIREMENTS.keys() - ids) == [], "requirements without a test"
    assert sorted(ids - REQUIREMENTS.keys()) == [], "tests that name no requirement"


def test_requirements_read_as_one_sentence_each() -> None:
    odd = [name for name, row in REQUIREMENTS.items() if not row.source or row.text.endswith(".")]
    assert odd == []


def test_every_part_of_the_guarantees_is_one_of_the_requirements() -> None:
    assert set(GUARANTEES) <= {row.source for row in REQUIREMENTS.values()}
