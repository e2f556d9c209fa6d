"""The pure parts of `bench/retrieval.py`: reading question sets, scoring rankings, plain baselines."""

import importlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return `bench/question_sets.py`; `bench` is a folder of scripts and no package."""
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module("question_sets")


@pytest.fixture
def scoring(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return `bench/scoring.py`."""
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module("scoring")


CONVERSATION: dict[str, Any] = {
    "sample_id": "tiny",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Bo",
        "session_2_date_time": "12:05 am on 1 June, 2024",
        "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "The kettle is blue."}],
        "session_1_date_time": "1:56 pm on 8 May, 2024",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "Look!", "blip_caption": "a red kite"},
            {"speaker": "Bo", "dia_id": "D1:2", "text": "It flies."},
        ],
        "session_3_date_time": "1:00 pm on 9 June, 2024",
    },
    "qa": [
        {"question": "What flies?", "answer": "a kite", "evidence": ["D1:1; D:1:02", "D"], "category": 1},
        {"question": "What is blue?", "answer": "the kettle", "evidence": ["D2:01"], "category": 4},
        {"question": "Who sings?", "evidence": ["D9:9"], "category": 5},
        {"question": "Why?", "evidence": [], "category": 3},
    ],
}
PARAGRAPHS: dict[str, Any] = {
    "paragraphs": [
        {"id": 1, "title": "凧", "text": "凧は空をとびます。"},
        {"id": 2, "title": "凧", "text": "糸で引きます。"},
        {"id": 3, "title": "釜", "text": "お湯をわかします。"},
    ],
    "questions": [{"question": "何がとびますか", "paragraph": 1}, {"question": "誰ですか", "paragraph": 9}],
}


def write(folder: Path, data: Any, name: str = "data.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_a_conversation_becomes_dated_sessions_in_order(sets: ModuleType, tmp_path: Path) -> None:
    dataset = sets.read_dataset(write(tmp_path, [CONVERSATION]))
    (tiny,) = dataset.collections
    begun = datetime(2024, 5, 8, 13, 56, tzinfo=UTC)
    assert [group.name for group in tiny.groups] == ["session_1", "session_2"]
    assert [(text.id, text.role, text.author) for text in tiny.texts] == [
        ("D1:1", "user", "Ada"), ("D1:2", "assistant", "Bo"), ("D2:1", "assistant", "Bo"),
    ]  # fmt: skip
    assert [text.at for text in tiny.groups[0].texts] == [begun, begun + timedelta(minutes=1)]
    assert tiny.groups[1].texts[0].at == datetime(2024, 6, 1, 0, 5, tzinfo=UTC)


def test_questions_without_usable_evidence_are_left_out_and_counted(sets: ModuleType, tmp_path: Path) -> None:
    dataset = sets.read_dataset(write(tmp_path, [CONVERSATION]))
    asked = dataset.collections[0].questions
    assert [(question.category, question.evidence) for question in asked] == [
        ("1 multi-hop", {"D1:1", "D1:2"}),
        ("4 single-hop", {"D2:1"}),
    ]
    assert (dataset.evidence_left_out, dataset.questions_left_out) == (2, 2)


def test_captions_are_added_where_asked_for(sets: ModuleType, tmp_path: Path) -> None:
    path = write(tmp_path, [CONVERSATION])
    plain, shown = sets.read_dataset(path), sets.read_dataset(path, captions=True)
    assert plain.collections[0].texts[0].content == "Look!"
    assert shown.collections[0].texts[0].content == "Look! [shares a photo: a red kite]"


@pytest.mark.parametrize(
    ("evidence", "usable", "left_out"),
    [
        (["D1:3"], {"D1:3"}, 0),
        (["D8:6; D9:17"], {"D8:6", "D9:17"}, 0),
        (["D:11:26"], {"D11:26"}, 0),
        (["D30:05"], {"D30:5"}, 0),
        (["D8:6 D9:17", ["D1:3"]], {"D8:6", "D9:17", "D1:3"}, 0),
        ("['D1:3', 'D8:6']", {"D1:3", "D8:6"}, 0),
        (["D8:6", "D8:6"], {"D8:6"}, 0),
        (["D"], set(), 1),
        (["D1:99", "D1:3"], {"D1:3"}, 1),
        ([], set(), 0),
        (None, set(), 0),
    ],
)
def test_evidence_is_split_and_normalised(
    sets: ModuleType, evidence: Any, usable: set[str], left_out: int
) -> None:
    known = {"D1:3", "D8:6", "D9:17", "D11:26", "D30:5"}
    assert sets.usable_evidence(evidence, known) == (usable, left_out)


def test_paragraphs_become_one_collection_with_a_group_per_article(sets: ModuleType, tmp_path: Path) -> None:
    dataset = sets.read_dataset(write(tmp_path, PARAGRAPHS, "kites.json"))
    (kites,) = dataset.collections
    assert (kites.name, [len(group.texts) for group in kites.groups]) == ("kites", [2, 1])
    assert [question.evidence for question in kites.questions] == [{"1"}]
    assert dataset.questions_left_out == 1
    assert dataset.is_japanese


@pytest.mark.parametrize("data", [{}, [], [1], [{"qa": []}], "text", {"paragraphs": []}])
def test_another_shape_is_refused_by_name(sets: ModuleType, tmp_path: Path, data: Any) -> None:
    with pytest.raises(sets.DataProblem, match=r"data\.json is neither"):
        sets.read_dataset(write(tmp_path, data))


def test_a_file_that_breaks_off_is_refused_by_name(sets: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text("[{", encoding="utf-8")
    with pytest.raises(sets.DataProblem, match=r"broken\.json cannot be read"):
        sets.read_dataset(path)
    with pytest.raises(sets.DataProblem, match="KeyError: 'text'"):
        sets.read_dataset(write(tmp_path, {"paragraphs": [{"id": 1}], "questions": []}))


def test_a_file_without_usable_questions_is_refused(sets: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(sets.DataProblem, match="no question"):
        sets.read_dataset(write(tmp_path, {**PARAGRAPHS, "questions": PARAGRAPHS["questions"][1:]}))


def test_at_most_as_many_questions_as_wanted(sets: ModuleType, tmp_path: Path) -> None:
    dataset = sets.read_dataset(
        write(tmp_path, [CONVERSATION, {**CONVERSATION, "sample_id": "other"}]), limit=1
    )
    assert [len(collection.questions) for collection in dataset.collections] == [1, 1]


def test_one_name_twice_is_refused(sets: ModuleType, tmp_path: Path) -> None:
    dataset = sets.read_dataset(write(tmp_path, PARAGRAPHS))
    with pytest.raises(sets.DataProblem, match="again in"):
        sets.check_names([dataset, dataset])


def test_the_questions_about_nothing_are_fifty_in_either_language(sets: ModuleType) -> None:
    questions = sets.read_off_topic(BENCH / "off_topic.txt")
    japanese = [text for text in questions if sets.is_japanese(text)]
    assert (len(questions), len(set(questions)), len(japanese)) == (100, 100, 50)


def asked(scoring: ModuleType, found: str, evidence: str, collection: str = "a", category: str = "") -> Any:
    return scoring.Asked(collection, category, frozenset(evidence), tuple(found))


def test_figures_are_means_over_questions(scoring: ModuleType) -> None:
    both_found = asked(scoring, "xyzab", "ab")
    one_of_two = asked(scoring, "cx", "cd")
    nothing = asked(scoring, "", "e")
    values = scoring.figures([both_found, one_of_two, nothing])
    assert values["questions"] == 3
    assert values["recall@1"] == pytest.approx((0 + 1 / 2 + 0) / 3)
    assert values["recall@5"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert values["hit@10"] == pytest.approx(2 / 3)
    assert values["mrr"] == pytest.approx((1 / 4 + 1 + 0) / 3)


def test_categories_and_spread_divide_the_questions(scoring: ModuleType) -> None:
    questions = [
        asked(scoring, "a", "a", "first", "1 multi-hop"),
        asked(scoring, "x", "a", "second", "2 temporal"),
        asked(scoring, "a", "a", "second"),
    ]
    by_category = scoring.by_category(questions)
    assert {name: values["mrr"] for name, values in by_category.items()} == {
        "1 multi-hop": 1.0,
        "2 temporal": 0.0,
    }
    spread = scoring.spread(questions)
    assert spread["collections"] == {"first": 1.0, "second": 0.5}
    assert (spread["mean"], spread["min"], spread["max"]) == (0.75, 0.5, 1.0)
    assert spread["sd"] == pytest.approx(0.35355, abs=1e-5)
    assert scoring.spread(questions[:1])["sd"] == 0.0


def test_a_floor_counts_what_reaches_it(scoring: ModuleType) -> None:
    measured = scoring.reached([0.0, 0.3, 0.5], [0.3, 0.6])
    assert (measured["max"], measured["reached"]) == (0.5, {"0.3": 2, "0.6": 0})
    assert measured["p95"] == pytest.approx(0.48)


def test_bm25_is_the_textbooks(scoring: ModuleType) -> None:
    index = scoring.BM25([["kite", "red", "kite"], ["kettle"], ["red"]])
    scores = index.scores(["kite", "unknown"])
    length, average, tf = 3, 5 / 3, 2
    norm = 1.2 * (1 - 0.75 + 0.75 * length / average)
    idf = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    assert scores == pytest.approx([idf * tf * 2.2 / (tf + norm), 0, 0])
    assert index.scores(["kite", "kite"])[0] == pytest.approx(2 * scores[0])


def test_neighbours_speak_within_their_group_only(scoring: ModuleType) -> None:
    scores = scoring.with_neighbours(np.array([0.0, 4.0, 0.0, 0.0, 1.0, 6.0]), [3, 2, 1])
    assert scores.tolist() == [2.0, 4.0, 2.0, 0.5, 1.0, 6.0]


def test_cosines_survive_a_vector_of_zeros(scoring: ModuleType) -> None:
    vectors = np.array([[2.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    assert scoring.cosines(vectors, [3.0, 0.0]) == pytest.approx([1.0, 0.0, np.sqrt(0.5)])


def test_ranking_keeps_order_between_equals_and_leaves_out_zeros(scoring: ModuleType) -> None:
    assert scoring.ranked(np.array([1.0, 0.0, 2.0, 1.0]), ["a", "b", "c", "d"]) == ("c", "a", "d")


def test_terms_of_the_baselines(scoring: ModuleType) -> None:
    assert scoring.words("The RED kite, it's 2!") == ["the", "red", "kite", "it", "s", "2"]
    assert scoring.character_grams("Ａ 凧b") == ["a", "凧", "b", "a凧", "凧b"]


def test_word_baselines_find_by_text_author_and_neighbour(scoring: ModuleType) -> None:
    rankers = dict(
        scoring.word_rankers(["1", "2", "3"], ["red kite", "yes", "no"], ["Ada", "Bo", "Bo"], [2, 1])
    )
    assert rankers["BM25"]("kite") == ("1",)
    assert rankers["BM25, neighbours"]("kite") == ("1", "2")
    assert rankers["BM25"]("ada") == ()
    assert rankers["BM25, author's name too"]("ada") == ("1",)


def test_paragraph_baselines_differ_in_their_constants(scoring: ModuleType) -> None:
    rankers = dict(scoring.paragraph_rankers(["1", "2"], ["凧は空", "釜"], split=scoring.character_grams))
    assert len(rankers) == 8
    assert all(ranker("空") == ("1",) for ranker in rankers.values())
    good, bad = [asked(scoring, "a", "a")], [asked(scoring, "xa", "a")]
    assert scoring.best_of({"bad": bad, "good": good}) == "good"
