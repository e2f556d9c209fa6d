"""From which share of failed statements on all that a model draws waits (SPEC L6)."""

from dataclasses import replace

import pytest

from conversations.domain.statements.grounding import UNRELIABLE, Doubt
from strength.domain.distrust import FEWEST, RECENT, distrusted
from strength.domain.extraction import Item, Strategy

GOOD = Item(Strategy.SEMANTIC, "The user lives in Otaru.", 0.9, ())
BAD = replace(GOOD, doubt=Doubt("name", "Osaka"))


def reasons(items: list[Item], earlier: list[bool]) -> list[str | None]:
    return [each.doubt and each.doubt.reason for each in distrusted(items, earlier)]


@pytest.mark.parametrize(
    ("items", "earlier", "waits"),
    [
        ([GOOD], [], False),
        ([GOOD, BAD], [True] * (FEWEST - 3), False),  # too few
        ([GOOD, BAD], [True] * (FEWEST - 2), True),
        ([GOOD, BAD], [False] * (FEWEST - 2), False),
        ([GOOD, GOOD, GOOD, BAD, BAD], [], True),  # of one answer
        ([GOOD, GOOD, GOOD, GOOD, BAD], [], False),
        ([GOOD], [False] * (RECENT - 1) + [True] * RECENT, False),  # an older past is forgotten
        ([GOOD], [True] * RECENT, True),
        ([GOOD] * RECENT, [True] * RECENT, False),
    ],
)
def test_what_passed_the_checks_waits_where_much_else_failed(
    items: list[Item], earlier: list[bool], waits: bool
) -> None:
    expected = [UNRELIABLE if waits and each.doubt is None else each.doubt and each.doubt.reason for each in items]
    assert reasons(items, earlier) == expected


def test_a_statement_keeps_its_own_reason() -> None:
    assert reasons([BAD], [True] * 10) == ["name"]
    assert distrusted([], [True] * 10) == []
