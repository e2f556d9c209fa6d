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
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_a_conversation_becomes_dated_sessions_in_order(sets: ModuleType, tmp_path: Path) -> None:
    (dataset,) = sets.read_datasets(write(tmp_path, [CONVERSATION]))
    (tiny,) = dataset.collections
    begun = datetime(2024, 5, 8, 13, 56, tzinfo=UTC)
    assert [group.name for group in tiny.groups] == ["session_1", "session_2"]
    assert [(text.id, text.role, text.author) for text in tiny.texts] == [
        ("D1:1", "user", "Ada"),
        ("D1:2", "assistant", "Bo"),
        ("D2:1", "assistant", "Bo"),
    ]
    assert [text.at for text in tiny.groups[0].texts] == [begun, begun + timedelta(minutes=1)]
    assert tiny.groups[1].texts[0].at == datetime(2024, 6, 1, 0, 5, tzinfo=UTC)


def test_questions_without_usable_evidence_are_left_out_and_counted(sets: ModuleType, tmp_path: Path) -> None:
    (dataset,) = sets.read_datasets(write(tmp_path, [CONVERSATION]))
    asked = dataset.collections[0].questions
    assert [question.evidence for question in asked] == [{"D1:1", "D1:2"}, {"D2:1"}]
    assert (dataset.evidence_left_out, dataset.questions_left_out) == (2, 2)


@pytest.mark.parametrize(
    ("evidence", "usable", "left_out"),
    [
        (["D1:3"], {"D1:3"}, 0),
        (["D8:6; D9:17"], {"D8:6", "D9:17"}, 0),
        (["D:11:26"], {"D11:26"}, 0),
        (["D30:05"], {"D30:5"}, 0),
        (["D30:5."], {"D30:5"}, 0),
        (["D8:6 D9:17", ["D1:3"]], {"D8:6", "D9:17", "D1:3"}, 0),
        ("['D1:3', 'D8:6']", {"D1:3", "D8:6"}, 0),
        (["D8:6", "D8:6"], {"D8:6"}, 0),
        (["D"], set(), 1),
        (["D1:99", "D1:3"], {"D1:3"}, 1),
        ([], set(), 0),
        (None, set(), 0),
    ],
)
def test_evidence_is_split_and_normalised(sets: ModuleType, evidence: Any, usable: set[str], left_out: int) -> None:
    known = {"D1:3", "D8:6", "D9:17", "D11:26", "D30:5"}
    assert sets.usable_evidence(evidence, known) == (usable, left_out)


def test_paragraphs_become_one_collection_with_a_group_per_article(sets: ModuleType, tmp_path: Path) -> None:
    (dataset,) = sets.read_datasets(write(tmp_path, PARAGRAPHS, "kites.json"))
    (kites,) = dataset.collections
    assert (kites.name, [len(group.texts) for group in kites.groups]) == ("kites", [2, 1])
    assert [question.evidence for question in kites.questions] == [{"1"}]
    assert dataset.questions_left_out == 1
    assert dataset.is_japanese


CHAT: list[dict[str, Any]] = [
    {
        "batch_number": 1,
        "turns": [
            [
                {"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "A red kite ->-> 1,1"},
                {"role": "assistant", "id": 1, "content": "It flies."},
            ],
            [{"role": "user", "id": 2, "content": "->-> 1,2"}],
        ],
    },
    {"batch_number": 2, "turns": [[{"role": "user", "id": 3, "content": "A blue kettle"}]]},
]
PROBES: dict[str, Any] = {
    "abstention": [{"question": "Who sings?"}],
    "knowledge_update": [
        {"question": "What is red?", "source_chat_ids": {"original_info": [0], "updated_info": [[3, 9]]}}
    ],
    "summarization": [{"question": "All?", "source_chat_ids": []}],
}


def write_chat(folder: Path) -> Path:
    write(folder, CHAT, "chat.json")
    write(folder / "probing_questions", PROBES, "probing_questions.json")
    return folder


def test_a_chat_becomes_batches_of_the_day_that_was_named_last(sets: ModuleType, tmp_path: Path) -> None:
    (dataset,) = sets.read_datasets(write_chat(tmp_path / "7"))
    (chat,) = dataset.collections
    day = datetime(2024, 3, 15, tzinfo=UTC)
    assert (dataset.kind, chat.name) == ("conversations", "beam-7")
    assert [group.name for group in chat.groups] == ["batch_1", "batch_2"]
    assert [(text.id, text.role, text.author, text.content, text.at) for text in chat.texts] == [
        ("0", "user", "", "A red kite", day),
        ("1", "assistant", "", "It flies.", day + timedelta(minutes=1)),
        ("3", "user", "", "A blue kettle", day),
    ]


def test_questions_of_a_chat_name_nested_sources_and_abstentions_are_apart(sets: ModuleType, tmp_path: Path) -> None:
    (dataset,) = sets.read_datasets(write_chat(tmp_path))
    (chat,) = dataset.collections
    assert [each.evidence for each in chat.questions] == [{"0", "3"}]
    assert [(each.text, each.evidence) for each in chat.unanswerable] == [("Who sings?", set())]
    assert (dataset.evidence_left_out, dataset.questions_left_out) == (1, 1)


def test_chats_below_a_folder_are_in_the_order_of_their_numbers(sets: ModuleType, tmp_path: Path) -> None:
    for name in ("10", "9", "1"):
        write_chat(tmp_path / name)
    (dataset,) = sets.read_datasets(tmp_path)
    assert [each.name for each in dataset.collections] == ["beam-1", "beam-9", "beam-10"]


REAL: dict[str, Any] = {
    "name": {"speaker_1": "Ada", "speaker_2": "Bo"},
    "session_2": [
        {"speaker": "Ada", "dia_id": "D2:4", "date_time": "30.12.2023, 09:05:07", "clean_text": "Tea? "},
        {"speaker": "Ada", "dia_id": "D2:5", "date_time": "30.12.2023, 09:05:08", "clean_text": " "},
    ],
    "session_1": [{"speaker": "Bo", "dia_id": "D1:1", "date_time": "29.12.2023, 22:42:04", "clean_text": "A red kite"}],
    "events_session_1": {"agent_a": []},
    "qa": [
        {"question": "What is red?", "evidence": ["D1:1.", "D2:5"], "category": 1},
        {"question": "Who sings?", "evidence": ["D2:1-D2:3"], "category": 2},
    ],
}


def test_files_of_a_folder_become_talks_with_the_times_of_their_messages(sets: ModuleType, tmp_path: Path) -> None:
    for name in ("Chat_10_A.json", "Chat_2_B.json"):
        write(tmp_path, REAL, name)
    (dataset,) = sets.read_datasets(tmp_path)
    assert (dataset.kind, dataset.name) == ("conversations", tmp_path.name)
    assert [each.name for each in dataset.collections] == ["Chat_2_B", "Chat_10_A"]
    assert [(text.id, text.role, text.author, text.content, text.at) for text in dataset.collections[0].texts] == [
        ("D1:1", "assistant", "Bo", "A red kite", datetime(2023, 12, 29, 22, 42, 4, tzinfo=UTC)),
        ("D2:4", "user", "Ada", "Tea?", datetime(2023, 12, 30, 9, 5, 7, tzinfo=UTC)),
    ]
    assert [question.evidence for question in dataset.collections[0].questions] == [{"D1:1"}]
    assert (dataset.evidence_left_out, dataset.questions_left_out) == (4, 2)


SCENES: dict[str, Any] = {
    "data": [
        {
            "title": f"s01_e02_c{number}",
            "paragraphs": [
                {
                    "utterances:": [
                        {"uid": 0, "speakers": ["#NOTE#"], "utterance": "Ann enters ."},
                        {"uid": 1, "speakers": ["Ann Lee"], "utterance": "I do n't want ta wait , I 'm gon na row !"},
                        {"uid": 2, "speakers": ["#ALL#"], "utterance": "Wait ."},
                    ],
                    "qas": [
                        {"question": question, "answers": [{"utterance_id": place, "is_speaker": is_speaker}]}
                        for question, place, is_speaker in asked
                    ],
                }
            ],
        }
        for number, asked in (
            ("11", [("What does n't Ann want ?", 1, False), ("Where are they ?", 2, False)]),
            ("02", [("Who enters ?", 0, False), ("Who rows ?", 1, True), ("Where are they ?", 2, False)]),
        )
    ]
}


def test_scenes_of_an_episode_become_sessions_of_what_was_said(sets: ModuleType, tmp_path: Path) -> None:
    (dataset,) = sets.read_datasets(write(tmp_path, SCENES))

    (episode,) = dataset.collections
    assert (dataset.kind, episode.name) == ("conversations", "s01_e02")
    assert [(group.name, [text.id for text in group.texts]) for group in episode.groups] == [
        ("s01_e02_c02", ["D2:1", "D2:2"]),
        ("s01_e02_c11", ["D11:1", "D11:2"]),
    ]
    assert [(text.author, text.content) for text in episode.groups[0].texts] == [
        ("Ann Lee", "I don't want ta wait, I'm gonna row!"),
        ("", "Wait."),
    ]
    assert [text.at for text in episode.texts] == sorted(text.at for text in episode.texts)


def test_what_a_scene_shows_who_speaks_and_what_several_are_asked_is_no_question(
    sets: ModuleType, tmp_path: Path
) -> None:
    (dataset,) = sets.read_datasets(write(tmp_path, SCENES))

    asked = [(question.text, question.evidence) for question in dataset.collections[0].questions]
    assert asked == [("What doesn't Ann want?", {"D11:1"})]
    assert (dataset.evidence_left_out, dataset.questions_left_out) == (1, 4)


def test_a_folder_without_chats_is_refused(sets: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(sets.DataProblem, match="holds no BEAM chat"):
        sets.read_datasets(tmp_path)


MESSAGES: dict[str, Any] = {
    "memories": [{"id": "m1", "text": "Goma is a cat."}],
    "distractors": [{"id": "d1", "text": "Goma's bowl is red."}],
    "cases": [
        {
            "id": "c1", "split": "dev", "type": "follow_up", "note": "the cat", "right": ["m1"],
            "turns": [{"role": "user", "text": "About Goma."}], "message": "What is she?",
        },
        {
            "id": "c2", "split": "test", "type": "single", "note": "paraphrase only", "right": ["m1"],
            "turns": [], "message": "My pet?",
        },
        {"id": "c3", "split": "dev", "type": "none", "note": "", "right": [], "turns": [], "message": "Hi"},
    ],
}  # fmt: skip


def test_chat_messages_are_asked_with_and_without_distractors(sets: ModuleType, tmp_path: Path) -> None:
    alone, among = sets.read_datasets(write(tmp_path, MESSAGES, "chat.json"))
    assert [alone.name, among.name] == ["chat-1", "chat-2"]
    assert [text.id for text in among.collections[0].texts] == ["m1", "d1"]
    follow_up, paraphrase = alone.collections[0].questions
    assert (follow_up.category, follow_up.split) == ("follow_up", "dev")
    assert [(turn.role, turn.content) for turn in follow_up.turns] == [("user", "About Goma.")]
    assert paraphrase.category == "paraphrase only"
    assert [each.category for each in alone.collections[0].unanswerable] == ["none"]


def test_our_own_chat_messages_name_known_memories_in_two_disjoint_halves(sets: ModuleType) -> None:
    alone, among = sets.read_datasets(BENCH / "chat_messages.json")
    assert [len(each.collections[0].texts) for each in (alone, among)] == [60, 1112]
    (collection,) = alone.collections
    assert (len(collection.questions), len(collection.unanswerable)) == (170, 40)
    halves = [
        {name for each in collection.questions if each.split == split for name in each.evidence}
        for split in ("dev", "test")
    ]
    assert halves[0].isdisjoint(halves[1])
    assert halves[0] | halves[1] == {text.id for text in collection.texts}


@pytest.mark.parametrize("data", [{}, [], [1], [{"qa": []}], "text", {"paragraphs": []}])
def test_another_shape_is_refused_by_name(sets: ModuleType, tmp_path: Path, data: Any) -> None:
    with pytest.raises(sets.DataProblem, match=r"data\.json is neither"):
        sets.read_datasets(write(tmp_path, data))


def test_a_file_that_breaks_off_is_refused_by_name(sets: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text("[{", encoding="utf-8")
    with pytest.raises(sets.DataProblem, match=r"broken\.json cannot be read"):
        sets.read_datasets(path)
    with pytest.raises(sets.DataProblem, match="KeyError: 'text'"):
        sets.read_datasets(write(tmp_path, {"paragraphs": [{"id": 1}], "questions": []}))


def test_a_file_without_usable_questions_is_refused(sets: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(sets.DataProblem, match="no question"):
        sets.read_datasets(write(tmp_path, {**PARAGRAPHS, "questions": PARAGRAPHS["questions"][1:]}))


def test_at_most_as_many_questions_as_wanted(sets: ModuleType, tmp_path: Path) -> None:
    (dataset,) = sets.read_datasets(write(tmp_path, [CONVERSATION, {**CONVERSATION, "sample_id": "other"}]), limit=1)
    assert [len(collection.questions) for collection in dataset.collections] == [1, 1]


def test_one_name_twice_is_refused(sets: ModuleType, tmp_path: Path) -> None:
    (dataset,) = sets.read_datasets(write(tmp_path, PARAGRAPHS))
    with pytest.raises(sets.DataProblem, match="again in"):
        sets.check_names([dataset, dataset])


def test_the_questions_about_nothing_are_fifty_in_either_language(sets: ModuleType) -> None:
    questions = sets.read_off_topic(BENCH / "off_topic.txt")
    japanese = [text for text in questions if sets.is_japanese(text)]
    assert (len(questions), len(set(questions)), len(japanese)) == (100, 100, 50)


def asked(scoring: ModuleType, found: str, evidence: str, collection: str = "a") -> Any:
    return scoring.Asked(collection, frozenset(evidence), tuple(found))


def test_figures_are_means_over_questions(scoring: ModuleType) -> None:
    both_found = asked(scoring, "xyzab", "ab")
    one_of_two = asked(scoring, "cx", "cd")
    nothing = asked(scoring, "", "e")
    values = scoring.figures([both_found, one_of_two, nothing])
    assert values["questions"] == 3
    assert values["recall@1"] == pytest.approx((0 + 1 / 2 + 0) / 3)
    assert values["recall@5"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert values["mrr"] == pytest.approx((1 / 4 + 1 + 0) / 3)


def test_a_difference_resamples_whole_conversations(scoring: ModuleType) -> None:
    # In "first" ours wins all of 4 questions, in "second" none of 4: a resample holds 0, 1 or 2 times "first".
    names = ["first"] * 4 + ["second"] * 4
    ours = [asked(scoring, "a" if name == "first" else "", "a", name) for name in names]
    theirs = [asked(scoring, "", "a", name) for name in names]
    assert scoring.paired_difference(ours, theirs) == (0.5, 0.0, 1.0)
    assert scoring.paired_difference(ours, ours) == (0.0, 0.0, 0.0)


def test_a_difference_within_one_collection_resamples_questions(scoring: ModuleType) -> None:
    ours = [asked(scoring, "a" if place % 2 else "", "a") for place in range(100)]
    theirs = [asked(scoring, "", "a") for _ in range(100)]
    mean, low, high = scoring.paired_difference(ours, theirs)
    assert mean == 0.5
    # The standard error of a share of 0.5 over 100 questions is 0.05.
    assert (low, high) == (pytest.approx(0.4, abs=0.02), pytest.approx(0.6, abs=0.02))
    assert scoring.paired_difference(ours, theirs) == (mean, low, high)


def test_auc_counts_equals_half(scoring: ModuleType) -> None:
    assert scoring.auc([0.9, 0.5], [0.5, 0.1]) == pytest.approx(7 / 8)


def test_reliability_compares_what_was_shown_with_what_was_right(scoring: ModuleType) -> None:
    shown = [(0.05, False), (0.85, True), (0.85, True), (0.85, False), (1.0, True)]

    found = scoring.reliability(shown)

    assert [tuple(each.values()) for each in found["bins"]] == [
        (1, pytest.approx(0.05), 0),
        (3, pytest.approx(0.85), pytest.approx(2 / 3)),
        (1, 1, 1),
    ]
    assert found["error"] == pytest.approx((0.05 + 3 * (0.85 - 2 / 3) + 0) / 5)
    assert scoring.reliability([])["error"] == 0


def test_texts_are_taken_in_order_where_they_still_fit(scoring: ModuleType) -> None:
    assert scoring.fitting({"a": 3, "b": 9, "c": 2, "d": 1}, ["a", "b", "c", "d"], 5) == ("a", "c")


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
    assert scoring.terms("The RED kite, it's 2!") == ["the", "red", "kite", "it", "s", "2"]
    assert scoring.terms("Ａ kite 凧が") == ["a", "kite", "凧", "が", "凧が"]


def test_conversations_baselines_find_by_text_author_and_neighbour(scoring: ModuleType) -> None:
    scorers = scoring.conversation_scorers(["red kite", "yes", "no"], ["Ada", "Bo", "Bo"], [2, 1])

    def found(method: str, query: str) -> tuple[str, ...]:
        answer: tuple[str, ...] = scoring.ranked(scorers[method](query), ["1", "2", "3"])
        return answer

    assert found("BM25", "kite") == ("1",)
    assert found("BM25 + neighbours", "kite") == ("1", "2")
    assert found("BM25", "ada") == ()
    assert found("BM25 + neighbours", "ada") == ("1", "2")


def test_paragraph_baselines_differ_in_their_constants(scoring: ModuleType) -> None:
    scorers = scoring.paragraph_scorers(["凧は空", "釜"])
    assert len(scorers) == 8
    assert all(scoring.ranked(scorer("空"), ["1", "2"]) == ("1",) for scorer in scorers.values())
