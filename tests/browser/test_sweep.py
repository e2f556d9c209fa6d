"""Every page in Japanese, in the dark, on a phone: it opens, nobody is kept out, nothing is wider than the window.

Rows hold texts and ids of every length; lists show them at three widths.

In English, by day and on a desk, one at a time: tests/slow/browser/test_sweeps.py.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import Desk, desk
from tests.browser.long_values import plant_long_values
from tests.browser.sweeping import Place, Sweep, places, sweep
from tests.serving import Web

SWEEP = Sweep(language="ja", width=360, dark=True)


@pytest.fixture(scope="module")
def walk(browser: Any, web: Web) -> Iterator[tuple[Desk, Any]]:
    plant_long_values()
    with desk(browser, web) as at:
        yield at, at.page_as(**vars(SWEEP))


@pytest.mark.parametrize("place", places(), ids=lambda place: place.name)
def test_page_is_japanese_dark_narrow_and_accessible(walk: tuple[Desk, Any], place: Place) -> None:
    at, page = walk
    sweep(page, place, SWEEP)
    at.watch.check()
