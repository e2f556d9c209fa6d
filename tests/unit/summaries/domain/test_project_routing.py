"""What follows from a router's verdict, and the router of words."""

import pytest

from memoryhub.search.analysis import analyse
from summaries.domain.routing import (
    Action,
    Confidence,
    Example,
    Verdict,
    action_of,
    answer_schema,
    evidence,
    likeness,
    most_alike,
    profile_of,
    route_by_words,
    settled,
    verdict_of,
)

HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW


@pytest.mark.parametrize(
    ("project", "proposed", "confidence", "action"),
    [
        ("tea", None, HIGH, Action.ROUTE),
        ("tea", None, MEDIUM, Action.DISCLOSE),
        ("tea", None, LOW, Action.ASK),
        ("tea", "new", LOW, Action.PROPOSE),
        (None, "new", HIGH, Action.PROPOSE),
        (None, "new", MEDIUM, Action.PROPOSE),
        (None, "new", LOW, Action.PROPOSE),
        (None, None, HIGH, Action.ASK),
        (None, None, MEDIUM, Action.ASK),
        (None, None, LOW, Action.ASK),
    ],
)
def test_consequences(
    project: str | None, proposed: str | None, confidence: Confidence, action: Action
) -> None:
    assert action_of(Verdict(project, proposed, confidence)) is action


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (("tea", None, HIGH), ("tea", None, HIGH)),
        (("tea", "new", MEDIUM), ("tea", None, MEDIUM)),
        (("tea", None, LOW), (None, None, LOW)),
        (("tea", "garden", LOW), (None, "garden", LOW)),
        (("unknown", None, HIGH), (None, "unknown", LOW)),
        ((None, "Garden Shed", HIGH), (None, "garden-shed", HIGH)),
        ((None, "tea", LOW), (None, None, LOW)),
        ((None, "Tea", LOW), (None, "tea-2", LOW)),
        ((None, None, HIGH), (None, None, LOW)),
    ],
)
def test_a_models_names_are_settled(
    said: tuple[str | None, str | None, Confidence], kept: tuple[str | None, str | None, Confidence]
) -> None:
    verdict = settled(Verdict(*said, "because " * 100), ["tea", "coffee"])
    assert (verdict.project, verdict.proposed_name, verdict.confidence) == kept
    assert len(verdict.reason) <= 500


def test_answer_is_read() -> None:
    data = {"project": "", "proposed_name": None, "confidence": "medium", "reason": "So."}
    assert verdict_of(data) == Verdict(None, None, MEDIUM, "So.")
    assert set(answer_schema()["required"]) == set(data)


PROFILES = [
    profile_of("tea-shop", description="Green tea of Uji.", texts=["Gyokuro is steeped at sixty degrees."]),
    profile_of(
        "coffee-bar", description="Espresso and cakes.", texts=["Cups are warmed. 焙煎機の温度を記録する。"]
    ),
]


@pytest.mark.parametrize(
    ("message", "project", "confidence"),
    [
        ("How is gyokuro steeped, and how green is the tea?", "tea-shop", HIGH),
        ("Which espresso cups shall be warmed?", "coffee-bar", HIGH),
        ("焙煎機の温度が高すぎます", "coffee-bar", MEDIUM),
        ("Is there gyokuro?", "tea-shop", MEDIUM),
        ("Gyokuro or espresso?", None, LOW),
        ("Hello there", None, LOW),
        ("", None, LOW),
    ],
)
def test_words_decide(message: str, project: str | None, confidence: Confidence) -> None:
    verdict = route_by_words(message, PROFILES, [])
    assert (verdict.project, verdict.confidence) == (project, confidence)


def test_what_begins_something_is_named() -> None:
    verdict = route_by_words("Let us build a garden shed with windows", PROFILES, [])
    assert verdict.proposed_name == "build-garden-shed-windows"
    assert route_by_words("build it", PROFILES, []).proposed_name is None


def test_without_projects_nothing_is_found() -> None:
    assert route_by_words("Green tea", [], []).project is None


def test_shared_words_tell_less() -> None:
    both = [profile_of(name, description="Green tea.", texts=[]) for name in ("one", "two")]
    alone = evidence(analyse("green"), both[:1])["one"]
    assert evidence(analyse("green"), both)["one"] == pytest.approx(alone / 2)


def test_words_count_by_where_they_stand() -> None:
    profile = profile_of("tea", description="shop", texts=["cups tea"], examples=["lids shop"])
    weights = [profile.terms[term] for term in ("tea", "shop", "cup", "lid")]
    assert weights == sorted(weights, reverse=True) and weights[0] > weights[1] > weights[2]


EXAMPLES = [
    Example("Move the blue ticket to the right column", "coffee-bar"),
    Example("Move the blue ticket to the right column", "tea-shop"),
    Example("Paint the old fence white", "gone"),
]


@pytest.mark.parametrize(
    ("message", "project", "confidence"),
    [
        ("move  the BLUE ticket to the right column", "coffee-bar", HIGH),
        ("Now move the blue ticket to the right column", "coffee-bar", HIGH),
        ("Move the red ticket to the right column", "coffee-bar", MEDIUM),
        ("Paint the old fence white", None, LOW),
    ],
)
def test_message_like_one_put_right_goes_where_that_went(
    message: str, project: str | None, confidence: Confidence
) -> None:
    verdict = route_by_words(message, PROFILES, EXAMPLES)
    assert (verdict.project, verdict.confidence) == (project, confidence)


def test_likeness_is_a_share() -> None:
    one, other = analyse("green tea"), analyse("green coffee")
    assert likeness(one, one) == 1.0
    assert likeness(one, other) == pytest.approx(1 / 3)
    assert likeness(analyse(""), analyse("")) == 0.0


def test_most_alike_come_first_and_of_equals_the_latest() -> None:
    examples = [Example("coffee", "a"), Example("green tea", "b"), Example("cake", "c")]
    assert [each.project for each in most_alike("tea", examples, 2)] == ["b", "a"]
    assert most_alike("tea", examples, 0) == []
