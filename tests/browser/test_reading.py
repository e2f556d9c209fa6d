"""Pages that are only read: sessions with their messages, receipts, tasks and questions."""

import re
from typing import Any

import pytest

from conversations.models import Message, Receipt, Session
from strength.models import Memory
from tests.browser.chromium import expect
from tests.browser.stage import Stage, page_of
from tests.browser.steps import look_for, press


def test_a_session_shows_its_messages(page: Any, stage: Stage) -> None:
    page.goto("/admin/conversations/session/")
    page.locator("#result_list tr", has_text="Kick-off").locator("a[href*='/change/']").first.click()
    expect(page.get_by_text("We do not ship on Fridays", exact=False).first).to_be_visible()


def test_a_message_is_found_and_leads_to_its_session(page: Any, stage: Stage) -> None:
    page.goto("/admin/conversations/message/")
    look_for(page, "bounded heap")
    page.locator("#result_list a[href*='/message/']").first.click()
    expect(page).to_have_url(re.compile("/conversations/message/.+/change/"))
    page.locator("a[href*='/conversations/session/'][href$='/change/']").locator("visible=true").last.click()
    expect(page.get_by_text("bounded heap", exact=False).first).to_be_visible()


def test_all_rows_of_a_list_are_selected_where_it_has_actions(page: Any, stage: Stage) -> None:
    count = Message.objects.count()
    page.goto("/admin/conversations/message/")
    page.locator("#action-toggle").check()
    expect(page.locator("#changelist-actions")).to_contain_text(f"Select all {count} messages")
    page.locator("#changelist-actions .question a").click()
    expect(page.locator("#changelist-actions")).to_contain_text(f"All {count} selected")
    page.locator("select[name=action]").select_option("forget_chosen")
    press(page, "Run")
    expect(page.locator("#content, main").first).to_contain_text(f"Messages: {count}")

    session = Session.objects.select_related("actor").first()
    assert session is not None
    Session.objects.bulk_create(Session(actor=session.actor, channel="test") for _each in range(60))
    page.goto("/admin/conversations/session/")
    expect(page.locator("#result_list tr.data-row, #result_list tbody tr").first).to_be_visible()
    expect(page.get_by_text("Select all")).to_have_count(0)
    expect(page.locator("#result_list input[type=checkbox]")).to_have_count(0)


@pytest.mark.slow
def test_a_memory_leads_to_the_message_that_it_comes_from(page: Any, stage: Stage) -> None:
    memory = Memory.objects.filter(actor=stage.maya, sources__isnull=False).first()
    assert memory is not None
    page.goto(page_of(memory))
    page.locator("a[href*='#message-']").first.click()
    expect(page).to_have_url(re.compile(r"/conversations/session/.+#message-"))


@pytest.mark.slow
def test_a_receipt_tells_why(page: Any, stage: Stage) -> None:
    receipt = Receipt.objects.filter(actor=stage.maya).latest("created_at")
    page.goto(page_of(receipt))
    expect(page.locator("table").first).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("screen", ["strength/task", "conversations/chatturn", "summaries/projectevent"])
def test_a_list_leads_to_a_row(page: Any, stage: Stage, screen: str) -> None:
    page.goto(f"/admin/{screen}/")
    page.locator(f"#result_list a[href*='/{screen}/']").first.click()
    expect(page).to_have_url(re.compile(f"/admin/{screen}/.+/change/"))
