"""Summaries in a browser: what changed, restored and taken back, locked by one who may."""

from typing import Any

from summaries.models import Summary
from tests.browser.chromium import expect
from tests.browser.seeing import accessible
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
