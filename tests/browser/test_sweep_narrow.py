"""Every page on a phone, in the dark: nobody is kept out, and nothing is wider than the window."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import Desk, desk
from tests.browser.seeing import accessible, scrolls_sideways
from tests.browser.sweeping import Place, opened, places
from tests.serving import Web


@pytest.fixture(scope="module")
def walk(browser: Any, web: Web) -> Iterator[tuple[Desk, Any]]:
    """Give an administrator's phone."""
    with desk(browser, web) as at:
        yield at, at.page_as(width=360, dark=True)


@pytest.mark.parametrize("place", places(), ids=lambda place: place.name)
def test_page_fits_a_phone_in_the_dark(walk: tuple[Desk, Any], place: Place) -> None:
    at, page = walk
    if opened(page, place):
        assert page.evaluate("document.documentElement.classList.contains('dark')")
        assert not scrolls_sideways(page)
        accessible(page)
    at.watch.check()
