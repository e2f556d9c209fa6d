"""SPEC X1–X10, C2, C3: who enters, what gives way, and what the result says of it."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from conversations.domain.assembly import Assembly, AssemblyRequest, InvalidContext, Item, assemble
from conversations.domain.budget import ContextTooLarge, cuts_needed
from conversations.domain.content import Content
from conversations.domain.formats import count_context
from conversations.domain.layers import (
    PINNED,
    PROFILE,
    PROJECT,
    RECALL,
    SEMANTIC,
    SESSION_SUMMARY,
    WORKING,
    Candidate,
    LayerResult,
)
from conversations.domain.policy import ContextPolicy
from conversations.domain.prompt import NonceCollision
from tests.unit.conversations.domain.context_reader import read_context

NONCE = "0123456789abcdef"
LONG = "word " * 60


def count(text: str) -> int:
    return len(text) // 3 + 1


def build(*candidates: Candidate, request: dict[str, Any] | None = None, **policy: object) -> Assembly:
    values: dict[str, Any] = {"message": "now?", "nonce": NONCE, "layers": (LayerResult(candidates),)}
    values |= {"policy": ContextPolicy().validated(**policy)} | (request or {})
    return assemble(AssemblyRequest(**values), count)


def turn(content: Content, role: str = "user", source_id: str | None = None) -> Candidate:
    return Candidate(layer=WORKING, role=role, content=content, source_id=source_id)


def memory(content: str, relevance: float = 0.5, layer: str = SEMANTIC, **more: Any) -> Candidate:
    return Candidate(layer=layer, content=content, relevance=relevance, **more)


def said(content: str, relevance: float = 0.5, **more: Any) -> Candidate:
    return memory(content, relevance, layer=RECALL, **{"role": "user", **more})


def reasons(assembly: Assembly) -> list[str]:
    """The candidates' reasons, without the two texts that always stand there."""
    return [item.reason for item in assembly.items[1:-1]]


def kept(assembly: Assembly, layer: str) -> list[str]:
    return [item.excerpt for item in assembly.items if item.layer == layer and item.included]


def test_an_empty_memory_gives_system_and_message() -> None:
    assembly = build(system_prompt="Be kind.")

    assert isinstance(assembly.system, str)
    assert assembly.system.startswith("Be kind.\n\nFrom <remembered-CODE>")
    assert assembly.messages == [{"role": "user", "content": "now?"}]
    assert [(item.layer, item.reason) for item in assembly.items] == [
        ("system", "included"),
        ("user_message", "included"),
    ]
    assert not assembly.metadata.compression_applied


def test_everything_enters_where_there_is_room() -> None:
    assembly = build(
        Candidate(layer=PINNED, content="p", source_id="1"),
        memory("s", source_id="2", final_score=0.7, score_breakdown={"total": 0.7}),
        said("r", source_id="3"),
        Candidate(layer=PROJECT, content="# x"),
        Candidate(layer=SESSION_SUMMARY, content="sum"),
        turn("w"),
        request={"project": "garden"},
    )

    metadata = assembly.metadata
    assert reasons(assembly) == ["included"] * 6
    assert (metadata.pinned_count, metadata.semantic_memory_count, metadata.recall_count) == (1, 1, 1)
    assert (metadata.working_memory_count, metadata.has_session_summary, metadata.project) == (1, True, "garden")
    assert (metadata.token_limit, metadata.compression_applied) == (80_000, False)
    assert assembly.items[2] == Item(
        layer=SEMANTIC,
        source_id="2",
        excerpt="s",
        tokens=count("1. s"),
        relevance=0.5,
        final_score=0.7,
        score_breakdown={"total": 0.7},
        included=True,
        reason="included",
    )
    json.dumps(asdict(assembly))


def standing(content: str, **more: Any) -> Candidate:
    return Candidate(layer=PROFILE, content=content, **more)


def test_the_profile_stays_within_its_tokens_and_passes_over_what_is_too_long() -> None:
    assembly = build(
        standing(LONG), standing("tea"), standing("Kobe"), standing("x"), profile_max_tokens=2 * count("1. Kobe")
    )

    assert reasons(assembly) == ["limit", "included", "included", "limit"]
    assert (assembly.metadata.profile_count, assembly.metadata.compression_applied) == (2, False)


def test_the_profile_has_nothing_that_another_layer_has() -> None:
    assembly = build(memory("tea", source_id="1"), standing("tea", source_id="1"), standing(" tea ", source_id="2"))

    assert [(item.layer, item.reason) for item in assembly.items[1:-1]] == [("semantic", "included")]


def test_missing_layers_degrade_and_are_named_once() -> None:
    layers = (LayerResult((memory("s"),), ("embedder",)), LayerResult((), ("embedder", "summary")))

    assembly = build(request={"layers": layers, "project": "garden"})

    assert assembly.metadata.degraded == ("embedder", "summary")
    assert (assembly.metadata.project, assembly.metadata.has_session_summary) == (None, False)


@pytest.mark.parametrize(
    ("switch", "candidate"),
    [
        ("include_pinned", Candidate(layer=PINNED, content="x")),
        ("include_semantic_memory", memory("x")),
        ("include_recall", said("x")),
        ("include_profile", Candidate(layer=PROFILE, content="x")),
        ("include_project", Candidate(layer=PROJECT, content="x")),
        ("include_session_summary", Candidate(layer=SESSION_SUMMARY, content="x")),
    ],
)
def test_a_switch_leaves_its_layer_out(switch: str, candidate: Candidate) -> None:
    policy: dict[str, Any] = {switch: False}
    assembly = build(candidate, turn("w"), **policy)

    assert reasons(assembly) == ["switched_off", "included"]
    assert "remembered" not in str(assembly.messages)
    assert not assembly.metadata.compression_applied


def test_working_memory_keeps_the_latest_and_the_rest_the_best() -> None:
    working = build(*(turn(str(number)) for number in range(4)), working_memory_limit=2)
    best = build(*(memory(f"m{number}") for number in range(3)), semantic_memory_limit=2)
    none = build(said("r"), recall_limit=0)

    assert reasons(working) == ["limit", "limit", "included", "included"]
    assert reasons(best) == ["included", "included", "limit"]
    assert reasons(none) == ["limit"]
    assert not working.metadata.compression_applied


def test_there_is_one_session_summary() -> None:
    summaries = [Candidate(layer=SESSION_SUMMARY, content=text) for text in "ab"]

    assert reasons(build(*summaries)) == ["included", "limit"]


@pytest.mark.parametrize("role", ["system", "tool", "", "developer"])
def test_only_users_and_assistants_speak(role: str) -> None:
    assembly = build(turn("x", role), said("y", role=role), turn("z"), working_memory_limit=1)

    assert reasons(assembly) == ["role", "role", "included"]


@pytest.mark.parametrize(
    "candidate",
    [
        turn(" \n"),
        turn(()),
        turn(({"type": "text", "text": "\t"}, {"type": "text"}, {"type": "text", "text": None})),
        memory("\u200b\u2028"),
        said(""),
        Candidate(layer=PINNED, content="\u200d"),
        Candidate(layer=PROJECT, content="\n"),
        Candidate(layer=SESSION_SUMMARY, content=" "),
    ],
)
def test_what_shows_nothing_is_left_out(candidate: Candidate) -> None:
    assert reasons(build(candidate)) == ["empty"]


def test_the_same_message_appears_once_working_wins_over_recall() -> None:
    assembly = build(said("a", source_id="1"), turn("a", source_id="1"), said("a", source_id="2"))

    assert reasons(assembly) == ["duplicate", "included", "included"]


def test_a_message_beyond_the_working_limit_may_be_recalled() -> None:
    assembly = build(turn("a", source_id="1"), turn("b"), said("a", source_id="1"), working_memory_limit=1)

    assert reasons(assembly) == ["limit", "included", "included"]


def test_the_same_memory_appears_once_pinned_wins_over_semantic() -> None:
    assembly = build(
        memory("a", source_id="1"),
        memory("likes\ntea", source_id="2"),
        memory("c", source_id="3"),
        memory("c", source_id="4"),
        memory("d", layer=PINNED, source_id="1"),
        memory("likes tea", layer=PINNED, source_id="5"),
        semantic_memory_limit=1,
    )

    assert reasons(assembly) == ["duplicate", "duplicate", "included", "duplicate", "included", "included"]


def test_a_repeat_of_what_was_cut_is_no_duplicate() -> None:
    talk = [turn(LONG * 3, source_id=str(number)) for number in range(6)]
    assembly = build(*talk, said(LONG * 3, source_id="0"), said(LONG * 3, source_id="5"), max_tokens=1200)

    # Message 0 was cut from the conversation; message 5 is in it.
    assert reasons(assembly)[0] == "over_budget" and reasons(assembly)[5] == "included"
    assert reasons(assembly)[6:] == ["repeats_omitted", "duplicate"]


def test_a_repeat_of_an_answer_without_its_question_is_no_duplicate() -> None:
    answer = replace(turn("Fine.", role="assistant", source_id="1"), is_answer=True)
    assembly = build(answer, turn("b"), said("Fine.", role="assistant", source_id="1"))

    assert reasons(assembly) == ["orphan", "included", "repeats_omitted"]


def test_a_repeat_of_what_its_own_layers_limit_left_out_is_no_duplicate() -> None:
    rows = [memory("a", 0.9), memory("b", 0.8, source_id="1"), memory("b", 0.7, source_id="2")]

    assert reasons(build(*rows, semantic_memory_limit=1)) == ["included", "limit", "repeats_omitted"]


def test_a_message_and_a_memory_are_never_the_same() -> None:
    assert reasons(build(turn("a", source_id="1"), memory("a", source_id="1"))) == ["included", "included"]


def test_equal_words_said_twice_are_two_messages() -> None:
    assert reasons(build(turn("yes"), turn("yes"))) == ["included", "included"]


def test_a_blank_message_is_refused() -> None:
    with pytest.raises(InvalidContext, match="the user's message is empty"):
        build(request={"message": " \n"})


def test_system_and_message_alone_above_the_limit_are_an_error_with_figures() -> None:
    with pytest.raises(ContextTooLarge) as refused:
        build(memory("m"), request={"message": LONG * 10}, max_tokens=1000, system_prompt="p")

    assert refused.value.token_limit == 800
    bare = build(request={"message": LONG * 10}, system_prompt="p")
    assert refused.value.required_tokens == bare.metadata.total_tokens
    assert str(refused.value.required_tokens) in str(refused.value)


def test_a_nonce_in_a_text_that_enters_is_a_collision() -> None:
    for candidate in (memory(NONCE), turn(f"</remembered-{NONCE.upper()}>")):
        with pytest.raises(NonceCollision):
            build(candidate)
    assert reasons(build(memory(NONCE), include_semantic_memory=False)) == ["switched_off"]


def crowd() -> list[Candidate]:
    """Two or three of everything, about 100 tokens each."""
    return [
        Candidate(layer=PINNED, content=f"pinned 0 {LONG}"),
        Candidate(layer=PINNED, content=f"pinned 1 {LONG}"),
        *(memory(f"semantic {number} {LONG}", relevance) for number, relevance in enumerate((0.3, 0.9, 0.6))),
        *(said(f"recall {number} {LONG}", relevance) for number, relevance in enumerate((0.8, 0.2))),
        Candidate(layer=PROJECT, content=f"# project\n{LONG}\n## part 1\n{LONG}\n## part 2\n{LONG}"),
        Candidate(layer=SESSION_SUMMARY, content=f"summary {LONG}"),
        *(turn(f"turn {number} {LONG}", "user" if number % 2 else "assistant") for number in range(4)),
    ]


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (1760, {}),
        (1660, {SESSION_SUMMARY: 0}),
        (1460, {SESSION_SUMMARY: 0, PROJECT: 1}),
        (1360, {SESSION_SUMMARY: 0, PROJECT: 0}),
        (1260, {SESSION_SUMMARY: 0, PROJECT: 0, SEMANTIC: 2}),
        (1140, {SESSION_SUMMARY: 0, PROJECT: 0, SEMANTIC: 1}),
        (1010, {SESSION_SUMMARY: 0, PROJECT: 0, SEMANTIC: 1, RECALL: 1}),
        (910, {SESSION_SUMMARY: 0, PROJECT: 0, RECALL: 0, SEMANTIC: 1}),
        (760, {SESSION_SUMMARY: 0, PROJECT: 0, RECALL: 0, SEMANTIC: 1, WORKING: 3}),
        (660, {SESSION_SUMMARY: 0, PROJECT: 0, RECALL: 0, SEMANTIC: 1, WORKING: 2}),
        (560, {SESSION_SUMMARY: 0, PROJECT: 0, RECALL: 0, SEMANTIC: 0, WORKING: 2}),
        (500, {SESSION_SUMMARY: 0, PROJECT: 0, RECALL: 0, SEMANTIC: 0, WORKING: 1}),
    ],
)
def test_what_gives_way_follows_the_table(room: int, expected: dict[str, int]) -> None:
    assembly = build(*crowd(), max_tokens=2 * room, token_safety_margin=0.5)

    full = {PINNED: 2, SEMANTIC: 3, RECALL: 2, PROJECT: 1, SESSION_SUMMARY: 1, WORKING: 4}
    assert {layer: len(kept(assembly, layer)) for layer in full} == full | expected
    assert assembly.metadata.total_tokens <= room
    assert assembly.metadata.compression_applied == bool(expected)
    assert set(reasons(assembly)) <= {"included", "trimmed", "over_budget"}


def test_the_best_and_the_latest_are_what_stays() -> None:
    assembly = build(*crowd(), max_tokens=1470, token_safety_margin=0.5)

    (best,) = kept(assembly, SEMANTIC)
    assert best.startswith("semantic 1 ")
    assert [excerpt[:6] for excerpt in kept(assembly, WORKING)] == ["turn 2", "turn 3"]


def test_pinned_memories_are_the_last_to_go_the_first_of_them_last() -> None:
    prompt = "p" * 900
    assembly = build(*crowd(), max_tokens=1170, token_safety_margin=0.5, system_prompt=prompt)

    assert [item.excerpt[:8] for item in assembly.items[1:-1] if item.included] == ["pinned 0"]


def test_project_memory_loses_its_last_sections_first() -> None:
    assembly = build(*crowd(), max_tokens=3000, token_safety_margin=0.5)

    context = read_context(assembly.system, assembly.messages, NONCE)
    (text,) = context.entries[PROJECT]
    assert "# project\n" in text
    assert "## part 2" not in text
    project = next(item for item in assembly.items if item.layer == PROJECT)
    assert (project.included, project.reason) == (True, "trimmed")


def test_images_give_way_before_everything_else() -> None:
    image = {"type": "image", "url": "https://example.org/a.png", "name": "cat"}
    looked = turn(({"type": "text", "text": "look"}, image))

    roomy = build(looked, Candidate(layer=SESSION_SUMMARY, content="s"))
    tight = build(looked, Candidate(layer=SESSION_SUMMARY, content="s"), max_tokens=5000)
    other = build(looked, Candidate(layer=SESSION_SUMMARY, content="s"), request={"format": "openai"})

    assert reasons(roomy) == reasons(other) == ["included", "included"]
    assert reasons(tight) == ["trimmed", "included"]
    assert {"type": "text", "text": "[image]"} in tight.messages[0]["content"]
    assert other.messages[1]["content"][2] == {"type": "image_url", "image_url": {"url": image["url"]}}


def test_total_is_the_recount_in_both_forms() -> None:
    totals = set()
    for form in ("anthropic", "openai"):
        assembly = build(*crowd(), request={"format": form}, cache=True, memory_placement="with_user_message")
        assert assembly.metadata.total_tokens == count_context(assembly.system, assembly.messages, count)
        totals.add(assembly.metadata.total_tokens)

    assert len(totals) == 1


def test_a_share_confines_its_layer_and_the_rest_flows_on() -> None:
    shares = {"semantic": 0.1, "working": 0.1}
    assembly = build(
        *(turn(f"{number} {LONG}") for number in range(4)),
        *(memory(f"{number} {LONG}", 0.5 - number / 10) for number in range(5)),
        said(LONG),
        max_tokens=5000,
        layer_budgets=shares,
    )

    working, semantic = assembly.layer_budgets
    assert (working.layer, working.share, working.allowed) == ("working", 0.1, 400)
    assert working.used <= 400
    assert (semantic.layer, semantic.allowed) == ("semantic", 400 + 400 - working.used)
    assert semantic.used <= semantic.allowed
    assert reasons(assembly)[:4] == ["layer_budget", "included", "included", "included"]
    assert kept(assembly, RECALL), "no share, no confinement"
    assert assembly.metadata.compression_applied


def test_a_share_never_takes_a_layer_below_its_floor() -> None:
    shares = {"semantic": 0.001, "working": 0.001, "pinned": 0.001, "project": 0.04}
    assembly = build(*crowd(), max_tokens=5000, layer_budgets=shares)

    assert [len(kept(assembly, layer)) for layer in (SEMANTIC, WORKING, PINNED, PROJECT)] == [1, 2, 0, 1]
    assert next(item.reason for item in assembly.items if item.layer == PROJECT) == "trimmed"
    used = {share.layer: (share.allowed, share.used) for share in assembly.layer_budgets}
    assert used["pinned"] == (4, 0)
    assert used["working"][1] > used["working"][0]
    assert used["semantic"][0] == 4


def test_recall_may_bring_what_a_share_took_from_working_memory() -> None:
    turns = [turn(f"{number} {LONG}", source_id=str(number)) for number in range(3)]

    assembly = build(*turns, said(LONG, source_id="0"), layer_budgets={"working": 0.001})

    assert reasons(assembly) == ["layer_budget", "included", "included", "included"]


@pytest.mark.parametrize(
    ("totals", "freed", "limit", "expected"),
    [
        ([10], [], 10, 0),
        ([30, 20, 10], [10, 10], 20, 1),
        ([30, 20, 10], [1, 1], 10, 2),  # what is freed was underrated
        ([30, 29, 10], [99, 99], 10, 2),  # and overrated
        ([30, 20, 15, 10], [1, 1, 1], 20, 1),  # gone too far, and come back
        ([30, 31, 10], [-1, 5], 20, 2),
    ],
)
def test_the_fewest_cuts_are_made(totals: list[int], freed: list[int], limit: int, expected: int) -> None:
    assert cuts_needed(totals.__getitem__, count=len(freed), freed=lambda: freed, limit=limit) == expected


def test_a_fitting_context_is_counted_once_and_nothing_is_estimated() -> None:
    asked: list[int] = []

    def total_at(number: int) -> int:
        asked.append(number)
        return 1

    def freed() -> list[int]:
        raise AssertionError("not needed")

    assert cuts_needed(total_at, count=3, freed=freed, limit=1) == 0
    assert asked == [0]


def test_a_hundred_candidates_need_few_counts_of_the_whole() -> None:
    """The dear part is reading the whole block; a look at every single cut would read it 100 times."""
    blocks = 0

    def counting(text: str) -> int:
        nonlocal blocks
        blocks += text.startswith("<remembered-")
        return count(text)

    candidates = [Candidate(layer=PINNED, content=f"{number} {LONG}") for number in range(100)]
    policy = ContextPolicy().validated(max_tokens=8_000)
    layers = (LayerResult(tuple(candidates)),)
    request = AssemblyRequest(message="now?", nonce=NONCE, policy=policy, layers=layers)

    assembly = assemble(request, counting)

    assert 40 < assembly.metadata.pinned_count < 80
    assert blocks <= 6


@pytest.mark.parametrize("form", ["anthropic", "openai"])
def test_the_system_prompt_stands_apart_in_both_forms(form: str) -> None:
    system, turns = build(request={"format": form}, system_prompt="You are Kana.").prompt_and_turns

    assert str(system).startswith("You are Kana.")
    assert turns == [{"role": "user", "content": "now?"}]
