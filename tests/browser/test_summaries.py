"""Summaries in a browser: what changed, restored and taken back, locked by one who may."""

from typing import Any

import pytest

from summaries.models import Summary
from tests.browser.chromium import expect
from tests.browser.seeing import accessible, scrolls_sideways
from tests.browser.stage import Stage, page_of
from tests.browser.steps import press


def test_an_edit_is_shown_word_by_word_and_taken_back(page_as: Any, stage: Stage) -> None:
    page = page_as("view_summary", "change_summary")
    summary = stage.summary()
    page.goto(page_of(summary))
    accessible(page)
    page.locator("#id_text").fill("Maya settled the licence.")
    press(page, "Save and continue editing")
    version = page.locator("#version-2")
    version.locator("summary").click()
    expect(version.locator("del").first).to_be_visible()
    press(page, "Undo")
    back = Summary.objects.get(pk=summary.pk)
    assert (back.text, back.locked) == (summary.text, False)


def test_deleting_says_what_goes_along(page: Any, stage: Stage) -> None:
    page.goto(page_of(stage.summary()).replace("change", "delete"))
    expect(page.locator("#goes-along")).to_contain_text("versions of summaries")
    accessible(page)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_pages_fit_a_phone_in_the_dark(page_as: Any, stage: Stage, language: str) -> None:
    page = page_as(language=language, width=360, dark=True)
    for address in ("/admin/summaries/summary/", page_of(stage.summary())):
        page.goto(address)
        assert not scrolls_sideways(page), address
        accessible(page)


def test_who_may_not_see_summaries_is_kept_out(page_as: Any, stage: Stage) -> None:
    assert page_as("view_memory").goto(page_of(stage.summary())).status == 403
