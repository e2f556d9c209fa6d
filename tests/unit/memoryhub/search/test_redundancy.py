from memoryhub.search.bm25 import QueryWords, term_id
from memoryhub.search.fusion import SpaceBounds
from memoryhub.search.redundancy import Hit, informative_hits

BOUNDS = SpaceBounds(0.3, 0.8, 0.2)
GOMA, EAT, VISIT, PORT = 1, 2, 3, 4
WORDS = QueryWords({GOMA: 20.0, EAT: 10.0, PORT: 20.0}, 40.0)


def kept(*hits: tuple[float, dict[int, float]], words: QueryWords = WORDS) -> list[int]:
    return informative_hits([Hit(relevance, None, document) for relevance, document in hits], words, BOUNDS)


def test_what_answers_another_part_of_the_message_is_kept() -> None:
    assert kept((0.9, {GOMA: 1.0, EAT: 1.0}), (0.5, {PORT: 1.0})) == [0, 1]


def test_what_shares_only_words_that_a_better_one_shares_is_left_out() -> None:
    assert kept((0.9, {GOMA: 1.0, EAT: 1.0}), (0.5, {GOMA: 1.0, VISIT: 1.0})) == [0]


def test_what_is_nearly_as_relevant_as_the_best_is_kept() -> None:
    assert kept((0.5, {GOMA: 1.0}), (0.45, {GOMA: 0.9})) == [0, 1]


def test_what_is_nearly_as_relevant_as_what_covers_it_is_kept() -> None:
    goma, former_port, present_port = (0.9, {GOMA: 1.0, EAT: 1.0}), (0.6, {PORT: 1.0}), (0.55, {PORT: 0.9})
    assert kept(goma, former_port, present_port) == [0, 1, 2]
    assert kept(goma, former_port, (0.51, {PORT: 0.9})) == [0, 1], "less relevant"
    assert kept(goma, (0.48, {PORT: 1.0}), (0.47, {PORT: 0.9})) == [0, 1], "neither is likely"


def test_the_most_relevant_of_several_covers_it() -> None:
    assert kept((0.9, {GOMA: 1.0}), (0.6, {GOMA: 0.5, PORT: 1.0}), (0.58, {GOMA: 0.5})) == [0, 1]


def test_what_was_left_out_speaks_for_nobody() -> None:
    hits = [(0.9, {GOMA: 1.0}), (0.6, {GOMA: 0.9, EAT: 0.1}), (0.5, {EAT: 1.0})]

    assert kept(*hits) == [0, 2]


def test_what_is_near_by_its_vector_is_kept() -> None:
    hits = [Hit(0.9, 0.9, {GOMA: 1.0}), Hit(0.5, 0.8, {GOMA: 0.5})]

    assert informative_hits(hits, WORDS, SpaceBounds(0.3, 0.8, 0.9)) == [0, 1]


def test_nothing_found_is_nothing_kept() -> None:
    assert kept() == []
    assert kept((0.0, {})) == [0]


def test_one_or_two_everyday_words_are_no_evidence() -> None:
    everyday, rare = [term_id(word) for word in ("hand", "want", "stay")], term_id("amoxicillin")
    words = QueryWords(dict.fromkeys([*everyday, rare], 10.0), 40.0)
    for shared, is_kept in (([0], False), ([0, 1], False), ([0, 1, 2], True)):
        assert kept((0.5, {everyday[place]: 1.0 for place in shared}), words=words) == [0] * is_kept
    assert kept((0.5, {rare: 1.0, everyday[0]: 1.0}), words=words) == [0]
    assert kept((0.5, {everyday[0]: 1.0}), words=QueryWords({everyday[0]: 10.0}, 10.0)) == [0]
    near = [Hit(0.5, 0.6, {everyday[0]: 1.0})]
    assert informative_hits(near, words, BOUNDS) == [0]
