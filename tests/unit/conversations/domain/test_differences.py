"""Two contexts of one message: which entries enter only one of them, and what counts as the same entry."""

from typing import Any

import pytest

from conversations.domain.differences import Difference, Outcome, by_frequency, identity, is_of


def item(layer: str, key: str | None, text: str, *, included: bool = True, **values: Any) -> dict[str, Any]:
    return {"layer": layer, "source_id": key, "excerpt": text, "included": included, **values}


def outcome(*items: dict[str, Any], prompt: str = "") -> Outcome:
    entered = [each["excerpt"] for each in items if each["included"]]
    return Outcome(items, total_tokens=len(items), token_limit=10, prompt=prompt or entered)


TEA = item("semantic", "1", "likes tea")
LINE = item("profile", "9", "tea, no coffee", memory_ids=("1", "2"))


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (item("pinned", "1", "likes tea"), True),
        (item("profile", "1", "likes tea"), True),
        (item("semantic", "2", "likes tea"), False),
        (item("recall", "1", "likes tea"), False),
        (item("profile", "1", "likes tea", memory_ids=("1",)), False),
    ],
)
def test_a_memory_is_the_same_in_every_layer_of_memories(other: dict[str, Any], is_same: bool) -> None:
    assert (identity(TEA) == identity(other)) is is_same


def test_an_entry_without_a_source_is_known_by_its_text() -> None:
    assert identity(item("system", None, "Be brief.")) == "system Be brief."


def test_what_entered_only_one_of_them_came_or_went() -> None:
    jazz, left_out = item("semantic", "2", "likes jazz"), item("semantic", "3", "likes maps", included=False)
    difference = Difference.between(outcome(TEA, left_out), outcome(jazz, left_out))
    assert (difference.came, difference.went, difference.is_changed) == ([jazz], [TEA], True)
    assert Difference.between(outcome(TEA), outcome(TEA)) == Difference([], [], is_changed=False)


def test_an_entry_with_another_text_is_among_both() -> None:
    now = item("semantic", "1", "likes green tea")
    difference = Difference.between(outcome(TEA), outcome(now))
    assert (difference.came, difference.went) == ([now], [TEA])


def test_a_refused_context_has_no_entry() -> None:
    assert Difference.between(outcome(TEA), None) == Difference([], [TEA], is_changed=True)
    assert Difference.between(None, None) == Difference([], [], is_changed=False)


def test_a_change_beyond_the_excerpt_is_a_change() -> None:
    assert Difference.between(outcome(TEA, prompt="a"), outcome(TEA, prompt="b")) == Difference([], [], is_changed=True)


def test_a_context_holds_a_memory_by_itself_or_in_a_line() -> None:
    assert [outcome(TEA, LINE).holds(key) for key in ("1", "2", "3")] == [True, True, False]
    assert not outcome(item("semantic", "1", "likes tea", included=False)).holds("1")
    assert is_of(LINE, "9") and not is_of(TEA, "2")


def test_the_most_frequent_come_first() -> None:
    jazz = item("semantic", "2", "likes jazz")
    assert by_frequency([TEA, jazz, jazz]) == [(jazz, 2), (TEA, 1)]
