"""The pure parts of `bench/lives.py`: the invented lives, and how what is active is judged."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return `bench/lives.py`; `bench` is a folder of scripts and no package."""
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module("lives")


def told(life: Any) -> tuple[list[Any], list[Any]]:
    """Return what is said in a life, and when."""
    return [(item.told_at, item.text) for item in life.items], [(ask.at, ask.query) for ask in life.asks]


def test_a_life_is_made_from_its_seed(lives: ModuleType) -> None:
    assert told(lives.Script(1, days=60)) == told(lives.Script(1, days=60))
    assert told(lives.Script(1, days=60)) != told(lives.Script(2, days=60))


def test_a_task_needs_what_is_known_and_true_by_then(lives: ModuleType) -> None:
    needed = [(ask, item) for ask in lives.Script(1).asks for item in ask.needs]
    assert len(needed) > 1000
    assert all(item.told_at < ask.at < item.ends_at for ask, item in needed)
    assert all(item.replaces.ends_at == item.told_at for _, item in needed if item.replaces)


def test_a_need_does_not_say_what_it_wants_to_hear(lives: ModuleType) -> None:
    """Only a question that comes once names a word of its answer: else the search would have nothing to do."""
    for ask in lives.Script(1).asks:
        for item in ask.needs:
            assert item.topic in ask.query and item.aspect in ask.query
            assert item.sort == "remark" or not set(item.answer.split()) & set(ask.query.rstrip(".?").split())


def test_most_is_useless_and_half_of_that_speaks_of_topics(lives: ModuleType) -> None:
    items = lives.Script(1).items
    topics = {item.topic for item in items if item.sort in lives.RHYTHMS}
    remarks = [item for item in items if item.sort == "remark"]
    assert len(items) * 0.5 < sum(item.sort not in lives.RHYTHMS for item in items) < len(items) * 0.9
    assert len(items) * 0.3 < len(remarks) and {item.topic for item in remarks} <= topics


def test_half_as_many_tasks_are_some_of_the_same(lives: ModuleType) -> None:
    (items, asks), (fewer_items, fewer) = told(lives.Script(1)), told(lives.Script(1, tasks=0.5))
    assert fewer_items == items
    assert set(fewer) < set(asks)
    assert 0.4 < len(fewer) / len(asks) < 0.6


def test_needed_is_what_is_known_and_asked_for_within_the_horizon(lives: ModuleType) -> None:
    life = lives.Script(1, days=1)
    first, second, third = (lives.Item("daily", told_at, "", "T", "a", "x y") for told_at in (1.0, 2.0, 12.0))
    life.asks = [
        lives.Ask(at, "", needs) for at, needs in ((5.0, (first,)), (11.0, (first, second)), (41.0, (first, third)))
    ]  # fmt: skip
    assert life.needed(10.0) == {first, second}
    assert life.needed(12.0) == {first, third}
    assert life.needed(42.0) == set()


def standing(lives: ModuleType, **values: Any) -> Any:
    plain = {
        "is_active": True,
        "strength": 1.0,
        "idle_days": 0.0,
        "uses": 0,
        "similarity": 0.0,
        "is_needed": False,
    }
    return lives.Standing(**{**plain, **values})


def test_policies_are_held_to_the_recall_of_what_is_active(lives: ModuleType) -> None:
    figures = lives.judge([[
        standing(lives, strength=2.0, idle_days=1.0, uses=3, similarity=0.1, is_needed=True),
        standing(lives, strength=0.9, idle_days=0.0, similarity=0.3),
        standing(lives, strength=0.5, idle_days=2.0, uses=1, similarity=0.2, is_needed=True),
        standing(lives, strength=0.1, idle_days=9.0, is_active=False, similarity=0.4, is_needed=True),
    ]])  # fmt: skip
    assert figures == pytest.approx({
        "active": 3, "recall": 2 / 3, "precision": 2 / 3, "by strength": 2 / 3, "by recency": 2 / 3, "by uses": 1.0,
        "by similarity": 2 / 3, "by random": 3 / 4,
    })  # fmt: skip


def test_one_rule_for_all_evenings_is_cut_once(lives: ModuleType) -> None:
    quiet = [
        standing(lives, idle_days=20.0, is_needed=True),
        standing(lives, idle_days=25.0, is_active=False),
    ]
    busy = [standing(lives, idle_days=1.0, is_needed=True), standing(lives, idle_days=10.0, is_active=False)]
    assert lives.judge([quiet])["by recency"] == lives.judge([busy])["by recency"] == 1.0
    figures = lives.judge([quiet, busy])
    assert (figures["active"], figures["precision"]) == (1.0, 1.0)
    assert figures["by recency"] == pytest.approx(2 / 3)


def test_nothing_needed_and_nothing_known_are_no_errors(lives: ModuleType) -> None:
    assert lives.judge([])["precision"] == 0.0
    assert lives.judge([[standing(lives)]])["recall"] == 0.0
