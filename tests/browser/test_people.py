"""Coming and going, the first page, and doors that stay closed."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from strength.models import Memory
from tests.browser.chromium import expect
from tests.browser.conftest import PASSWORD, person
from tests.browser.seeing import accessible, scrolls_sideways
from tests.browser.stage import Stage, page_of
from tests.browser.steps import press


@pytest.mark.slow
@pytest.mark.parametrize(("language", "width", "dark"), [("en", 1280, False), ("ja", 360, True)])
def test_login_page_keeps_nobody_out(page_as: Callable[..., Any], language: str, width: int, dark: bool) -> None:
    page = page_as(None, language=language, width=width, dark=dark)
    page.goto("/admin/")
    assert page.evaluate("document.documentElement.lang") == language
    assert not scrolls_sideways(page)
    accessible(page)


def test_a_person_logs_in_and_out(page_as: Callable[..., Any]) -> None:
    person()
    page = page_as(None)
    page.goto("/admin/strength/memory/")
    for password, ends_at in (("wrong", "/admin/login/"), (PASSWORD, "/admin/strength/memory/")):
        page.get_by_label("Username").fill("boss")
        page.get_by_label("Password").fill(password)
        press(page, "Log in")
        expect(page).to_have_url(re.compile(re.escape(ends_at)))
    page.get_by_text("boss", exact=True).last.click()
    page.get_by_role("button", name="Log out").click()
    page.goto("/admin/")
    expect(page).to_have_url(re.compile("/admin/login/"))


@pytest.mark.slow
def test_times_are_shown_by_the_clock_of_the_browser(page_as: Callable[..., Any], stage: Stage) -> None:
    page = page_as(zone="Asia/Tokyo")
    page.goto("/admin/")
    page.goto(page_of(Memory.objects.all()[0]))
    assert "JST" in page.locator("#content").inner_text()
    assert "UTC" not in page.locator("#content").inner_text()


@pytest.mark.slow
def test_the_first_page_leads_to_the_lists(page: Any) -> None:
    page.goto("/admin/")
    accessible(page)
    page.locator("#nav-sidebar-apps").get_by_role("link", name="Memories").click()
    expect(page).to_have_url(re.compile("/admin/strength/memory/"))


@pytest.mark.slow
def test_who_may_not_see_a_screen_has_no_way_to_it(page_as: Callable[..., Any], stage: Stage) -> None:
    page = page_as("view_agent")
    page.goto("/admin/")
    sidebar = page.locator("#nav-sidebar-apps")
    expect(sidebar.get_by_text("Agents", exact=True)).to_be_visible()
    for screen in ("Memories", "API keys", "Jobs"):
        expect(sidebar.get_by_text(screen, exact=True)).to_have_count(0)
    assert page.goto("/admin/memoryhub/agent/").status == 200
    for address in ("/admin/strength/memory/", page_of(Memory.objects.all()[0]), "/admin/memoryhub/apikey/add/"):
        assert page.goto(address).status == 403
