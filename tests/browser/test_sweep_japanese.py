"""Every page in Japanese, on a desk: it opens, says that it is Japanese, and keeps nobody out."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import Desk, desk
from tests.browser.seeing import accessible
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
    at.watch.check()
