"""The project editor: documents with their lengths, versions, backups, entries, and two people at one text."""

import json
import re
import zipfile
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django.fixtures import Settings

from memoryhub.api.middleware import TIME_ZONE_COOKIE
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import Principal, PrincipalKind
from memoryhub.jobs.models import Job
from memoryhub.llm.client import NOT_CONFIGURED
from memoryhub.llm.config import LLMConfig
from memoryhub.llm.tokens import count_raw
from summaries.actions.documents import append_entry, note_outcome, put_document, write_document
from summaries.actions.projects import create_project
from summaries.domain.compaction import Outcome
from summaries.domain.documents import DocumentKind
from summaries.models import Document, DocumentEntry, DocumentVersion, Project, ProjectEvent
from tests.integration.admin.conftest import BY, SCRIPT, form_of, page_of

NOW = datetime.now(UTC)
STRANGER = Principal(kind=PrincipalKind.KEY, id="k", name="inbox", is_trusted=False)
RTL = "\u202e\u05e9\u05dc\u05d5\u05dd"
MOST_QUERIES = 25
MOST_BYTES = 400_000
FETCH = {"x-requested-with": "fetch"}


@pytest.fixture
def project(db: None) -> Project:
    """Return a project whose MEMORY.md was written twice; its agent compacts early."""
    actor = actor_for_writing(BY, "kana", "hiroki", now=NOW)
    actor.agent.policy = {"model_context_window": 4000}
    actor.agent.save()
    made = create_project(actor=actor, name="tea-shop", description="Tea of Uji.", by=BY, now=NOW)
    write(made, "# Tea\n\n> Tea of Uji.\n\nWe sell sencha.\n", "The first notes.")
    return made


def memory(project: Project) -> Document:
    return Document.objects.get(project=project, name="MEMORY.md")


def write(project: Project, text: str, reason: str = "", kind: DocumentKind = DocumentKind.EDIT) -> Document:
    return write_document(document=memory(project), text=text, kind=kind, by=BY, reason=reason, now=NOW)


def told(answer: Any) -> str:
    return " ".join(str(message) for message in answer.context["messages"])


def undo_of(answer: Any) -> str:
    """Return where the button beside the latest message posts to."""
    tags = [message.extra_tags for message in answer.context["messages"] if message.extra_tags]
    assert tags, "nothing can be taken back"
    return str(tags[-1].removeprefix("undo:"))


def press(boss: Client, row: Any, button: str, **values: Any) -> Any:
    answer = boss.post(page_of(row, button), values, follow=True)
    assert answer.status_code == 200
    return answer


# Lengths.


def test_project_page_tells_lengths_limits_and_what_became_of_compactions(boss: Client, project: Project) -> None:
    write(project, "# Tea\n" + "sencha " * 500)
    shown = boss.get(page_of(project)).content.decode()
    assert "tokens, more than the 400 from which it is compacted" in shown
    assert "waits: no language model is configured" in shown, "the trigger noted it"
    note_outcome(document=memory(project), outcome=Outcome.REFUSED, missing=2, now=NOW + timedelta(hours=1))
    later = boss.get(page_of(project)).content.decode()
    assert "refused" in later and "2 protected parts were missing" in later


def test_count_is_the_servers_own(boss: Client, project: Project) -> None:
    address = page_of(memory(project), "count")
    text = "抹茶 and sencha\r\n" * 200
    counts = json.loads(boss.post(address, {"text": text}).content)
    assert counts["tokens"] == count_raw(text.replace("\r\n", "\n"))
    assert counts["over"] is True and counts["percent"] == 100 and "400" in counts["label"]
    assert boss.get(address).status_code == 405


def test_without_a_model_a_compaction_is_no_button_and_is_refused_with_what_to_set(
    boss: Client, project: Project
) -> None:
    write(project, "# Tea\n" + "sencha " * 1_500)
    asked = boss.get(page_of(memory(project), "compact")).content.decode()
    button = re.search(r"<button[^>]*>\s*Compact it", asked)
    assert "compact-form" in asked and str(NOT_CONFIGURED) in asked and button and " disabled " in button[0]
    assert f"{count_raw(memory(project).text):,} tokens" in asked
    answer = press(boss, memory(project), "compact")
    assert told(answer) == str(NOT_CONFIGURED) and not Job.objects.filter(kind="compact").exists()


def test_compaction_is_confirmed_and_then_waits(boss: Client, project: Project, settings: Settings) -> None:
    write(project, "# Tea\n" + "sencha " * 500)
    settings.LLM = LLMConfig("openai", base_url="http://127.0.0.1:1/v1")
    address = page_of(memory(project), "compact")
    with CaptureQueriesContext(connection) as queries:
        asked = boss.get(address).content.decode()
    assert "compact-form" in asked and "No language model is configured" not in asked
    assert " disabled " not in asked[asked.index("compact-form") :] and len(queries) <= MOST_QUERIES
    assert not Job.objects.filter(kind="compact").exists(), "a page changes nothing"
    assert "in the background" in told(press(boss, memory(project), "compact"))
    assert Job.objects.get(kind="compact").payload["document_id"] == str(memory(project).pk)
    assert "A compaction is queued or running" in boss.get(page_of(project)).content.decode()
    pinned = put_document(project=project, name="pinned.md", text="Keep.", by=BY, now=NOW)
    assert "never rewritten" in told(press(boss, pinned, "compact"))


def test_what_is_protected_is_marked_with_its_reason(boss: Client, project: Project) -> None:
    write(project, f"# Tea\n\n> Tea of Uji.\n\n- old news\n- [PINNED] keep {SCRIPT}\n- 2020-01-01: long ago\n")
    append_entry(project=project, document_name="MEMORY.md", text="Ask Mallory.", by=STRANGER, now=NOW)
    append_entry(project=project, document_name="MEMORY.md", text="Said today.", by=BY, now=NOW)
    part = boss.get(page_of(memory(project), "protected"), headers=FETCH).content.decode()
    assert "keep" in part and "Ask Mallory." in part and "Said today." in part and "Tea of Uji." in part
    assert "pinned" in part and "not trusted yet" in part and "younger than seven days" in part
    assert "old news" not in part and "long ago" not in part and SCRIPT not in part
    assert "<html" not in part and "<html" in boss.get(page_of(memory(project), "protected")).content.decode()
    pinned = put_document(project=project, name="pinned.md", text="Keep.\n", by=BY, now=NOW)
    assert "never rewritten" in boss.get(page_of(pinned, "protected"), headers=FETCH).content.decode()


def test_a_line_is_pinned_and_unpinned_by_a_button(boss: Client, project: Project) -> None:
    write(project, "# Tea\n\n> Tea of Uji.\n\n* old news\n")
    append_entry(project=project, document_name="MEMORY.md", text="From a message.", pinned=True, by=BY, now=NOW)
    assert page_of(memory(project), "lines") in boss.get(page_of(memory(project))).content.decode()
    lines = boss.get(page_of(memory(project), "lines"), headers=FETCH)
    by_text = {each["text"]: each for each in lines.context["lines"]}
    assert {text: each["is_pinned"] for text, each in by_text.items()} == {
        "* old news": False,
        "- [PINNED] From a message.": True,
    }
    asked = {"line": by_text["* old news"]["digest"], "version": memory(project).version}
    pinned = boss.post(page_of(memory(project), "pin"), asked, follow=True)
    assert pinned.redirect_chain[-1][0] == f"{page_of(memory(project))}#pin-lines", "back in the section"
    done = pinned.content.decode()
    assert "Preview below" in done
    assert "The line is pinned." in done and "* [PINNED] old news\n" in memory(project).text
    assert "old news" in boss.get(page_of(memory(project), "protected"), headers=FETCH).content.decode()
    stale = boss.post(page_of(memory(project), "pin"), asked, follow=True).content.decode()
    assert "The line is pinned." not in stale
    asked = {"line": by_text["- [PINNED] From a message."]["digest"]}
    done = boss.post(page_of(memory(project), "unpin"), asked, follow=True).content.decode()
    assert "The line is no longer pinned." in done and memory(project).text.endswith("\n- From a message.\n")
    lines = boss.get(page_of(memory(project), "lines"), headers=FETCH)
    assert [each["is_pinned"] for each in lines.context["lines"]] == [True, False]
    gone = boss.post(page_of(memory(project), "unpin"), asked, follow=True).content.decode()
    assert "The document no longer has this line." in gone


def test_who_may_only_read_pins_nothing(staff: Any, project: Project) -> None:
    write(project, "- old news\n")
    reader = staff("view_document", "view_project")
    part = reader.get(page_of(memory(project), "lines"), headers=FETCH)
    assert "old news" in part.content.decode() and 'name="line"' not in part.content.decode()
    asked = {"line": part.context["lines"][0]["digest"]}
    assert reader.post(page_of(memory(project), "pin"), asked).status_code == 403


# Versions.


def test_an_edit_is_told_and_taken_back(boss: Client, project: Project) -> None:
    document = memory(project)
    values = form_of(boss.get(page_of(document)))
    answer = boss.post(page_of(document), {**values, "text": "# Only tea", "_continue": "1"}, follow=True)
    assert "saved, as version 3" in told(answer)
    back = boss.post(undo_of(answer), follow=True)
    assert memory(project).text == document.text and "Version 2 was restored" in told(back)
    boss.post(undo_of(back), follow=True)
    assert memory(project).text == "# Only tea", "taking back can be taken back"


def test_versions_say_who_when_and_why_and_what_changed(boss: Client, project: Project) -> None:
    write(project, "# Tea\n\n> Tea of Uji.\n\nWe sell sencha and gyokuro.\n", "More teas.")
    shown = boss.get(page_of(memory(project))).content.decode()
    assert shown.index('id="version-3"') < shown.index('id="version-2"') < shown.index('id="version-1"')
    assert "More teas." in shown and "The first notes." in shown and "gyokuro" in shown
    assert "<ins" not in shown, "what changed is loaded when it is opened"
    part = boss.get(page_of(memory(project), "compare"), {"from": 2, "to": 3}, headers=FETCH).content.decode()
    assert "and gyokuro" in part and "<ins" in part and "<html" not in part
    any_two = boss.get(page_of(memory(project), "compare"), {"from": 1, "to": 3}).content.decode()
    for side in ("Before", "After"):
        assert f'lg:hidden" aria-hidden="true">{side}<' in any_two, "where the texts follow each other"
    assert "From line" in any_two and "<html" in any_two
    for values in ({"from": 77, "to": 3}, {"from": 1, "to": 99}):
        assert "no such version" in boss.get(page_of(memory(project), "compare"), values).content.decode()
    assert "was not changed" in boss.get(page_of(memory(project), "compare"), {"from": 3, "to": 3}).content.decode()


def test_many_versions_are_paged(boss: Client, project: Project) -> None:
    for number in range(45):
        write(project, f"# Tea {number}\n")
    shown, seen = boss.get(page_of(memory(project))).content.decode(), 0
    assert 'id="version-47"' in shown and 'id="version-20"' not in shown
    before: Any = {}
    while True:
        history = boss.get(page_of(memory(project)), before).context["history"]
        seen += len(history["versions"])
        if not history["older"]:
            break
        before = {"before": history["versions"][-1]["number"]}
    assert seen == 47


def test_a_version_is_restored_with_one_click_and_that_is_taken_back(boss: Client, project: Project) -> None:
    now = memory(project)
    answer = press(boss, now, "restore", number=1, version=now.version)
    assert "sencha" not in memory(project).text
    boss.post(undo_of(answer))
    assert memory(project).text == now.text
    assert "already" in told(press(boss, now, "restore", number=2, version=4)), "it says so already"
    for values in ({"number": 99}, {"number": "x"}, {"number": 1, "version": 1}):
        assert "undo:" not in str(press(boss, now, "restore", **values).context["messages"])
    assert memory(project).text == now.text


def test_backups_are_listed_and_restored(boss: Client, project: Project) -> None:
    before = memory(project).text
    write(project, "# Tea\n\n> Tea of Uji.\n", kind=DocumentKind.COMPACTION)
    shown = boss.get(page_of(memory(project)))
    assert [each["number"] for each in shown.context["backups"]] == [2]
    press(boss, memory(project), "restore", number=2, version=3)
    assert memory(project).text == before


def test_two_people_at_one_text_lose_nothing(boss: Client, project: Project) -> None:
    document = memory(project)
    mine = {**form_of(boss.get(page_of(document))), "text": f"# Tea\n\nMy own words {SCRIPT}.\n"}
    write(project, "# Tea\n\n> Tea of Uji.\n\nWe sell sencha and hojicha.\n", "Theirs.")
    answer = boss.post(page_of(document), mine)
    shown = answer.content.decode()
    assert answer.status_code == 200 and "Two people edited this text" in shown
    assert "hojicha" in shown and "My own words" in shown and SCRIPT not in shown
    assert "changed while you edited" in shown and "hojicha" in memory(project).text
    again = form_of(answer)
    assert again["text"].replace("\r\n", "\n") == mine["text"] and int(again["expected_version"]) == 3
    assert boss.post(page_of(document), again).status_code == 302
    assert memory(project).text == mine["text"]
    assert DocumentVersion.objects.get(document=document, number=3).text.endswith("hojicha.\n"), "theirs is kept"


# Entries.


def test_entries_are_believed_one_by_one_and_doubted_again(boss: Client, project: Project) -> None:
    for text in ("Ask Mallory.", f"Call {SCRIPT} {RTL}."):
        append_entry(
            project=project, document_name="MEMORY.md", text=text, by=STRANGER, sources={"channel": "mail"}, now=NOW
        )
    for page in (page_of(project), page_of(memory(project))):
        shown = boss.get(page).content.decode()
        assert "Ask Mallory." in shown and "mail" in shown and SCRIPT not in shown and "Trust all 2" in shown
    one = boss.get(page_of(project)).context["entries"]["groups"][0]["entries"][0]
    answer = press(boss, memory(project), "believe", entries=str(one["id"]), next=page_of(project))
    assert answer.redirect_chain[-1][0] == page_of(project) and "1 entry is trusted" in told(answer)
    assert DocumentEntry.objects.get(trust="untrusted").pk != one["id"]
    boss.post(undo_of(answer))
    assert DocumentEntry.objects.filter(trust="untrusted").count() == 2
    assert AuditEntry.objects.filter(verb__in=["believe", "doubt"]).count() == 2


def test_all_entries_that_are_shown_are_believed_at_once(boss: Client, project: Project) -> None:
    for number in range(60):
        append_entry(project=project, document_name="decisions.md", text=f"No {number}.", by=STRANGER, now=NOW)
    entries = boss.get(page_of(project)).context["entries"]
    assert len(entries["groups"][0]["entries"]) == 50 and entries["more"] == 10
    group = entries["groups"][0]
    answer = press(boss, group["document"], "believe", entries=group["ids"], reason="I asked.")
    assert "50 entries are trusted" in told(answer)
    assert DocumentEntry.objects.filter(trust="untrusted").count() == 10, "what nobody saw, nobody decided"
    assert AuditEntry.objects.get(verb="believe").reason == "I asked."
    assert "0 entries" in told(press(boss, group["document"], "believe", entries="x,,1"))


def test_an_entry_of_another_document_is_not_believed(boss: Client, project: Project) -> None:
    append_entry(project=project, document_name="decisions.md", text="No.", by=STRANGER, now=NOW)
    press(boss, memory(project), "believe", entries=str(DocumentEntry.objects.get().pk))
    assert DocumentEntry.objects.get().trust == "untrusted"


# The project.


def test_a_rename_is_taken_back_with_the_description(boss: Client, project: Project) -> None:
    values = {**form_of(boss.get(page_of(project))), "name": "uji", "description": "Other."}
    answer = boss.post(page_of(project), {**values, "_continue": "1"}, follow=True)
    assert "uji was changed" in told(answer) and "> Other." in memory(project).text
    boss.post(undo_of(answer))
    project.refresh_from_db()
    assert (project.name, project.description) == ("tea-shop", "Tea of Uji.")
    assert "> Tea of Uji." in memory(project).text
    assert "has changed since" in told(boss.post(undo_of(answer), follow=True)), "only once"


def test_a_first_description_is_taken_back(boss: Client, project: Project) -> None:
    bare = create_project(actor=project.actor, name="bare", description="", by=BY, now=NOW)
    values = {**form_of(boss.get(page_of(bare))), "description": "About."}
    answer = boss.post(page_of(bare), {**values, "_continue": "1"}, follow=True)
    boss.post(undo_of(answer))
    bare.refresh_from_db()
    assert bare.description == "" and "About" not in memory(bare).text


def test_what_was_added_meanwhile_is_not_taken_back(boss: Client, project: Project) -> None:
    values = {**form_of(boss.get(page_of(project))), "description": "Other."}
    answer = boss.post(page_of(project), {**values, "_continue": "1"}, follow=True)
    append_entry(project=project, document_name="MEMORY.md", text="New fact.", by=BY, now=NOW)
    boss.post(undo_of(answer))
    assert "New fact." in memory(project).text


def test_documents_are_added_by_topic_and_taken_away_while_empty(boss: Client, project: Project) -> None:
    answer = press(boss, project, "add_document", topic="Launch of the Shop")
    made = Document.objects.get(name="detail-launch-of-the-shop.md")
    assert made.name in told(answer) and answer.redirect_chain[-1][0] == page_of(made)
    press(boss, project, "add_document", topic="launch of the shop")
    assert Document.objects.filter(name="detail-launch-of-the-shop-2.md").exists()
    boss.post(undo_of(answer))
    assert not Document.objects.filter(pk=made.pk).exists()
    pinned = press(boss, project, "add_document", name="pinned.md")
    put_document(project=project, name="pinned.md", text="Keep.", by=BY, now=NOW)
    assert "has been written to" in told(boss.post(undo_of(pinned), follow=True))
    assert "already" in told(press(boss, project, "add_document", name="MEMORY.md"))
    assert "A document is called" in told(press(boss, project, "add_document", name="../etc/passwd"))
    assert memory(project).text and Document.objects.get(name="pinned.md").text == "Keep."


def test_files_are_handed_out_in_one_archive(boss: Client, project: Project) -> None:
    append_entry(project=project, document_name="MEMORY.md", text="Ask Mallory.", by=STRANGER, now=NOW)
    before = memory(project).text
    write(project, "# Tea\n\n> Tea of Uji.\n", kind=DocumentKind.COMPACTION)
    assert boss.get(page_of(project, "export")).status_code == 405
    answer = boss.post(page_of(project, "export"))
    assert answer["Content-Disposition"] == 'attachment; filename="tea-shop.zip"'
    with zipfile.ZipFile(BytesIO(answer.content)) as archive:
        names = sorted(archive.namelist())
        assert names[0] == "projects/.memoryhub.json" and names[1] == "projects/tea-shop/MEMORY.md"
        assert names[2].startswith("projects/tea-shop/MEMORY.md.bak.") and len(names) == 3
        assert archive.read(names[1]).decode() == memory(project).text
        backup = archive.read(names[2]).decode()
        assert "sencha" in before and "sencha" in backup and "Mallory" not in backup
    assert ProjectEvent.objects.filter(kind="export", project=project).count() == 1


def test_downloads_carry_a_topic_that_a_name_of_latin_letters_cannot_say(boss: Client, project: Project) -> None:
    answer = press(boss, project, "add_document", topic="予算/計画")
    made = Document.objects.get(name__startswith="detail-project-")
    assert made.text == "# 予算/計画\n" and made.name in told(answer)
    file = f"{made.name.removesuffix('.md')} 予算 計画.md"
    shown = boss.get(page_of(made, "text"), {"number": 1})
    assert shown["Content-Disposition"] == f"inline; filename*=utf-8''{quote(file)}"
    memory_text = boss.get(page_of(memory(project), "text"), {"number": 1})
    assert memory_text["Content-Disposition"] == 'inline; filename="MEMORY.md"'
    trip = create_project(actor=project.actor, name="project-0a1b2c3d", description="京都旅行", by=BY, now=NOW)
    archive = boss.post(page_of(trip, "export"))["Content-Disposition"]
    assert archive == f"attachment; filename*=utf-8''{quote('project-0a1b2c3d 京都旅行.zip')}"
    page = boss.get(reverse("admin:summaries_project_change", args=[trip.pk])).content.decode()
    assert "project-0a1b2c3d (京都旅行)" in page
    undo = undo_of(answer)
    write_document(document=made, text="# 予算\n\nOne.\n", kind=DocumentKind.EDIT, by=BY, now=NOW)
    assert "has been written to" in told(boss.post(undo, follow=True))


def test_a_document_of_its_topic_alone_is_taken_away(boss: Client, project: Project) -> None:
    undo = undo_of(press(boss, project, "add_document", topic="予算"))
    boss.post(undo)
    assert not Document.objects.filter(name__startswith="detail-").exists()
    other = put_document(project=project, name="detail-project-0a1b2c3d.md", text="# 予算\n", by=BY, now=NOW)
    boss.post(page_of(other, "remove"))
    assert Document.objects.filter(pk=other.pk).exists(), "somebody wrote this heading"


def test_deleting_tells_what_goes_along_and_keeps_the_reason(boss: Client, project: Project) -> None:
    append_entry(project=project, document_name="MEMORY.md", text="Ask Mallory.", by=STRANGER, now=NOW)
    shown = boss.get(page_of(project, "delete")).content.decode()
    assert "tea-shop" in shown and "documents: 1" in shown and "versions of documents: 3" in shown
    boss.post(page_of(project, "delete"), {"post": "yes", "reason": "Closed."})
    assert not Project.objects.not_deleted().exists() and AuditEntry.objects.get(verb="delete").reason == "Closed."


def test_a_day_is_told_and_digested(boss: Client, project: Project) -> None:
    today = f"{NOW:%Y-%m-%d}"
    shown = boss.get(page_of(project)).content.decode()
    assert f"{today}:" in shown and "Today (UTC)" in shown
    boss.cookies[TIME_ZONE_COOKIE] = "Asia/Tokyo"
    assert "Today (Asia/Tokyo)" in boss.get(page_of(project)).content.decode()
    del boss.cookies[TIME_ZONE_COOKIE]
    day = boss.get(page_of(project, "day"), {"day": today})
    assert "Activity" in day.content.decode() and len(day.context["events"]) >= 2
    assert "no activity" in boss.get(page_of(project, "day"), {"day": "2020-01-01"}).content.decode()
    assert boss.get(page_of(project, "day"), {"day": "x"}).status_code == 200
    asked = boss.post(page_of(project, "day"), {"day": today, "of": "all"})
    assert "no summaries" in asked.content.decode()


def test_a_digest_is_shown_where_there_are_summaries(boss: Client, hub: Any) -> None:
    made = create_project(actor=hub.actor, name="kyoto", description="", by=BY, now=NOW)
    day = f"{hub.summary.end_time:%Y-%m-%d}"
    shown = boss.post(page_of(made, "day"), {"day": day, "of": "all"}).content.decode()
    assert 'id="digest"' in shown and "Of 1 session." in shown


# Roles and sizes.


def test_who_may_only_look_sees_no_button_and_changes_nothing(staff: Any, project: Project) -> None:
    append_entry(project=project, document_name="MEMORY.md", text="Ask Mallory.", by=STRANGER, now=NOW)
    viewer = staff("view_project", "view_document")
    for row in (project, memory(project)):
        shown = viewer.get(page_of(row)).content.decode()
        assert "Ask Mallory." in shown
        for form in ("/believe/", "/restore/", "topic-form", "Compact now"):
            assert form not in shown, form
    for button in ("believe", "doubt", "restore", "compact", "remove"):
        assert viewer.post(page_of(memory(project), button), {"number": 1}).status_code == 403, button
    assert viewer.get(page_of(memory(project), "compact")).status_code == 403
    for button in ("undo_edit", "add_document"):
        assert viewer.post(page_of(project, button), {"name": "x"}).status_code == 403
    assert viewer.post(page_of(project, "day"), {}).status_code == 403
    assert viewer.post(page_of(memory(project), "count"), {"text": "x"}).status_code == 200


def test_who_may_not_look_gets_nothing(staff: Any, project: Project) -> None:
    other = staff("view_agent")
    for row, names in ((project, ("export", "day")), (memory(project), ("count", "compare", "protected", "compact"))):
        for name in names:
            method = other.post if name in ("export", "count") else other.get
            assert method(page_of(row, name)).status_code == 403, name


def test_who_may_read_projects_alone_sees_no_texts_of_documents(staff: Any, project: Project) -> None:
    append_entry(project=project, document_name="MEMORY.md", text="Ask Mallory.", by=STRANGER, now=NOW)
    viewer = staff("view_project")
    shown = viewer.get(page_of(project)).content.decode()
    assert "Mallory" not in shown and "export-form" not in shown
    assert viewer.post(page_of(project, "export")).status_code == 403


@pytest.mark.parametrize("text", ["抹茶の話。\n" * 17_000, "x" * 100_000, f'{SCRIPT} "&" {RTL}\n' * 3_000])
def test_long_texts_stay_usable(boss: Client, project: Project, text: str) -> None:
    text = text[:100_000]
    document = put_document(project=project, name="detail-long.md", text=text, by=BY, now=NOW)
    put_document(project=project, name="detail-long.md", text=f"{text[:-10]}another", by=BY, now=NOW)
    addresses = [page_of(document), page_of(project), page_of(document, "protected"), page_of(document, "compare")]
    for address in addresses:
        with CaptureQueriesContext(connection) as queries:
            answer = boss.get(address)
        shown = answer.content.decode()
        assert answer.status_code == 200 and SCRIPT not in shown
        assert len(answer.content) <= MOST_BYTES, address
        assert len(queries) <= MOST_QUERIES, address
    assert "another" in boss.get(page_of(document, "compare")).content.decode()
    whole = boss.get(page_of(document), {"whole": "1"})
    values = form_of(whole)
    changed = boss.post(f"{page_of(document)}?whole=1", {**values, "text": values["text"] + "!"})
    assert changed.status_code == 302
    document.refresh_from_db()
    assert document.text.endswith("another!")


def test_pages_ask_as_often_for_many_rows(boss: Client, project: Project) -> None:
    def asked() -> list[int]:
        numbers = []
        for address in (page_of(project), page_of(memory(project)), page_of(project, "day")):
            with CaptureQueriesContext(connection) as queries:
                assert boss.get(address).status_code == 200
            numbers.append(len(queries))
        return numbers

    append_entry(project=project, document_name="decisions.md", text="First.", by=STRANGER, now=NOW)
    append_entry(project=project, document_name="MEMORY.md", text="First.", by=STRANGER, now=NOW)
    asked()
    before = asked()
    for number in range(12):
        append_entry(project=project, document_name=f"detail-{number}.md", text="More.", by=STRANGER, now=NOW)
        write(project, f"# Tea {number}\n\n- First.\n", kind=DocumentKind.COMPACTION)
    assert asked() == before and max(before) <= MOST_QUERIES


def test_lists_lead_to_the_pages(boss: Client, project: Project) -> None:
    for name, row in (("project", project), ("document", memory(project))):
        listed = boss.get(reverse(f"admin:summaries_{name}_changelist")).content.decode()
        assert page_of(row) in listed
