"""The pure parts of `bench/strength.py`: the invented lives, and how what is active is judged."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def worlds(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return `bench/strength_worlds.py`; `bench` is a folder of scripts and no package."""
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module("strength_worlds")


def standing(worlds: ModuleType, key: int, **values: Any) -> Any:
    plain = {"is_active": True, "strength": 1.0, "idle_days": 0.0, "uses": 0, "similarity": 0.0,
             "nearest": 0.0, "needs": 0}  # fmt: skip
    return worlds.Standing(key=key, **{**plain, **values})


def test_a_life_is_made_from_its_seed(worlds: ModuleType) -> None:
    shape = worlds.Shape(days=60)
    assert worlds.live(shape, 1) == worlds.live(shape, 1)
    assert worlds.live(shape, 1) != worlds.live(shape, 2)


def test_a_task_needs_what_is_known_and_true_by_then(worlds: ModuleType) -> None:
    life = worlds.live(worlds.Shape(), 1)
    needed = [(ask, life.items[key]) for ask in life.asks for key in ask.needs]
    assert len(needed) > 1000
    assert all(item.told_at < ask.at < item.ends_at for ask, item in needed)
    assert all(life.items[item.replaces].ends_at == item.told_at for _, item in needed if item.replaces)
    assert [item.key for item in life.items] == list(range(len(life.items)))


def test_a_need_does_not_say_what_it_wants_to_hear(worlds: ModuleType) -> None:
    """Only a question that comes once names a word of its answer: else the search would have nothing to do."""
    life = worlds.live(worlds.Shape(), 1)
    for ask in life.asks:
        for key in ask.needs:
            item = life.items[key]
            assert item.topic in ask.query and item.aspect in ask.query
            assert ask.sort == "once" or not set(item.answer) & set(ask.query.rstrip(".?").split())


def test_most_is_useless_and_half_of_that_speaks_of_topics(worlds: ModuleType) -> None:
    items = worlds.live(worlds.Shape(), 1).items
    facts = {item.topic for item in items if item.sort in worlds.RHYTHMS}
    remarks = [item for item in items if item.sort == "remark"]
    assert len(items) * 0.5 < sum(item.sort not in worlds.RHYTHMS for item in items) < len(items) * 0.9
    assert len(items) * 0.3 < len(remarks) and {item.topic for item in remarks} <= facts


def test_half_as_many_tasks_are_some_of_the_same(worlds: ModuleType) -> None:
    whole, half = worlds.live(worlds.Shape(), 1), worlds.live(worlds.Shape(tasks=0.5), 1)
    assert half.items == whole.items
    assert set(half.asks) < set(whole.asks)
    assert 0.4 < len(half.asks) / len(whole.asks) < 0.6


def test_needed_is_what_is_known_and_asked_for_within_the_horizon(worlds: ModuleType) -> None:
    items = [
        worlds.Item(key, "daily", told_at, "", "T", "a", ("x", "y"))
        for key, told_at in enumerate((1.0, 2.0, 12.0))
    ]
    asks = [
        worlds.Ask(at, "", needs, "daily", 0) for at, needs in ((5.0, (0,)), (11.0, (0, 1)), (41.0, (0, 2)))
    ]
    life = worlds.Life(items, asks)
    assert life.needed(10.0) == {0: 1, 1: 1}
    assert life.needed(12.0) == {0: 1, 2: 1}
    assert life.needed(4.0, horizon=1.0) == {0: 1}


def test_policies_are_held_to_the_recall_of_what_is_active(worlds: ModuleType) -> None:
    population = [
        standing(worlds, 1, strength=2.0, idle_days=1.0, uses=3, similarity=0.1, needs=5),
        standing(worlds, 2, strength=0.9, idle_days=0.0, similarity=0.3),
        standing(worlds, 3, strength=0.5, idle_days=2.0, uses=1, similarity=0.2, needs=1),
        standing(worlds, 4, strength=0.1, idle_days=9.0, is_active=False, similarity=0.4, needs=2),
    ]
    figures = worlds.judge(population)
    assert (figures["known"], figures["active"], figures["needed"]) == (4, 3, 3)
    assert (figures["precision"], figures["recall"]) == pytest.approx((2 / 3, 2 / 3))
    assert figures["precision, recency"] == pytest.approx(2 / 3)
    assert figures["precision, access count"] == 1.0
    assert figures["precision, similarity"] == pytest.approx(2 / 3)
    assert figures["at 1.0, recency"] == pytest.approx(3 / 4)
    assert figures["precision, random"] == pytest.approx(3 / 4)


def test_one_rule_for_all_evenings_is_cut_once(worlds: ModuleType) -> None:
    quiet = [
        standing(worlds, 1, idle_days=20.0, needs=1),
        standing(worlds, 2, idle_days=25.0, is_active=False),
    ]
    busy = [standing(worlds, 1, idle_days=1.0, needs=1), standing(worlds, 2, idle_days=10.0, is_active=False)]
    assert worlds.judge(quiet)["precision, recency"] == worlds.judge(busy)["precision, recency"] == 1.0
    figures = worlds.pooled([quiet, busy])
    assert (figures["known"], figures["active"], figures["precision"]) == (2.0, 1.0, 1.0)
    assert figures["precision, recency"] == pytest.approx(2 / 3)


def test_nothing_needed_and_nothing_known_are_no_errors(worlds: ModuleType) -> None:
    assert worlds.judge([])["precision"] == 0.0
    assert worlds.judge([standing(worlds, 1)])["recall"] == 0.0
