"""SPEC X3: the table of what gives way first, and the cuts that follow from it."""

import pytest

from conversations.domain.budget import CUT_ORDER, Cut, apply_cuts, plan_cuts, steps_within_share
from conversations.domain.content import Content, sections_of
from conversations.domain.layers import (
    PHRASES,
    PINNED,
    PRECEDENCE,
    PROFILE,
    PROJECT,
    RECALL,
    REMEMBERED,
    SEMANTIC,
    SESSION_SUMMARY,
    WISHES,
    WORKING,
    Candidate,
)

IMAGE = {"type": "image", "url": "https://example.org/a.png", "name": "a"}
FILE = {"type": "file", "name": "b.pdf"}


def cuts_of(*candidates: Candidate) -> list[tuple[int, Content | None]]:
    contents = {place: candidate.content for place, candidate in enumerate(candidates)}
    return [(cut.place, cut.leaves) for cut in plan_cuts(candidates, contents)]


def test_the_order_is_the_specs() -> None:
    assert [(step.layer, step.floor) for step in CUT_ORDER] == [
        (WORKING, 0),  # quotes of untrusted writers
        (WORKING, 0),  # attachments only
        (WORKING, 0),  # long results of tools are shortened
        (SESSION_SUMMARY, 0),
        (PROJECT, 0),
        (WORKING, 0),  # long ones of earlier sessions are shortened
        (WORKING, 2),  # those of earlier sessions
        (RECALL, 5),
        (PROFILE, 0),
        (SEMANTIC, 1),
        (WORKING, 4),
        (RECALL, 0),
        (WORKING, 2),
        (SEMANTIC, 0),
        (WORKING, 0),
        (PINNED, 0),
    ]


def test_every_layer_gives_way_in_the_end() -> None:
    assert {step.layer for step in CUT_ORDER if step.floor == 0} == set(PRECEDENCE)


def test_every_remembered_layer_has_a_heading_in_every_language() -> None:
    assert {*REMEMBERED, WORKING} == set(PRECEDENCE)
    assert all(set(phrases.headings) == {*REMEMBERED, WISHES} for phrases in PHRASES.values())


def test_a_share_never_breaks_a_floor() -> None:
    assert [step.floor for step in steps_within_share(SEMANTIC)] == [1]
    assert [step.floor for step in steps_within_share(WORKING)] == [0, 0, 0, 0, 2, 4, 2]
    assert [step.floor for step in steps_within_share(PINNED)] == [0]


def test_a_layer_without_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown context layer 'weather'"):
        Candidate(layer="weather", content="rain")


def test_working_memory_goes_oldest_first_and_the_last_two_after_the_last_semantic() -> None:
    turns = [Candidate(layer=WORKING, role="user", content=str(number)) for number in range(4)]
    memory = Candidate(layer=SEMANTIC, content="m", relevance=0.5)

    assert cuts_of(*turns, memory) == [(0, None), (1, None), (4, None), (2, None), (3, None)]


@pytest.mark.parametrize(
    ("relevances", "order"), [([0.2, 0.9, 0.1], [2, 0, 1]), ([0.5, 0.5, 0.5], [2, 1, 0]), ([None, 0.0, 0.3], [0, 1, 2])]
)
@pytest.mark.parametrize("layer", [SEMANTIC, RECALL])
def test_memories_go_least_relevant_first_equals_last_first(
    layer: str, relevances: list[float | None], order: list[int]
) -> None:
    memories = [Candidate(layer=layer, content="m", role="user", relevance=value) for value in relevances]

    assert [place for place, _ in cuts_of(*memories)] == order


def test_pinned_memories_go_last_of_all_the_last_first() -> None:
    pinned = [Candidate(layer=PINNED, content="p") for _ in range(2)]
    turn = Candidate(layer=WORKING, role="user", content="t")

    assert cuts_of(*pinned, turn) == [(2, None), (1, None), (0, None)]


def test_a_session_summary_goes_whole() -> None:
    assert cuts_of(Candidate(layer=SESSION_SUMMARY, content="# a\n# b")) == [(0, None)]


def test_project_documents_go_section_by_section_the_last_document_first() -> None:
    first = Candidate(layer=PROJECT, content="# A\nx\n## B\ny\n## C\nz")
    second = Candidate(layer=PROJECT, content="# D\n## E\n")

    assert cuts_of(first, second) == [(1, "# D\n"), (1, None), (0, "# A\nx\n## B\ny\n"), (0, "# A\nx\n"), (0, None)]


def test_a_beginning_that_shows_nothing_is_no_stage() -> None:
    assert cuts_of(Candidate(layer=PROJECT, content=" \n\u200b\n# A\n")) == [(0, None)]


def test_attachments_become_a_word_before_anything_else_goes() -> None:
    turn = Candidate(layer=WORKING, role="user", content=(IMAGE, {"type": "text", "text": "t"}, FILE))
    summary = Candidate(layer=SESSION_SUMMARY, content="s")
    image, file = ({"type": kind, "given_way": True} for kind in ("image", "file"))

    assert cuts_of(summary, turn) == [
        (1, (image, {"type": "text", "text": "t"}, FILE)),
        (1, (image, {"type": "text", "text": "t"}, file)),
        (0, None),
        (1, None),
    ]


def test_cuts_apply_in_order_and_leave_the_rest() -> None:
    assert apply_cuts({0: "a", 1: "b", 2: "c"}, [Cut(1, "B"), Cut(0, None)]) == {1: "B", 2: "c"}


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("", []),
        ("plain\ntext", ["plain\ntext"]),
        ("# A\n## B\n", ["# A\n", "## B\n"]),
        ("intro\n# A\nx", ["intro\n", "# A\nx"]),
        ("#tag\n####### seven\n#\n", ["#tag\n####### seven\n", "#\n"]),
        ("    # code\n   # heading\n", ["    # code\n", "   # heading\n"]),
        ("# A\n```sh\n# no\n~~~\n# no\n```\n# B\n", ["# A\n```sh\n# no\n~~~\n# no\n```\n", "# B\n"]),
        ("# A\n~~~\n# never closed\n", ["# A\n~~~\n# never closed\n"]),
    ],
)
def test_sections_follow_headings_outside_code(text: str, sections: list[str]) -> None:
    assert sections_of(text) == sections
    assert "".join(sections_of(text)) == text


LONG = "We walked to the lake. " * 60


def test_what_was_said_before_this_session_gives_way_before_what_answers() -> None:
    earlier = [
        Candidate(layer=WORKING, content=text, source_id=str(number), role="user", is_earlier=True)
        for number, text in enumerate(("short", LONG, "last but one", "last"))
    ]
    answers = Candidate(layer=RECALL, content="It was plum.", source_id="plum", relevance=0.4)
    own = Candidate(layer=WORKING, content=LONG, source_id="own", role="user")
    cuts = cuts_of(*earlier, own, answers)
    place, beginning = cuts[0]
    assert place == 1
    assert str(beginning).startswith("We walked to the lake. ")
    assert len(str(beginning)) < 700
    # Two of the layer stay for the next of its rows, whichever session they are of.
    assert cuts[1:4] == [(0, None), (1, None), (2, None)]
    assert cuts[4] == (5, None)


def test_only_earlier_sessions_are_shortened() -> None:
    own = [Candidate(layer=WORKING, content=LONG, source_id=str(number), role="user") for number in range(5)]
    assert all(leaves is None for _, leaves in cuts_of(*own))
