"""The review queue's rules: why something waits, and one person's round through it."""

from typing import Any
from uuid import UUID

import pytest

from strength.domain.review import (
    COUNT,
    MAX_SKIPPED,
    MAX_UNDO_STEPS,
    REASONS_BY_VERB,
    Item,
    PendingReason,
    Round,
    Sort,
    has_long_number,
    is_decided_by_rules,
    load_round,
    parse_item,
    pending_reasons,
)


def item(number: int, sort: Sort = Sort.MEMORY) -> Item:
    return Item(sort, UUID(int=number))


@pytest.mark.parametrize(
    ("memory", "whys"),
    [
        ((False, True, None, 0.5, False, False), [PendingReason.UNTRUSTED_SOURCE]),
        ((False, False, None, 0.5, False, False), [PendingReason.UNTRUSTED_WRITER]),
        ((True, True, 0.4, 0.5, False, False), [PendingReason.UNSURE]),
        ((True, False, 0.5, 0.5, False, False), [PendingReason.ASKED]),
        ((True, False, None, 0.5, True, False), [PendingReason.CONTRADICTS]),
        ((True, False, None, 0.5, False, False, True), [PendingReason.RESEMBLES]),
        ((True, False, None, 0.5, False, False, False, True), [PendingReason.UNCOMPARED]),
        (
            (False, True, 0.1, 0.5, True, True),
            [
                PendingReason.UNTRUSTED_SOURCE,
                PendingReason.DECIDED_AGAINST,
                PendingReason.CONTRADICTS,
                PendingReason.UNSURE,
            ],
        ),
    ],
)
def test_every_reason_is_told(memory: tuple[Any, ...], whys: list[PendingReason]) -> None:
    names = (
        "is_trusted", "has_untrusted_source", "confidence", "confidence_floor", "contradicts", "was_decided_against",
        "resembles", "is_uncompared",
    )  # fmt: skip
    assert pending_reasons(**dict(zip(names, memory, strict=False))) == whys


@pytest.mark.parametrize(("verb", "reason"), REASONS_BY_VERB.items())
def test_a_change_by_the_server_is_the_reason(verb: str, reason: PendingReason) -> None:
    values = {"is_trusted": True, "has_untrusted_source": False, "confidence": None, "confidence_floor": 0.5}
    assert pending_reasons(**values, contradicts=False, was_decided_against=False, last_verb=verb) == [reason]


def test_a_stated_password_is_a_reason_for_review() -> None:
    values = {"is_trusted": True, "has_untrusted_source": False, "confidence": None, "confidence_floor": 0.5}
    reasons = pending_reasons(**values, contradicts=False, was_decided_against=False, has_secret=True)
    assert reasons == [PendingReason.SENSITIVE]


@pytest.mark.parametrize("text", ["", "memory", "memory:", "memory:x", f"x:{UUID(int=1)}", "merge:1:2"])
def test_what_names_nothing_is_nothing(text: str) -> None:
    assert parse_item(text) is None


@pytest.mark.parametrize("sort", Sort)
def test_an_item_is_named(sort: Sort) -> None:
    assert parse_item(str(item(1, sort))) == item(1, sort)
    assert item(1, sort).is_merge == (sort is Sort.MERGE)


def test_what_is_skipped_stands_at_the_end_and_is_gone_back_to() -> None:
    round_ = Round().skip(item(1)).skip(item(2)).skip(item(1))
    assert round_.skipped == (item(2), item(1))
    assert round_.before(None) == round_.before(item(3)) == item(1) and round_.before(item(1)) == item(2)
    assert round_.unskip(item(1)).skipped == (item(2),) and Round().before(item(1)) is None


def test_decisions_are_counted_and_taken_back_the_last_first() -> None:
    round_ = Round().skip(item(1)).decide(item(1), "approve", {"trust": "trusted"}).decide(item(2), "reject", {})
    assert round_.skipped == () and round_.count == 2
    assert round_.last is not None and (round_.last.item, round_.last.number) == (item(2), 2)
    back = round_.undo_last()
    assert back.last is not None and back.last.undo_data == {"trust": "trusted"} and back.count == 1
    assert back.undo_last().last is None and back.undo_last().undo_last().count == 0
    again = back.decide(item(3), "merge", {})
    assert again.last is not None and again.last.number == 3  # a number is never given twice


def test_a_decision_about_many_counts_each() -> None:
    round_ = Round().decide(item(1), "approve", {}).decide(item(2), "approve", {COUNT: 5})
    assert (round_.count, round_.tally) == (6, {"approve": 6})
    back = load_round(round_.as_json()).undo_last()
    assert (back.count, back.tally) == (1, {"approve": 1})


def test_a_round_is_bounded() -> None:
    round_ = Round()
    for number in range(MAX_SKIPPED + 5):
        round_ = round_.skip(item(number)).decide(item(number + 1000), "approve", {})
    assert len(round_.skipped) == MAX_SKIPPED and len(round_.decided) == MAX_UNDO_STEPS
    assert round_.count == MAX_SKIPPED + 5 and round_.skipped[-1] == item(MAX_SKIPPED + 4)


def test_other_filters_begin_it_anew_but_for_the_way_back() -> None:
    round_ = Round(filter_query="agent=a").skip(item(1)).decide(item(2), "approve", {})
    assert round_.with_filters("agent=a") is round_
    other = round_.with_filters("agent=b")
    assert (other.skipped, other.count, other.filter_query, other.decided) == ((), 0, "agent=b", round_.decided)


def test_a_round_is_stored_whole() -> None:
    round_ = (
        Round(filter_query="sort=merge").skip(item(1)).skip(item(2, Sort.MERGE)).decide(item(3), "reject", {"after": 2})
    )
    assert load_round(round_.as_json()) == round_
    assert load_round(None) == Round()
    stored = round_.as_json()
    stored["skipped"].append("nonsense")
    stored["decided"].append([9, "nonsense", "approve", {}])
    assert load_round(stored) == round_


@pytest.mark.parametrize(
    ("verb", "reasons", "is_decided"),
    [
        ("approve", ["untrusted_source"], True),
        ("approve", ["untrusted_writer"], True),
        ("approve", ["untrusted_source", "sensitive"], False),
        ("approve", ["unsure"], False),
        ("reject", ["untrusted_source", "ungrounded", "unsure"], True),
        ("reject", ["untrusted_source", "to_be_forgotten"], False),
        ("archive", ["untrusted_source"], False),
    ],
)
def test_rules_decide_what_waits_for_trust(verb: str, reasons: list[str], is_decided: bool) -> None:
    assert is_decided_by_rules(verb, map(PendingReason, reasons)) is is_decided


@pytest.mark.parametrize(
    ("text", "is_long"),
    [("Build 123456789012.", False), ("Build 1234567890123.", True), ("１２３４５６７８９０１２３", True)],
)
def test_long_numbers_are_found_in_any_width(text: str, is_long: bool) -> None:
    assert has_long_number(text) is is_long
