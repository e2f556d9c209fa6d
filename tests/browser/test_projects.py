"""Summaries, project documents and routing: put right, locked, restored."""

import re
from typing import Any

import pytest

from memoryhub.jobs.models import Job
from summaries.models import Document, DocumentVersion, RoutingDecision, SummaryVersion
from tests.browser.chromium import expect
from tests.browser.stage import Stage, page_of
from tests.browser.steps import press


@pytest.mark.slow
def test_a_summary_is_put_right_unlocked_and_written_anew(page: Any, stage: Stage) -> None:
    summary = stage.summary()
    page.goto(page_of(summary))
    page.locator("#id_text").fill("Maya settled the licence: Apache-2.0.")
    page.locator("#id_reason").fill("shorter")
    press(page, "Save and continue editing")
    summary.refresh_from_db()
    assert (summary.text, summary.locked) == ("Maya settled the licence: Apache-2.0.", True)
    assert SummaryVersion.objects.filter(summary=summary).latest("number").reason == "shorter"
    page.goto(page_of(summary))
    press(page, "Unlock")
    summary.refresh_from_db()
    assert not summary.locked
    page.goto(page_of(summary))
    press(page, "Rewrite it")
    assert Job.objects.filter(kind="summarize", actor=stage.maya, state="queued").exists()


@pytest.mark.slow
def test_a_summary_is_locked(page: Any, stage: Stage) -> None:
    summary = stage.summary()
    page.goto(page_of(summary))
    press(page, "Lock")
    summary.refresh_from_db()
    assert summary.locked


def test_a_document_is_edited_and_an_earlier_text_restored(page: Any, stage: Stage) -> None:
    document = Document.objects.get(project__name="website", name="MEMORY.md")
    before = document.text
    page.goto(page_of(document))
    page.locator("#id_text").fill(f"{before}\nThe announcement goes out on a Tuesday.\n")
    page.locator("#id_reason").fill("from the kick-off")
    press(page, "Save and continue editing")
    document.refresh_from_db()
    assert "on a Tuesday" in document.text
    assert DocumentVersion.objects.filter(document=document).latest("number").reason == "from the kick-off"
    page.goto(page_of(document))
    page.get_by_role("button", name=re.compile("^Restore")).first.click()
    page.wait_for_load_state()
    document.refresh_from_db()
    assert document.text == before


@pytest.mark.slow
def test_a_message_is_taken_to_another_project(page: Any, stage: Stage) -> None:
    decision = RoutingDecision.objects.get(message__contains="How fast is the notes server")
    page.goto(page_of(decision))
    page.locator("#correct-form input[name=reason]").fill("it is about the pages")
    if page.get_by_role("button", name="website", exact=True).count():
        press(page, "website")
    else:
        page.get_by_label("Another project").select_option("website")
        press(page, "This is correct")
    decision.refresh_from_db()
    assert decision.corrected_project is not None and decision.corrected_project.name == "website"


@pytest.mark.slow
def test_a_project_leads_to_its_documents(page: Any, stage: Stage) -> None:
    page.goto("/admin/summaries/project/")
    page.locator("#result_list").get_by_role("link", name="tidepool").first.click()
    page.locator("#content, body").first.get_by_role("link", name="MEMORY.md").first.click()
    expect(page).to_have_url(re.compile("/admin/summaries/document/"))
