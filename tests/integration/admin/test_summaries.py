"""Summaries in the admin: versions and what they changed, and every change taken back."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import command
from summaries.actions.summaries import SUMMARIES
from summaries.models import Summary, SummaryVersion
from tests.integration.admin.conftest import NOW, SCRIPT, Hub, form_of, page_of

BY = command("test")
FETCH = {"x-requested-with": "fetch"}


def told(answer: Any) -> str:
    return " ".join(str(message) for message in answer.context["messages"])


def undo_of(answer: Any) -> str:
    """Return where the button beside the latest message posts to."""
    tags = [message.extra_tags for message in answer.context["messages"] if message.extra_tags]
    assert tags, "nothing can be taken back"
    return str(tags[-1].removeprefix("undo:"))


def edited(hub: Hub, text: str) -> Summary:
    summary = Summary.objects.get()
    return SUMMARIES.edit(
        summary, values={"text": text}, expected_version=None, by=BY, reason=f"Now {text[:9]}", now=NOW
    )


def test_an_edit_is_taken_back_with_its_lock(boss: Client, hub: Hub) -> None:
    before = Summary.objects.get()
    values = {**form_of(boss.get(page_of(hub.summary))), "text": "Moved to Nara.", "_continue": "1"}
    done = boss.post(page_of(hub.summary), values, follow=True)
    assert "saved, as version 2, and locked" in told(done) and Summary.objects.get().locked
    boss.post(undo_of(done))
    after = Summary.objects.get()
    assert (after.text, after.locked, after.trust) == (before.text, False, before.trust)


def test_lock_and_unlock_are_taken_back(boss: Client, hub: Hub) -> None:
    locked = boss.post(page_of(hub.summary, "lock"), {"locked": "1", "version": "1"}, follow=True)
    assert Summary.objects.get().locked
    unlocked = boss.post(undo_of(locked), follow=True)
    assert not Summary.objects.get().locked
    boss.post(undo_of(unlocked))
    assert Summary.objects.get().locked


def test_versions_are_compared_and_restored_and_that_is_taken_back(boss: Client, hub: Hub) -> None:
    first = Summary.objects.get().text
    edited(hub, f"Moved to Nara {SCRIPT}.")
    edited(hub, "Moved to Otaru.")
    shown = boss.get(page_of(hub.summary)).content.decode()
    assert shown.index('id="version-3"') < shown.index('id="version-1"') and "Now Moved" in shown
    part = boss.get(page_of(hub.summary, "compare"), {"from": 2, "to": 3}, headers=FETCH).content.decode()
    assert "Otaru" in part and "Nara" in part and SCRIPT not in part and "<html" not in part
    whole = boss.get(page_of(hub.summary, "text"), {"number": 2})
    assert whole.content.decode() == f"Moved to Nara {SCRIPT}." and "text/plain" in whole["Content-Type"]
    assert boss.get(page_of(hub.summary, "text"), {"number": 9}).status_code == 404
    done = boss.post(page_of(hub.summary, "restore"), {"number": 1, "version": 3}, follow=True)
    assert Summary.objects.get().text == first and "Version 1 was restored" in told(done)
    back = boss.post(undo_of(done), follow=True)
    assert Summary.objects.get().text == "Moved to Otaru."
    boss.post(undo_of(back))
    assert Summary.objects.get().text == first
    missing = {"number": 99, "version": Summary.objects.get().version, "exactly": 1}
    assert "No version 99 of this summary" in told(boss.post(page_of(hub.summary, "restore"), missing, follow=True))


def test_page_leads_to_the_session(boss: Client, hub: Hub) -> None:
    assert f"/conversations/session/{hub.session.pk}/" in boss.get(page_of(hub.summary)).content.decode()


def test_deleting_tells_what_goes_along_and_keeps_the_reason(boss: Client, hub: Hub) -> None:
    edited(hub, "Other.")
    shown = boss.get(page_of(hub.summary, "delete")).content.decode()
    assert "versions of summaries: 2" in shown and "delete-form" in shown
    boss.post(page_of(hub.summary, "delete"), {"post": "yes", "reason": "Private."})
    assert not Summary.objects.exists() and not SummaryVersion.objects.exists()
    assert AuditEntry.objects.get(verb="delete").reason == "Private."


def test_who_may_only_look_compares_and_changes_nothing(staff: Any, hub: Hub) -> None:
    edited(hub, "Other.")
    viewer = staff("view_summary")
    assert viewer.get(page_of(hub.summary, "compare")).status_code == 200
    assert "/restore/" not in viewer.get(page_of(hub.summary)).content.decode()
    for button in ("lock", "rewrite", "restore"):
        assert viewer.post(page_of(hub.summary, button), {"number": 1}).status_code == 403
    assert viewer.get(page_of(hub.summary, "delete")).status_code == 403


def test_who_may_not_look_compares_nothing(staff: Any, hub: Hub) -> None:
    other = staff("view_agent")
    for page in ("compare", "text"):
        assert other.get(page_of(hub.summary, page)).status_code == 403


@pytest.mark.parametrize("times", [3, 70])
def test_page_stays_small_with_long_versions(boss: Client, hub: Hub, times: int) -> None:
    for number in range(times):
        edited(hub, f"{number} {SCRIPT} " + "京都に引っ越した。\u202e" * 1_900)
    with CaptureQueriesContext(connection) as queries:
        answer = boss.get(page_of(hub.summary))
    assert len(answer.content) <= 400_000 and len(queries) <= 25 and SCRIPT not in answer.content.decode()
    compared = boss.get(page_of(hub.summary, "compare"))
    assert len(compared.content) <= 400_000 and compared.status_code == 200
