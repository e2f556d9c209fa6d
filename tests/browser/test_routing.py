"""Routing decisions in a browser: put right from the list, taken back, a new project made."""

from typing import Any

import pytest

from summaries.actions.routing import route_message
from summaries.models import Project, RoutingDecision
from tests.browser.chromium import expect
from tests.browser.seeing import accessible
from tests.browser.stage import BY, Stage, page_of
from tests.browser.steps import press

LIST = "/admin/summaries/routingdecision/"


def decided(stage: Stage, message: str) -> RoutingDecision:
    return route_message(actor=stage.maya, message=message, channel="slack", by=BY, now=stage.now)


def said(decision: RoutingDecision) -> str | None:
    decision.refresh_from_db()
    return decision.corrected_project.name if decision.corrected_project else None


def test_one_click_in_the_list_puts_right_and_another_takes_back(page_as: Any, stage: Stage) -> None:
    decision = decided(stage, "Who paints the walls?")
    page = page_as("view_routingdecision", "change_routingdecision")
    page.goto(f"{LIST}?state=unsure")
    row = page.locator("#result_list tr", has_text="Who paints the walls?")
    accessible(page)
    page.locator("#correct-reason").fill("it is about the pages")
    row.get_by_role("button", name="website", exact=True).click()
    page.wait_for_load_state()
    assert said(decision) == "website" and "state=unsure" in page.url
    page.locator("[role=status]").get_by_role("button", name="Undo").click()
    page.wait_for_load_state()
    assert said(decision) is None


def test_a_new_project_is_made_of_its_proposal(page: Any, stage: Stage) -> None:
    decision = decided(stage, "Let us plan a picnic at the lake.")
    page.goto(page_of(decision))
    accessible(page)
    page.locator("#new_name").fill("lake-picnic")
    press(page, "Create it")
    assert said(decision) == "lake-picnic"
    expect(page.locator("#examples")).to_contain_text("lake-picnic")
    press(page, "Undo")
    assert said(decision) is None and not Project.objects.not_deleted().filter(name="lake-picnic").exists()


@pytest.mark.slow
def test_buttons_of_the_list_are_whole_on_a_phone(page_as: Any, stage: Stage) -> None:
    decided(stage, "Is the kettle on?")
    page = page_as(width=360)
    page.goto(f"{LIST}?q=kettle")
    cell = page.locator("td", has=page.locator(".pro-column button").inner).last
    assert cell.evaluate("cell => cell.scrollHeight <= cell.clientHeight + 1")
