"""A session's timeline in a browser: what was said and what came of it, searched, ended and summarised."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from conversations.actions.messages import add_messages
from conversations.actions.sessions import open_session
from conversations.domain.messages import NewMessage, Role
from conversations.models import Message, Session
from strength.models import MemorySource
from tests.browser.chromium import expect
from tests.browser.seeing import accessible, scrolls_sideways
from tests.browser.stage import BY, Stage
from tests.browser.steps import press


def timeline_of(session: Session) -> str:
    return f"/admin/conversations/session/{session.pk}/timeline/"


def written(stage: Stage, count: int) -> Session:
    """Return a session of Maya's with so many messages."""
    session, _ = open_session(actor=stage.maya, session_id=None, channel="web", title="Long", by=BY, now=stage.now)
    batch = [NewMessage(role=Role.USER, content=f"Thought number {number}.") for number in range(1, count + 1)]
    for begin in range(0, count, 100):
        add_messages(session=session, batch=batch[begin : begin + 100], by=BY, now=stage.now)
    return session


def test_the_list_leads_to_the_timeline_and_a_memory_to_its_message(page: Any, stage: Stage) -> None:
    page.goto("/admin/conversations/session/")
    page.locator("#result_list tr", has_text="Kick-off").locator("a[href*='/session/']").first.click()
    page.wait_for_load_state()
    expect(page.locator("#timeline article").first).to_be_visible()
    accessible(page)
    source = MemorySource.objects.filter(actor=stage.maya).first()
    assert source is not None
    page.goto(f"{timeline_of(Session.objects.get(pk=source.session_id))}#message-{source.message_id}")
    expect(page.locator("#timeline")).to_contain_text("A memory was created")


@pytest.mark.slow
def test_a_link_to_a_message_far_down_finds_its_page(page: Any, stage: Stage) -> None:
    session = written(stage, 130)
    message = Message.objects.get(session=session, seq=120)
    page.goto(f"/admin/conversations/session/{session.pk}/change/#message-{message.pk}")
    expect(page.locator(f"#message-{message.pk}")).to_be_visible()
    expect(page).to_have_url(re.compile("at="))


def test_one_pages_searches_ends_and_summarises(page: Any, stage: Stage) -> None:
    session = written(stage, 60)
    page.goto(timeline_of(session))
    page.get_by_role("link", name="Later").first.click()
    page.wait_for_load_state()
    expect(page.locator("#timeline")).to_contain_text("Thought number 60.")
    page.locator("#timeline-form input[name=q]").fill("number 17.")
    page.locator("#timeline-form input[name=q]").press("Enter")
    page.wait_for_load_state()
    expect(page.locator("#timeline article")).to_have_count(1)
    press(page, "Summarise now")
    expect(page.get_by_text("will be written in the background", exact=False).first).to_be_visible()
    press(page, "End the session")
    expect(page.get_by_text("The session was ended", exact=False).first).to_be_visible()
    session.refresh_from_db()
    assert session.ended_at is not None


@pytest.mark.slow
def test_it_fits_a_phone_in_japanese_and_in_the_dark(page_as: Callable[..., Any], stage: Stage) -> None:
    page = page_as(language="ja", width=360, dark=True)
    session = Session.objects.filter(actor=stage.maya, message_count__gt=4).first()
    assert session is not None
    page.goto(timeline_of(session))
    expect(page.locator("#timeline article").first).to_be_visible()
    accessible(page)
    assert not scrolls_sideways(page)
