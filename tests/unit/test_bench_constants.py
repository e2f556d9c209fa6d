"""`bench/constants.py` ranks as the server does: its arrays are held to the formulas of one text."""

import importlib
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from conversations.domain.messages import is_question, named_authors, searchable_text
from memoryhub.search import bm25
from memoryhub.search.analysis import analyse
from memoryhub.search.fusion import Turn, contextual_relevances, relevance
from memoryhub.search.query_text import QueryText

BENCH = Path(__file__).parents[2] / "bench"
START = datetime(2026, 3, 1, tzinfo=UTC)
SAID = [
    [
        ("Ann", "Did you buy the cello in Vienna?"),
        ("Ben", "Yes, from an old maker."),
        ("Ann", "How much was it?"),
        ("Ann", "A cello that old costs a fortune."),
    ],
    [
        ("Ben", "The cello needs new strings, and the maker in Vienna has none left."),
        ("Ann", "チェロの弦は東京で買える。"),
    ],
]
QUESTIONS = ("Where did Ben buy the cello?", "東京で何が買える？", "Who knows a maker?")


@pytest.fixture
def constants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return `bench/constants.py`; `bench` is a folder of scripts and no package."""
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module("constants")


def dataset_of(name: str, *collections: str) -> Any:
    """Return conversations that all say SAID."""
    sets = importlib.import_module("question_sets")
    groups = tuple(
        sets.Group(
            f"s{place}",
            tuple(
                sets.Text(f"{place}-{at}", text, START + timedelta(minutes=at), author=author)
                for at, (author, text) in enumerate(turns)
            ),
        )
        for place, turns in enumerate(SAID)
    )
    questions = tuple(sets.Question(text, frozenset({"0-1"})) for text in QUESTIONS)
    return sets.Dataset(name, "conversations", tuple(sets.Collection(each, groups, questions) for each in collections))


def test_arrays_agree_with_the_formulas_of_the_server(constants: ModuleType) -> None:
    dataset = dataset_of("said", "c")
    collection = dataset.collections[0]
    prepared = constants.prepare([dataset])["said"][0]
    ours = constants.Constants.ours()
    terms = [analyse(searchable_text(each.content, author=each.author, said_at=each.at)) for each in collection.texts]
    counts = Counter(place for each in terms for place in bm25.term_ids(each))
    own = bm25.frequent_terms([bm25.term_ids(each) for each in terms], documents=len(terms))
    known = bm25.Frequencies(len(terms), counts, len(terms), own)

    computed = prepared._relevance(ours)

    for place, question in enumerate(collection.questions):
        asked = QueryText.of_message(question.text).terms
        query = bm25.query_words(
            asked, {place: known.idf(place) for place in bm25.term_ids(asked)}, rarest_idf=known.rarest_idf
        )
        about = named_authors(question.text, {"Ann", "Ben"})
        expected: list[float] = []
        for group in collection.groups:
            turns: list[tuple[float, Any, int]] = []
            for text in group.texts:
                at = len(expected) + len(turns)
                words = bm25.word_score(bm25.document_weights(terms[at]), query)
                cosine = float(prepared.cosine[place, at])
                own = relevance(cosine, words, constants.EMBEDDER.bounds)
                qualifies = cosine >= constants.FLOORS.similarity_threshold or words >= constants.FLOORS.word_floor
                length = round(bm25.text_length(terms[at]))
                turns.append((own if qualifies else 0.0, text, length))
            expected += contextual_relevances(
                [
                    Turn(
                        own,
                        is_question(text.content),
                        is_by_other=len(about) == 1 and text.author not in about,
                        continues=continues,
                        length=length,
                    )
                    for (own, text, length), continues in zip(
                        turns, constants.continuing([text.author for _, text, _ in turns]), strict=True
                    )
                ]
            )
        assert computed[place] == pytest.approx(np.array(expected), abs=1e-3)
    assert computed.max() > 0.1


def test_what_is_chosen_are_the_medians_of_the_best(constants: ModuleType) -> None:
    tried = constants.settings(1)
    scores = np.array([each.neighbour_share for each in tried])

    chosen = constants.best_of(tried, scores)

    assert len(tried) == constants.SETTINGS
    assert chosen.neighbour_share == max(each.neighbour_share for each in tried)


def test_constants_follow_what_scores_best(constants: ModuleType) -> None:
    def score(each: Any) -> float:
        return -abs(each.half_length - 100) - abs(each.question_share - each.reply_share)

    reached = constants.climb(constants.Constants(half_length=30.0, reply_share=0.4), score)

    assert (reached.half_length, reached.question_share, reached.reply_share) == (85.0, 1.0, 1.0)
    assert reached.rarity == constants.Constants().rarity


def test_some_questions_are_asked_of_the_wrong_person(constants: ModuleType) -> None:
    sets = importlib.import_module("question_sets")
    texts = ("Where did Ann's cello go?", "Did Ann Lee or Ben sing?", "Who sings?", "What does Ann Lee play?")
    questions = [sets.Question(text, frozenset({"0-1"})) for text in texts * 2]

    wrong = list(constants.misnamed(questions, {"Ann Lee", "Ben Roe", "Cy"}))

    assert [each.text for each in wrong] == ["Where did Ben's cello go?"]
    assert wrong[0].evidence == {"0-1"}


def test_questions_without_an_answer_are_judged_apart(constants: ModuleType) -> None:
    sets = importlib.import_module("question_sets")
    dataset = dataset_of("said", "c")
    collection = dataset.collections[0]
    questions = (*collection.questions, sets.Question("Did Ann buy it?", frozenset({"0-1"}), constants.UNANSWERED))
    asked = replace(dataset, collections=(replace(collection, questions=questions),))
    prepared = constants.prepare([asked, dataset_of("told", "d")])

    rows = list(constants._judged("said", prepared["said"], constants.Constants()))

    assert [each["left out"] for each in rows] == ["said", "said, answered"]
    assert {"plain", "chosen without it", "ours", *constants.RANGES} <= rows[0].keys()


def test_every_other_conversation_is_judged_by_what_the_rest_chose(constants: ModuleType) -> None:
    prepared = constants.prepare([dataset_of("said", "c0", "c1"), dataset_of("told", "d")])

    names = [each["left out"] for each in constants.judgements(prepared)]

    assert names == ["said", "told", "said, half 1", "said, half 2"]
