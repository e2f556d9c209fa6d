"""Consequences of a router's prediction, and routing by words."""

import re

import pytest

from memoryhub.search.analysis import analyse
from summaries.domain.routing import (
    REASONS,
    Action,
    Confidence,
    PastDecision,
    Prediction,
    action_of,
    answer_schema,
    parse_prediction,
    reason_parts,
    session_project,
    usable_prediction,
)
from summaries.domain.word_router import (
    COMPARED_LENGTH,
    MAX_CATALOG_PROJECTS,
    Example,
    characters_per_document,
    evidence,
    exact_correction,
    most_similar,
    profile_of,
    route_by_words,
    shortlist,
    weighted_overlap,
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
def test_consequences(project: str | None, proposed: str | None, confidence: Confidence, action: Action) -> None:
    assert action_of(Prediction(project, proposed, confidence)) is action


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (("tea", None, HIGH), ("tea", None, HIGH)),
        (("tea", "new", MEDIUM), ("tea", None, MEDIUM)),
        (("tea", None, LOW), (None, None, LOW)),
        (("tea", "garden", LOW), (None, "garden", LOW)),
        (("unknown", None, HIGH), (None, "unknown", LOW)),
        ((None, "Garden Shed", HIGH), (None, "garden-shed", MEDIUM)),
        ((None, "Garden Shed", LOW), (None, "garden-shed", LOW)),
        ((None, "tea", LOW), (None, None, LOW)),
        ((None, "Tea", LOW), (None, "tea-2", LOW)),
        ((None, None, HIGH), (None, None, LOW)),
    ],
)
def test_a_models_names_are_settled(
    said: tuple[str | None, str | None, Confidence], kept: tuple[str | None, str | None, Confidence]
) -> None:
    verdict = usable_prediction(Prediction(*said, "because " * 100), ["tea", "coffee"])
    assert (verdict.project, verdict.proposed_name, verdict.confidence) == kept
    assert len(verdict.reason) <= 500


def test_a_models_guess_at_the_sessions_project_counts() -> None:
    guess = Prediction("tea", None, LOW)
    assert usable_prediction(guess, ["tea"], current="tea") == Prediction("tea", None, MEDIUM)
    assert usable_prediction(guess, ["tea", "coffee"], current="coffee").project is None


ROUTED, GUESSED = PastDecision("tea", HIGH, Action.ROUTE), PastDecision("tea", MEDIUM, Action.DISCLOSE)
ASKED, PROPOSED = PastDecision(None, LOW, Action.ASK), PastDecision(None, LOW, Action.PROPOSE)
ELSEWHERE = PastDecision("coffee", MEDIUM, Action.DISCLOSE)


@pytest.mark.parametrize(
    ("latest_first", "project"),
    [
        ([], None),
        ([ROUTED], "tea"),
        ([GUESSED], "tea"),
        ([GUESSED, ASKED, PROPOSED], "tea"),
        ([GUESSED, ELSEWHERE], None),
        ([GUESSED, GUESSED, ROUTED], "tea"),
        ([ASKED, ROUTED], "tea"),
        ([PROPOSED, ROUTED], None),
        ([ELSEWHERE, ROUTED], None),
        ([PastDecision("coffee", MEDIUM, Action.DISCLOSE, corrected="tea"), ROUTED], "tea"),
        ([PastDecision(None, LOW, Action.ASK, corrected="coffee"), ROUTED], "coffee"),
        ([PastDecision("tea", HIGH, Action.ROUTE, corrected="coffee")], "coffee"),
    ],
)
def test_a_session_is_about_what_was_sure_or_put_right(latest_first: list[PastDecision], project: str | None) -> None:
    assert session_project(latest_first) == project


def test_answer_is_read() -> None:
    data = {"project": "", "proposed_name": None, "confidence": "medium", "reason": "So."}
    assert parse_prediction(data) == Prediction(None, None, MEDIUM, "So.")
    assert set(answer_schema()["required"]) == set(data)


PROFILES = [
    profile_of("tea-shop", description="Green tea of Uji.", texts=["Gyokuro is steeped at sixty degrees."]),
    profile_of("coffee-bar", description="Espresso and cakes.", texts=["Cups are warmed. 焙煎機の温度を記録する。"]),
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


@pytest.mark.parametrize(
    ("message", "project", "confidence"),
    [
        ("And what about the other one?", "tea-shop", MEDIUM),
        ("もう一つのほうはどうなりましたか", "tea-shop", MEDIUM),
        ("Please start with the second one", "tea-shop", MEDIUM),
        ("Gyokuro or espresso?", "tea-shop", MEDIUM),
        ("Which espresso cups shall be warmed?", "coffee-bar", HIGH),
        ("Is there espresso?", "coffee-bar", MEDIUM),
        ("Let us build a garden shed with windows", None, LOW),
    ],
)
def test_what_names_nothing_stays_with_its_session(message: str, project: str | None, confidence: Confidence) -> None:
    verdict = route_by_words(message, PROFILES, [], current="tea-shop")
    assert (verdict.project, verdict.confidence) == (project, confidence)


def test_a_project_that_is_gone_keeps_no_session() -> None:
    assert route_by_words("And the other one?", PROFILES, [], current="gone").project is None


def test_words_alike_between_others_are_asked_about_in_a_session_too() -> None:
    others = [*PROFILES, profile_of("zoo", description="Elephants.", texts=[])]
    assert route_by_words("Gyokuro or espresso?", others, [], current="zoo").project is None


def test_a_follow_up_that_was_put_right_elsewhere_stays_with_its_own_session() -> None:
    examples = [Example("and the other?", "coffee-bar")]
    assert route_by_words("and the other?", PROFILES, examples).project == "coffee-bar"
    assert route_by_words("and the other?", PROFILES, examples, current="tea-shop").project == "tea-shop"
    named = [Example("Is there gyokuro in the shop?", "coffee-bar")]
    told = route_by_words("Is there gyokuro in the shop?", PROFILES, named, current="tea-shop")
    assert told.project == "coffee-bar"


def test_long_messages_that_begin_alike_are_not_the_same() -> None:
    letterhead = "Weekly report of the shop, sent to everybody. " * 30
    examples = [Example(f"{letterhead} About coffee."[:COMPARED_LENGTH], "coffee-bar")]
    names = ["coffee-bar", "tea-shop"]
    assert exact_correction(f"{letterhead} About tea.", examples, names) is None
    assert exact_correction(letterhead[: COMPARED_LENGTH - 1], examples, names) is None
    short = [Example("About  Coffee?", "coffee-bar")]
    assert exact_correction("about coffee?", short, names) is not None
    assert exact_correction("about coffee?", short, ["tea-shop"]) is None, "the project is gone"


def test_what_begins_something_is_named() -> None:
    verdict = route_by_words("Let us build a garden shed with windows", PROFILES, [])
    assert verdict.proposed_name == "build-garden-shed-windows"
    assert route_by_words("build it", PROFILES, []).proposed_name is None


@pytest.mark.parametrize(
    ("message", "is_found"),
    [
        ("Who speaks in the podcast?", True),
        ("Who likes our podcast?", True),
        ("Who heard a podcast?", False),  # any podcast
        ("Let's start with the podcast", False),  # begins something
        ("Who speaks in the podcast of the shop?", False),  # says two things
        ("番組の時間は", True),
        ("その番組を見た人は", False),
    ],
)
def test_young_project_is_found_by_what_a_message_takes_as_known(message: str, is_found: bool) -> None:
    profiles = [
        profile_of("voices", description="Let's set up a podcast, 町の番組", texts=[]),
        profile_of("tea", description="A tea shop", texts=["Green tea."]),
    ]
    found = route_by_words(message, profiles, [])
    assert (found.project, found.confidence) == (("voices", MEDIUM) if is_found else (None, LOW))


def test_old_project_is_not_found_by_one_common_word() -> None:
    long = "Let's set up a podcast " + " ".join(f"word{chr(97 + n)}" for n in range(25))
    assert (
        route_by_words("Who speaks in the podcast?", [profile_of("voices", description=long, texts=[])], []).project
        is None
    )


def test_without_projects_nothing_is_found() -> None:
    assert route_by_words("Green tea", [], []).project is None


def test_the_words_of_a_name_alone_are_never_sure() -> None:
    profiles = [profile_of("design-system", description="Buttons.", texts=[]), *PROFILES]
    told = route_by_words("A kind rejection after system design", profiles, [])
    assert (told.project, told.confidence) == ("design-system", MEDIUM)


@pytest.mark.parametrize(("documents", "share"), [(0, 6_000), (40, 6_000), (41, 3_000), (640, 375), (100_000, 375)])
def test_many_documents_are_looked_at_in_less_of_each(documents: int, share: int) -> None:
    assert characters_per_document(documents) == share


def test_a_model_is_shown_the_projects_that_may_be_meant() -> None:
    names = [f"project-{number}" for number in range(MAX_CATALOG_PROJECTS + 50)]
    profiles = [profile_of(name, description=f"About word{name[8:]}.", texts=[]) for name in names]
    assert shortlist("word340", profiles[:MAX_CATALOG_PROJECTS], first=[]) == names[:MAX_CATALOG_PROJECTS]
    shown = shortlist("word340", profiles, first=["project-349"])
    assert len(shown) == MAX_CATALOG_PROJECTS and {"project-340", "project-349"} <= set(shown)
    assert shown == [name for name in names if name in set(shown)], "in the catalog's order"


def test_a_long_message_is_compared_by_its_beginning() -> None:
    long = "gyokuro " * 1_000
    examples = [Example(long, "coffee-bar")]
    assert route_by_words(long, PROFILES, examples).project == "coffee-bar"
    assert most_similar(long, [Example("no", "tea-shop"), *examples], 1) == examples


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
    assert weighted_overlap(one, one) == 1.0
    assert weighted_overlap(one, other) == pytest.approx(1 / 3)
    assert weighted_overlap(analyse(""), analyse("")) == 0.0


def test_most_alike_come_first_and_of_equals_the_latest() -> None:
    examples = [Example("coffee", "a"), Example("green tea", "b"), Example("cake", "c")]
    assert [each.project for each in most_similar("tea", examples, 2)] == ["b", "a"]
    assert most_similar("tea", examples, 0) == []


def test_a_reason_of_ours_is_known_again_and_a_models_is_left_alone() -> None:
    for sentence in REASONS:
        named = {name: f"the-{name}" for name in re.findall(r"{(\w+)}", sentence)}
        assert reason_parts(sentence.format(**named)) == (sentence, named)
    assert reason_parts("The user names the garden.") is None
