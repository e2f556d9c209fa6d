"""Every page in Japanese on a desk by day, and in English on a phone in the dark."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import Desk, browser, desk, page_as, stage, transactional_db, web
from tests.browser.sweeping import Place, Sweep, places, sweep
from tests.serving import Web

__all__ = ["browser", "page_as", "stage", "transactional_db", "web"]

SWEEPS = [Sweep(language="ja", width=1280, dark=False), Sweep(language="en", width=360, dark=True)]


@pytest.fixture(scope="module", params=SWEEPS, ids=["japanese-desk", "english-phone"])
def walk(request: pytest.FixtureRequest, browser: Any, web: Web) -> Iterator[tuple[Desk, Any, Sweep]]:
    with desk(browser, web) as at:
        yield at, at.page_as(**vars(request.param)), request.param


@pytest.mark.parametrize("place", places(), ids=lambda place: place.name)
def test_page_fits_and_keeps_nobody_out(walk: tuple[Desk, Any, Sweep], place: Place) -> None:
    at, page, as_seen = walk
    sweep(page, place, as_seen)
    at.watch.check()
