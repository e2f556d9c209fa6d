"""The summaries' screens: what people see of them, and what they may do (SPEC W1, W9)."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from memoryhub.jobs.models import Job
from summaries.models import Summary, SummaryVersion
from tests.integration.admin.conftest import boss, form_of, logged_in, page_of, staff
from tests.integration.summaries.conftest import Talk, open_talk

__all__ = ["boss", "staff"]


@pytest.fixture
def told(db: None) -> Talk:
    """Return a session that has a summary."""
    talk = open_talk("I moved to Otaru in spring because of the harbour.", "How do you like the canal in Otaru?")
    talk.end()
    talk.summarize()
    return talk


def press(browser: Client, talk: Talk, button: str, **values: Any) -> str:
    """Press a button of the summary's page and return what the page then tells."""
    address = reverse(f"admin:summaries_summary_{button}", args=[talk.summary.pk])  # type: ignore[union-attr]
    assert browser.get(address).status_code == 405, "a GET changes nothing"
    answer = browser.post(address, values, follow=True)
    assert answer.status_code == 200
    return " ".join(str(message) for message in answer.context["messages"])


def test_an_edit_locks_and_shows_what_it_changed(boss: Client, told: Talk) -> None:
    page = page_of(told.summary)
    values = form_of(boss.get(page))
    changed = {**values, "text": "I moved to Sapporo in spring.", "reason": "the town was wrong"}
    answer = boss.post(page, changed, follow=True)
    assert answer.status_code == 200

    summary = told.summary
    assert summary is not None and (summary.text, summary.locked) == ("I moved to Sapporo in spring.", True)
    compared = boss.get(page_of(summary, "compare"), {"from": 1, "to": 2})
    text = answer.content.decode() + boss.get(page).content.decode() + compared.content.decode()
    assert "<ins" in text and "Sapporo" in text and "<del" in text and "the town was wrong" in text
    assert "no job rewrites it until it is unlocked" in text
    late = boss.post(page, {**values, "text": "Too late."})
    assert late.status_code == 200 and "was changed while you edited it" in late.content.decode()
    assert boss.post(page, form_of(boss.get(page))).status_code == 302
    assert SummaryVersion.objects.count() == 2, "what was not changed is no version"


def test_locked_unlocked_and_written_anew(boss: Client, told: Talk) -> None:
    assert "locked" in press(boss, told, "lock", locked="1", version="1")
    assert "unlock it first" in press(boss, told, "rewrite")
    assert "changed since" in press(boss, told, "lock", locked="0", version="1")
    assert "unlocked" in press(boss, told, "lock", locked="0", version="2")
    assert "rewritten" in press(boss, told, "rewrite")
    job = Job.objects.get(kind="summarize", key__startswith="asked", state="queued")
    assert job.payload["anew"] is True


def test_a_version_is_restored(boss: Client, told: Talk) -> None:
    first = told.summary
    page = page_of(first)
    boss.post(page, {**form_of(boss.get(page)), "text": "Something else."})
    assert "Version 1 was restored" in press(boss, told, "restore", number="1", version="2")
    assert told.summary is not None and first is not None and told.summary.text == first.text
    assert "No version 77 of this summary" in press(boss, told, "restore", number="77", version="3")
    assert "The text stayed the same" not in boss.get(page).content.decode()


def test_deleted_one_by_one(boss: Client, told: Talk) -> None:
    answer = boss.post(
        reverse("admin:summaries_summary_changelist"),
        {"action": "delete_selected", "_selected_action": [str(told.summary.pk)], "post": "yes"},  # type: ignore[union-attr]
        follow=True,
    )
    assert answer.status_code == 200 and not Summary.objects.exists()


def test_curators_may_and_who_may_only_look_may_not(staff: Callable[..., Client], told: Talk, boss: Client) -> None:
    curator = staff("view_summary", "change_summary", "delete_summary")
    assert "locked" in press(curator, told, "lock", locked="1", version="1")
    looker = logged_in(User.objects.create_user("mio", password="a long password", is_staff=True))
    page = reverse("admin:summaries_summary_change", args=[told.summary.pk])  # type: ignore[union-attr]
    assert looker.get(page).status_code == 403
    assert looker.post(reverse("admin:summaries_summary_lock", args=[told.summary.pk])).status_code == 403  # type: ignore[union-attr]
    gone = reverse("admin:summaries_summary_lock", args=["01900000-0000-7000-8000-000000000000"])
    assert boss.post(gone).status_code == 302


def test_who_may_only_look_sees_the_versions_and_no_buttons(staff: Callable[..., Client], told: Talk) -> None:
    text = staff("view_summary").get(page_of(told.summary)).content.decode()
    assert "Versions" in text and "lock-form" not in text and "Kept with the change" not in text


def test_texts_are_shown_as_texts(boss: Client) -> None:
    talk = open_talk("<script>alert(1)</script> is what Otaru harbour said on Friday.")
    talk.say("And again on Monday.")
    talk.end()
    talk.summarize()
    page = page_of(talk.summary)
    boss.post(page, {**form_of(boss.get(page)), "text": "<script>alert(2)</script> and more"})
    for address in (page, reverse("admin:summaries_summary_changelist")):
        assert "<script>alert" not in boss.get(address).content.decode()
