"""A phone: what is decided with is in reach wherever one has scrolled, and nothing is as small as on a desk."""

from typing import Any

import pytest

from conversations.actions.sessions import end_session
from conversations.models import Session
from memoryhub.auth.principals import command
from strength.models import Memory
from summaries.models import Document
from tests.browser.chromium import expect
from tests.browser.seeing import fits_fingers
from tests.browser.stage import Stage, page_of

pytestmark = pytest.mark.slow

PHONE = {"width": 360}
AT = """selector => { const at = document.querySelector(selector).getBoundingClientRect();
    return {top: at.top, bottom: at.bottom, height: at.height, width: at.width}; }"""


@pytest.fixture
def phone(page_as: Any) -> Any:
    return page_as(**PHONE)


def is_in_reach(page: Any, selector: str) -> bool:
    """Return whether something is a finger high and in the window, wherever the page is scrolled to."""
    at = page.evaluate(AT, selector)
    return at["height"] >= 44 and at["top"] >= 0 and at["bottom"] <= page.viewport_size["height"]


def test_the_head_stays_and_its_menu_is_met_by_a_finger(phone: Any, stage: Stage) -> None:
    phone.goto("/admin/strength/memory/")
    phone.evaluate("scrollTo(0, 2000)")
    assert is_in_reach(phone, "#header-inner button[aria-label=Menu]:not(.hidden)")
    phone.get_by_role("button", name="Menu").click()
    expect(phone.locator("#nav-sidebar")).to_be_visible()


def test_decisions_are_in_reach_and_a_reason_comes_before_them(phone: Any, stage: Stage) -> None:
    stage.remember("Maya owns a canoe. " * 60, confidence=0.1)
    phone.goto("/admin/review/?sort=memory")
    for button in ("#approve-form button", "#reject-form button"):
        assert is_in_reach(phone, button), button
    reason, reject = (phone.evaluate(AT, f"#reject-form {tag}") for tag in ("input[name=reason]", "button"))
    assert reason["bottom"] <= reject["top"]
    assert not phone.locator("kbd:visible, [data-opens]:visible").count()
    fits_fingers(phone)


def test_what_is_opened_is_clear_of_the_bar_of_decisions(phone: Any, stage: Stage) -> None:
    memory = stage.remember("Maya owns a raft. " * 30, confidence=0.1)
    phone.goto(f"/admin/review/?at=memory:{memory.pk}")
    phone.locator("#edit > summary").evaluate("summary => { summary.scrollIntoView({block: 'end'}); summary.click(); }")
    edge = "(selector) => document.querySelector(selector).getBoundingClientRect()"
    phone.wait_for_function(f"({edge})('#edit-content').bottom <= ({edge})('.review-actions').top")
    assert phone.evaluate(AT, "#edit")["top"] >= 0


def test_a_document_is_saved_from_anywhere_and_its_versions_are_folded(phone: Any, stage: Stage) -> None:
    phone.goto(page_of(Document.objects.get(project__name="tidepool", name="MEMORY.md")))
    assert is_in_reach(phone, "[name=_save]")
    expect(phone.locator("#compare-form")).to_be_hidden()
    phone.locator("#versions > summary").click()
    expect(phone.locator("#compare-form")).to_be_visible()


def test_the_filters_are_closed_by_a_button(phone: Any, stage: Stage) -> None:
    phone.goto("/admin/conversations/session/")
    phone.get_by_role("button", name="Filters").click()
    phone.locator("#changelist-filter").get_by_role("button", name="Close").click()
    expect(phone.locator("#changelist-filter")).to_be_hidden()


def test_lists_say_the_day(phone: Any, stage: Stage) -> None:
    phone.goto("/admin/conversations/session/")
    expect(phone.locator(".hub-date").first).to_be_visible()


def test_deleting_names_the_text(phone: Any, stage: Stage) -> None:
    memory = stage.remember("Maya owns a canoe.")
    phone.goto(page_of(memory, "delete"))
    expect(phone.locator("#text")).to_have_text("Maya owns a canoe.")


def test_the_choice_of_a_merge_quotes_the_texts(phone: Any, stage: Stage) -> None:
    proposal = stage.proposal("Maya sails on Sundays.", "Maya actually sails on Sundays.")
    phone.goto(page_of(proposal))
    for text in Memory.objects.filter(pk__in=[proposal.kept_id, proposal.absorbed_id]):
        assert phone.get_by_label(text.content).count()
    expect(phone.locator(".hub-side-head:visible")).to_have_count(2)


def test_a_session_says_who_ended_it(phone: Any, stage: Stage) -> None:
    session = Session.objects.filter(actor=stage.maya, ended_at=None).latest("id")
    phone.goto(page_of(session))
    expect(phone.get_by_role("button", name="End the session")).to_be_visible()
    end_session(session=session, by=command("tidy"), now=stage.now)
    phone.reload()
    assert "(by tidy (command))" in phone.locator(".hub-facts").first.inner_text()
    by_itself = Session.objects.exclude(ended_at=None).exclude(pk=session.pk).earliest("id")
    phone.goto(page_of(by_itself))
    assert "automatically, idle since" in phone.locator(".hub-facts").first.inner_text()


def test_the_chosen_filter_of_jobs_is_marked(phone: Any, stage: Stage) -> None:
    phone.goto("/admin/memoryhub/job/")
    expect(phone.locator(".hub-pill[aria-current]")).to_have_text("All")
    phone.locator(".hub-pill").nth(1).click()
    expect(phone.locator(".hub-pill[aria-current]")).to_contain_text("Failed or dead")
