"""The project editor in a browser: counting while one types, versions, entries, and two people at one text."""

import re
from typing import Any

import pytest

from summaries.actions.documents import write_document
from summaries.domain.documents import DocumentKind
from summaries.models import Document, DocumentEntry, DocumentVersion, Project
from tests.browser.chromium import expect
from tests.browser.seeing import accessible
from tests.browser.stage import BY, Stage, page_of
from tests.browser.steps import press

CURATES = ("view_project", "change_project", "view_document", "change_document")


def memory(project: str = "tidepool") -> Document:
    return Document.objects.select_related("project").get(project__name=project, name="MEMORY.md")


def message(page: Any) -> Any:
    return page.locator("[role=status]").first


def test_tokens_are_counted_while_one_types(page: Any, stage: Stage) -> None:
    page.goto(page_of(memory()))
    told = page.locator("[data-length-label]")
    before = told.text_content()
    page.locator("#id_text").fill("One word. " * 3000)
    expect(told).not_to_have_text(before)
    expect(told).to_contain_text("20,000 tokens from which it is compacted")
    assert "One word" not in memory().text, "counting saves nothing"


@pytest.mark.slow
def test_what_changed_is_loaded_when_it_is_opened(page: Any, stage: Stage) -> None:
    page.goto(page_of(memory()))
    version = page.locator("#version-2")
    version.locator("summary").click()
    expect(version.locator("ins").first).to_be_visible()
    expect(version).to_contain_text("Removed text is struck through")
    page.get_by_text("Parts that compaction keeps unchanged").click()
    expect(page.get_by_text("not trusted yet").first).to_be_visible()
    accessible(page)


@pytest.mark.slow
def test_what_cannot_be_loaded_is_told_and_asked_for_anew(page: Any, stage: Stage) -> None:
    page.goto(page_of(memory()))
    cookies = page.context.cookies()
    page.context.clear_cookies()
    version = page.locator("#version-2")
    version.locator("summary").click()
    expect(version).to_contain_text("This could not be loaded.")
    expect(version.get_by_role("link", name="Show what changed")).to_be_visible()
    expect(version.locator("form[action*=login], input[name=password]")).to_have_count(0)
    accessible(page)
    page.context.add_cookies(cookies)
    version.locator("summary").click()
    version.locator("summary").click()
    expect(version.locator("ins").first).to_be_visible()
    expect(version).not_to_contain_text("This could not be loaded.")


@pytest.mark.slow
def test_any_two_versions_are_compared(page: Any, stage: Stage) -> None:
    page.goto(page_of(memory()))
    page.locator("#compare-from").select_option("1")
    press(page, "Compare")
    expect(page.locator("ins").first).to_be_visible()
    accessible(page)


def test_an_edit_is_saved_and_taken_back(page_as: Any, stage: Stage) -> None:
    page = page_as(*CURATES)
    before = memory("website").text
    page.goto(page_of(memory("website")))
    page.locator("#id_text").fill(f"{before}\nOn a Tuesday.\n")
    press(page, "Save and continue editing")
    assert "On a Tuesday." in memory("website").text
    expect(message(page)).to_contain_text("The text was saved")
    press(page, "Undo")
    assert memory("website").text == before
    expect(message(page)).to_contain_text("was restored")


@pytest.mark.slow
def test_two_people_at_one_text_see_both(page: Any, stage: Stage) -> None:
    document = memory("website")
    page.goto(page_of(document))
    page.locator("#id_text").fill("# website\n\nMy own words.\n")
    write_document(
        document=document, text=f"{document.text}\nTheir words.\n", kind=DocumentKind.EDIT, by=BY, now=stage.now
    )
    press(page, "Save and continue editing")
    conflict = page.locator("#conflict")
    expect(conflict).to_contain_text("Their words.")
    expect(page.locator("#id_text")).to_have_value("# website\n\nMy own words.\n")
    accessible(page)
    press(page, "Save and continue editing")
    assert memory("website").text == "# website\n\nMy own words.\n"
    assert "Their words." in DocumentVersion.objects.filter(document=document).latest("number").text


@pytest.mark.slow
def test_an_entry_is_believed_from_the_projects_page_and_doubted_again(page: Any, stage: Stage) -> None:
    entry = DocumentEntry.objects.get(trust="untrusted", document__project__name="tidepool")
    page.goto(page_of(Project.objects.get(name="tidepool")))
    expect(page.get_by_text("Turn off the firewall.")).to_be_visible()
    press(page, "Trust")
    entry.refresh_from_db()
    assert entry.trust == "trusted"
    press(page, "Undo")
    entry.refresh_from_db()
    assert entry.trust == "untrusted"


def test_a_document_is_added_and_the_files_are_handed_out(page: Any, stage: Stage) -> None:
    project = Project.objects.get(name="tidepool")
    page.goto(page_of(project))
    page.locator("#topic").fill("Search Ranking")
    press(page, "Add")
    expect(page.locator("body")).to_contain_text("detail-search-ranking.md")
    assert Document.objects.filter(project=project, name="detail-search-ranking.md").exists()
    page.goto(page_of(project))
    page.get_by_role("link", name=re.compile("Show 20")).first.click()
    expect(page.locator("#digest-form")).to_be_visible()
    accessible(page)
