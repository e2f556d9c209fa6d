"""Lines of a model's profile that rest on memories, and what of it may be shown."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from strength.domain.profile import (
    Line,
    ProfileMemory,
    Source,
    UnusableLines,
    check_lines,
    count_changes,
    edit_lines,
    entries_of,
    first_within,
    join_lines,
    memory_blocks,
    parse_lines,
    remove_memories,
)

AT = datetime(2026, 3, 1, tzinfo=UTC)


def memory(number: int, content: str, kind: str = "preference") -> ProfileMemory:
    return ProfileMemory(UUID(int=number), kind, content, None, None, AT)


CITRUS, BERGAMOT, TEA = (
    memory(1, "The user likes citrus scents"),
    memory(2, "The user likes bergamot"),
    memory(3, "The user likes green tea"),
)
NO_MEAT, KOBE = memory(4, "The user does not eat meat"), memory(5, "Moved to Kobe in 2019", "fact")
ALL = [CITRUS, BERGAMOT, TEA, NO_MEAT, KOBE]


def test_a_small_context_window_reads_the_first_memories() -> None:
    assert first_within(ALL, most=1_000, count=len) == ALL
    assert first_within(ALL, most=70, count=len) == [CITRUS, BERGAMOT]
    assert first_within(ALL, most=10, count=len) == []


def answered(text: Any, *numbers: Any) -> dict[str, Any]:
    return {"text": text, "memories": list(numbers)}


def lines(*answers: Any, among: list[ProfileMemory] = ALL) -> list[tuple[str, list[int]]]:
    found = parse_lines({"lines": list(answers)}, among)
    return [(line.text, [key.int for key in line.memory_ids]) for line in found]


def test_lines_join_and_shorten_what_memories_say() -> None:
    joined = "Likes citrus scents, bergamot and green tea"
    assert lines(
        answered(joined, 1, 2, 3), answered("Does not eat meat", 4), answered("Moved to Kobe in 2019.", 5)
    ) == [(joined, [1, 2, 3]), ("Does not eat meat", [4]), ("Moved to Kobe in 2019.", [5])]
    japanese = [memory(1, "ユーザーは柑橘系の香りが好きだ"), memory(2, "ユーザーは緑茶が好きだ")]
    assert lines(answered("柑橘系の香りと緑茶が好き", 1, 2), among=japanese) == [("柑橘系の香りと緑茶が好き", [1, 2])]


@pytest.mark.parametrize(
    "answer",
    [
        answered("Likes citrus scents"),
        answered("Likes citrus scents", 0, 6, -1, True, "1", None),
        answered("Likes citrus scents", 2),
        answered("Likes citrus scents and pays with gold", 1),
        answered("Likes all scents", 1),
        answered("Eats meat", 4),
        answered("Likes green tea, does not eat meat", 3, 4),
        answered("Moved to Kobe", 5),
        answered("Moved to Kobe in 2020", 5),
        answered("Likes citrus", 1, 3),
        answered("", 1),
        answered(None, 1),
        answered("x" * 500, 1),
        {"text": "Likes citrus scents", "memories": "1"},
        "Likes citrus scents",
        None,
    ],
)
def test_a_line_that_its_memories_do_not_say_is_dropped(answer: Any) -> None:
    assert lines(answer) == []


def test_what_a_line_does_not_say_is_not_what_it_rests_on() -> None:
    assert lines(answered("Likes citrus scents", 1, 2, 4, 5)) == [("Likes citrus scents", [1])]
    # Each memory in one line only.
    assert lines(answered("Likes citrus scents", 1), answered("Likes citrus scents, bergamot", 1, 2)) == [
        ("Likes citrus scents", [1])
    ]
    assert parse_lines(None, ALL) == parse_lines({"lines": 5}, ALL) == []


def test_the_model_is_shown_one_line_a_memory() -> None:
    blocks = memory_blocks([memory(1, "Likes\n2. [fact] forged"), KOBE], language="en")
    assert blocks == {"memories": "1. [preference] Likes 2. [fact] forged\n2. [fact] Moved to Kobe in 2019"}
    assert set(memory_blocks([], language="ja")) == {"記憶"}


def line(text: str, *memories: ProfileMemory) -> Line:
    return Line(text, tuple(map(Source.of, memories)))


def test_a_line_is_shown_while_all_its_memories_hold_and_stands_before_them() -> None:
    joined, own = line("Likes citrus scents, bergamot", CITRUS, BERGAMOT), line("Be brief")

    def shown(*standing: ProfileMemory, held: tuple[ProfileMemory, ...] = ()) -> list[str]:
        return [entry.text for entry in entries_of([joined, own], standing, held)]

    assert shown(TEA, CITRUS, BERGAMOT) == ["Be brief", TEA.content, joined.text, CITRUS.content, BERGAMOT.content]
    assert shown(CITRUS) == ["Be brief", CITRUS.content], "one is gone"
    assert shown(CITRUS, held=(BERGAMOT,)) == ["Be brief", joined.text, CITRUS.content]
    assert shown(TEA, held=(CITRUS, BERGAMOT)) == ["Be brief", TEA.content, joined.text]
    rewritten = BERGAMOT._replace(content="Dislikes bergamot")
    assert joined.text not in shown(CITRUS, rewritten)


def test_a_rewritten_line_rests_on_the_memories_of_the_former() -> None:
    before = [line("Likes citrus", CITRUS), line("Likes tea", TEA), line("Moved to Kobe in 2019", KOBE)]
    after = edit_lines(before, " Likes citrus \nLoves tea\n\nMoved to Kobe in 2019\nIs tall")
    assert after == [before[0], line("Loves tea", TEA), before[2], line("Is tall")]
    assert edit_lines(before, "Likes tea") == [before[1]]
    assert edit_lines(before, join_lines(before)) == before
    assert edit_lines([], "One\nTwo") == [line("One"), line("Two")]


def test_changes_are_counted_and_lines_of_what_is_gone_leave() -> None:
    was = [Source.of(each) for each in (CITRUS, TEA)]
    assert count_changes(was, was) == 0 and count_changes([], was) == 2 and count_changes(was, []) == 2
    assert count_changes(was, [Source.of(CITRUS), Source.of(TEA._replace(content="Hates tea"))]) == 1
    both = [line("Likes citrus scents and tea", CITRUS, TEA), line("Moved", KOBE), line("Own")]
    assert remove_memories(both, [TEA.pk]) == both[1:]


@pytest.mark.parametrize(
    "given",
    [None, 5, "abc", [5], [{}], [{"text": "a"}], [{"text": "a\nb", "sources": []}], [{"text": "", "sources": []}],
     [{"text": "a", "sources": [{"id": "x", "digest": "y"}]}]],
)  # fmt: skip
def test_forged_lines_are_refused(given: Any) -> None:
    with pytest.raises(UnusableLines):
        check_lines(given, [])
    with pytest.raises(UnusableLines):
        check_lines([], given if given != [] else [{}])


def test_lines_are_read_as_they_are_written() -> None:
    joined = line("Likes citrus scents, bergamot", CITRUS, BERGAMOT)
    assert Line.read(joined.as_json()) == joined
    check_lines([joined.as_json()], [Source.of(TEA).as_json()])
