"""Every page in Japanese, on a desk: it opens, says that it is Japanese, and keeps nobody out; and fits a phone."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import Desk, desk
from tests.browser.seeing import accessible, scrolls_sideways
from tests.browser.sweeping import Place, opened, places
from tests.serving import Web


@pytest.fixture(scope="module")
def walk(browser: Any, web: Web) -> Iterator[tuple[Desk, Any]]:
    """Give an administrator's desk."""
    with desk(browser, web) as at:
        yield at, at.page_as(language="ja")


@pytest.mark.parametrize("place", places(), ids=lambda place: place.name)
def test_page_opens_in_japanese(walk: tuple[Desk, Any], place: Place) -> None:
    at, page = walk
    if opened(page, place):
        assert page.evaluate("document.documentElement.lang") == "ja"
        accessible(page)
        desk_size = page.viewport_size
        page.set_viewport_size({"width": 360, "height": desk_size["height"]})
        assert not scrolls_sideways(page), "its Japanese is wider than a phone"
        page.set_viewport_size(desk_size)
    at.watch.check()
