"""What a change would do, seen before it is made: on a memory's page and in the review, with what is typed kept."""

from collections.abc import Callable
from typing import Any

import pytest

from strength.models import Memory
from tests.browser.chromium import expect
from tests.browser.seeing import accessible
from tests.browser.stage import Stage, page_of

BUTTON = "What this edit changes"


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (390, True)])
def test_an_edit_is_tried_and_the_typed_text_stays(
    page_as: Callable[..., Any], stage: Stage, width: int, dark: bool
) -> None:
    memory = stage.remember(f"Maya keeps a heron at width {width}.")
    stage.ask("Which bird does Maya keep?")
    page = page_as(width=width, dark=dark)
    page.goto(page_of(memory))
    page.locator("#edit > summary").click()
    field = page.locator("#id_content")
    typed = f"Maya keeps a pelican at width {width}."
    field.fill(typed)
    page.locator("#edit").get_by_role("button", name=BUTTON).click()
    effect = page.locator("#what-if .what-if")
    expect(effect).to_contain_text("of the latest")
    expect(effect).to_contain_text("Nothing was changed.")
    effect.locator("details summary").first.click()
    expect(effect.locator(".hub-sides").first).to_be_visible()
    expect(effect).to_contain_text(typed)
    expect(field).to_have_value(typed)
    accessible(page)
    memory.refresh_from_db()
    assert "heron" in memory.content
    page.locator("#what-if-choice > summary").click()
    page.get_by_role("button", name="if: Archive").click()
    expect(page.locator("#what-if h2")).to_contain_text("Archive")
    page.locator("#edit").get_by_role("button", name="Save").click()
    expect(page.locator("#memory-text")).to_have_text(typed)


def test_a_decision_of_the_review_is_tried_and_the_typed_text_stays(page: Any, stage: Stage) -> None:
    memory = stage.remember("Maya perhaps keeps an owl.", confidence=0.1)
    stage.ask("Which owl does Maya keep?")
    page.goto(f"/admin/review/?at=memory:{memory.pk}")
    page.locator("#edit > summary").click()
    page.locator("#edit-content").fill("Maya keeps a barn owl.")
    page.locator("#reject-form input[name=reason]").fill("because")
    page.get_by_role("button", name="What approving changes").click()
    expect(page.locator("#what-if")).to_contain_text("enters")
    expect(page.locator("#what-if")).to_contain_text("Maya keeps a barn owl.")
    page.get_by_role("button", name="What rejecting changes").click()
    expect(page.locator("#what-if h2")).to_contain_text("Reject")
    expect(page.locator("#edit-content")).to_have_value("Maya keeps a barn owl.")
    expect(page.locator("#reject-form input[name=reason]")).to_have_value("because")
    accessible(page)
    assert Memory.objects.get(pk=memory.pk).status == "pending"
