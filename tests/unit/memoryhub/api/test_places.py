"""A client's number means one place, and shows nothing of it."""

from itertools import pairwise

from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.api.places import BEGINNING, MAX_SHOWN, place_of, shown_place


@given(st.integers(min_value=0, max_value=MAX_SHOWN - 1))
def test_a_number_means_its_place(place: int) -> None:
    assert BEGINNING < shown_place(place) <= MAX_SHOWN
    assert place_of(shown_place(place)) == place


def test_numbers_of_neighbours_show_neither_order_nor_distance() -> None:
    shown = [shown_place(place) for place in range(1_000)]
    rising = sum(before < after for before, after in pairwise(shown))
    assert 400 < rising < 600
    assert min(abs(before - after) for before, after in pairwise(shown)) > 1_000_000


def test_the_beginning_is_the_first_place() -> None:
    assert place_of(BEGINNING) == 0


def test_numbers_depend_on_the_installations_secret() -> None:
    before = shown_place(7)
    with override_settings(SECRET_KEY="another"):
        assert shown_place(7) != before
