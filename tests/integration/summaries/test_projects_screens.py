"""Screens of projects: what curators see and can do."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import Principal, PrincipalKind, command
from summaries.actions.documents import append_entry, write_document
from summaries.actions.entries import trusted_text
from summaries.actions.projects import create_project
from summaries.actions.routing import route_message
from summaries.domain.documents import DocumentKind, line_digest
from summaries.models import Document, Project, ProjectEvent, RoutingDecision
from tests.integration.summaries.conftest import open_talk

BY = command("test")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCRIPT = "<script>alert(1)</script>"
CURATES = [f"{verb}_{model}" for model in ("project", "document", "routingdecision") for verb in ("view", "change")] + [
    "delete_project",
    "view_projectevent",
]


@pytest.fixture
def project(db: None) -> Project:
    """Return a project with a document that was changed, an entry that nobody believes, and a decision."""
    actor = actor_for_writing(BY, "kana", "hiroki", now=NOW)
    made = create_project(actor=actor, name="tea-shop", description=f"Tea {SCRIPT}", by=BY, now=NOW)
    create_project(actor=actor, name="coffee-bar", description="Espresso.", by=BY, now=NOW)
    memory = Document.objects.get(project=made, name="MEMORY.md")
    write_document(
        document=memory,
        text=f"# Tea\n\n> Tea {SCRIPT}\n\nWe sell sencha.\n",
        kind=DocumentKind.EDIT,
        by=BY,
        reason="More.",
        now=NOW,
    )
    stranger = Principal(kind=PrincipalKind.KEY, id="k", name="inbox", is_trusted=False)
    append_entry(project=made, document_name="MEMORY.md", text="Ask Mallory.", by=stranger, now=NOW)
    route_message(actor=actor, message=f"Is the sencha {SCRIPT} sold?", channel="slack", by=BY, now=NOW)
    return made


def browser(*codenames: str) -> Client:
    user = User.objects.create_user("kei", password="a long password", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


def page(row: Any, what: str = "change") -> str:
    return reverse(f"admin:summaries_{row._meta.model_name}_{what}", args=[row.pk])


def rows() -> list[Any]:
    return [
        Project.objects.get(name="tea-shop"),
        Document.objects.get(project__name="tea-shop"),
        RoutingDecision.objects.get(),
        ProjectEvent.objects.filter(kind="route").get(),
    ]


def test_every_page_opens_for_curators_and_shows_texts_as_texts(project: Project) -> None:
    curator = browser(*CURATES)
    for row in rows():
        listed = reverse(f"admin:summaries_{row._meta.model_name}_changelist")
        for address in (listed, page(row)):
            answer = curator.get(address)
            assert answer.status_code == 200, address
            assert SCRIPT not in answer.content.decode()


def test_pages_stay_closed_to_others(project: Project) -> None:
    other = browser("view_agent")
    for row in rows():
        assert other.get(page(row)).status_code == 403


def test_who_may_only_look_changes_nothing(project: Project) -> None:
    viewer = browser(*(name for name in CURATES if name.startswith("view")))
    decision, document = RoutingDecision.objects.get(), Document.objects.get(project=project)
    for address, values in (
        (page(document, "restore"), {"number": 1}),
        (page(document, "believe"), {}),
        (page(decision, "correct"), {"project": "tea-shop"}),
    ):
        assert viewer.post(address, values).status_code == 403
    assert RoutingDecision.objects.get().corrected_project is None
    assert "correct-form" not in viewer.get(page(decision)).content.decode()


def test_decision_is_put_right_with_one_click(project: Project) -> None:
    curator, decision = browser(*CURATES), RoutingDecision.objects.get()
    shown = curator.get(page(decision)).content.decode()
    assert 'value="coffee-bar"' in shown
    assert curator.get(page(decision, "correct")).status_code == 405
    curator.post(page(decision, "correct"), {"project": "coffee-bar", "reason": "It is about coffee."})
    decision.refresh_from_db()
    assert decision.corrected_project is not None and decision.corrected_project.name == "coffee-bar"
    assert decision.corrected_by == "kei"
    assert AuditEntry.objects.get(verb="correct").reason == "It is about coffee."


def test_unknown_project_is_told(project: Project) -> None:
    curator, decision = browser(*CURATES), RoutingDecision.objects.get()
    answer = curator.post(page(decision, "correct"), {"project": "no\x00where"}, follow=True)
    assert "No project of this name" in answer.content.decode()


def test_click_needs_its_token(project: Project) -> None:
    user = User.objects.create_superuser("boss", password="a long password")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    assert strict.post(page(RoutingDecision.objects.get(), "correct"), {"project": "tea-shop"}).status_code == 403


def test_document_shows_tokens_versions_and_what_changed(project: Project) -> None:
    document = Document.objects.get(project=project)
    curator = browser(*CURATES)
    shown = curator.get(page(document)).content.decode()
    assert f">{document.token_count}<" in shown or str(document.token_count) in shown
    assert 'id="version-1"' in shown and 'id="version-2"' in shown and "More." in shown
    changed = curator.get(page(document, "compare"), {"from": 1, "to": 2}).content.decode()
    assert "<ins" in changed and "sencha" in changed


def test_document_is_edited_through_the_action(project: Project) -> None:
    curator, document = browser(*CURATES), Document.objects.get(project=project)
    edit = {"text": "# Tea\r\n\r\n> Only tea.\r\n", "expected_version": document.version, "reason": "Shorter."}
    assert curator.post(page(document), edit).status_code == 302
    document.refresh_from_db()
    assert document.text == "# Tea\n\n> Only tea.\n"
    project.refresh_from_db()
    assert project.description == "Only tea."
    stale = curator.post(page(document), {**edit, "text": "# Other"})
    assert stale.status_code == 200 and "changed while you edited" in stale.content.decode()


def test_former_text_is_restored(project: Project) -> None:
    curator, document = browser(*CURATES), Document.objects.get(project=project)
    curator.post(page(document, "restore"), {"number": 1, "version": document.version})
    document.refresh_from_db()
    assert "sencha" not in document.text
    for number in ("99", "x"):
        told = curator.post(page(document, "restore"), {"number": number}, follow=True)
        assert "version" in told.content.decode()


def test_entries_are_believed(project: Project) -> None:
    curator, document = browser(*CURATES), Document.objects.get(project=project)
    assert "Mallory" not in trusted_text(document)
    waiting = curator.get(page(document)).context["entries"]["groups"]
    curator.post(page(document, "believe"), {"entries": waiting[0]["ids"], "reason": "I asked."})
    assert "Mallory" in trusted_text(document)


def test_project_is_renamed_described_and_deleted(project: Project) -> None:
    curator = browser(*CURATES)
    values = {"name": "uji tea", "description": "Tea of Uji.", "expected_version": project.version}
    wrong = curator.post(page(project), values)
    assert wrong.status_code == 200 and "uji-tea" in wrong.content.decode()
    taken = curator.post(page(project), {**values, "name": "coffee-bar"})
    assert "already" in taken.content.decode()
    project.refresh_from_db()
    done = {**values, "name": "uji-tea", "expected_version": project.version}
    assert curator.post(page(project), done).status_code == 302
    project.refresh_from_db()
    assert (project.name, project.description) == ("uji-tea", "Tea of Uji.")
    curator.post(page(project, "delete"), {"post": "yes"})
    assert not Project.objects.not_deleted().filter(name="uji-tea").exists()


def test_many_are_deleted_from_the_list(project: Project) -> None:
    chosen = list(Project.objects.values_list("pk", flat=True))
    values = {"action": "delete_selected", "_selected_action": chosen, "post": "yes"}
    browser(*CURATES).post(reverse("admin:summaries_project_changelist"), values)
    assert not Project.objects.not_deleted().exists()
    assert ProjectEvent.objects.filter(kind="delete").count() == 2


@pytest.mark.parametrize("name", ["project", "document", "routingdecision", "projectevent"])
def test_lists_ask_as_often_for_many_rows(project: Project, name: str) -> None:
    curator = browser(*CURATES)
    address = reverse(f"admin:summaries_{name}_changelist")

    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert curator.get(address).status_code == 200
        return len(queries)

    before = asked()
    for number in range(5):
        made = create_project(actor=project.actor, name=f"p-{number}", description="x", by=BY, now=NOW)
        route_message(actor=made.actor, message=f"m {number}", channel="slack", by=BY, now=NOW)
    assert asked() == before


def test_project_is_made_archived_merged_and_brought_back(project: Project) -> None:
    curator = browser(*CURATES, "add_project", "view_agent")
    made = {"agent": "kana", "user_id": "hiroki", "name": "お茶", "description": "Green tea."}
    add = reverse("admin:summaries_project_add")
    refused = curator.post(add, made)
    assert refused.status_code == 200 and "It could be called" in refused.content.decode()
    assert curator.post(add, {**made, "name": "green-tea"}).status_code == 302
    tea = Project.objects.get(name="green-tea")
    assert "green-tea was created." in curator.get(page(tea)).content.decode()
    curator.post(page(tea, "archive"))
    listing = reverse("admin:summaries_project_changelist")
    shown = curator.get(page(tea)).content.decode()
    assert "read-only" in shown and "reactivate-form" in shown and 'name="_save"' not in shown
    assert str(tea.pk) not in curator.get(f"{listing}?status=active").content.decode()
    curator.post(page(tea, "reactivate"))
    preview = curator.get(page(tea, "merge"), {"into": "tea-shop"}).content.decode()
    assert "1 line is added" in preview and Project.objects.get(pk=tea.pk).archived_at is None
    curator.post(page(tea, "merge"), {"into": "tea-shop"})
    tea.refresh_from_db()
    assert tea.merged_into == project and "Green tea." in Document.objects.get(project=project).text
    assert "was merged into" in curator.get(page(tea)).content.decode()
    event = ProjectEvent.objects.get(kind="merge")
    assert f"event={event.pk}" in curator.get(page(project)).content.decode()
    curator.post(f"{page(project, 'undo')}?event={event.pk}")
    tea.refresh_from_db()
    assert tea.archived_at is None and "Green tea." not in Document.objects.get(project=project).text
    gone = curator.post(page(tea, "delete"), {"post": "yes"}, follow=True).content.decode()
    assert "can be brought back" in gone
    assert str(tea.pk) not in curator.get(listing).content.decode()
    assert str(tea.pk) in curator.get(f"{listing}?status=deleted").content.decode()
    deleted = ProjectEvent.objects.get(kind="delete")
    curator.post(f"{page(tea, 'undo')}?event={deleted.pk}")
    assert Project.objects.not_deleted().filter(pk=tea.pk).exists()


def test_lines_are_chosen_and_moved_and_who_may_not_end_projects_moves_none(project: Project) -> None:
    memory = Document.objects.get(project=project)
    curator = browser(*CURATES)
    shown = curator.get(page(memory, "move")).content.decode()
    assert "We sell sencha." in shown and SCRIPT not in shown
    digest = line_digest("We sell sencha.").hex()
    curator.post(page(memory, "move"), {"line": [digest, "no digest"], "into": "coffee-bar"})
    moved = Document.objects.get(project__name="coffee-bar", name="MEMORY.md")
    assert "We sell sencha." in moved.text
    curator.logout()
    User.objects.all().delete()
    reader = browser("view_project", "view_document", "change_document")
    assert reader.get(page(memory, "move")).status_code == 403
    for what in ("archive", "merge", "undo"):
        assert reader.post(page(project, what)).status_code == 403


def test_what_was_written_wrongly_is_offered_with_the_correction(project: Project) -> None:
    talk = open_talk("The roast is too dark.")
    wrong = RoutingDecision.objects.create(
        actor=talk.actor,
        session=talk.session,
        message="m",
        channel="web",
        confidence="medium",
        action="route_and_disclose",
        project=project,
        created_at=NOW - timedelta(hours=1),
    )
    message = talk.session.messages.get()
    append_entry(
        project=project,
        document_name="decisions.md",
        text="roast lighter",
        by=BY,
        sources={"message_ids": [str(message.pk)], "channel": "web"},
        now=NOW,
    )
    curator = browser(*CURATES)
    curator.post(page(wrong, "correct"), {"project": "coffee-bar"})
    shown = curator.get(page(wrong)).content.decode()
    assert "roast lighter" in shown and "Move to coffee-bar" in shown
    entry = Document.objects.get(project=project, name="decisions.md").entries.get()
    curator.post(page(wrong, "move_entries"), {"entry": [str(entry.pk)]})
    assert Document.objects.get(project__name="coffee-bar", name="decisions.md").text == "- roast lighter\n"


def test_preview_renders_markdown_and_no_html_of_the_text(project: Project) -> None:
    memory = Document.objects.get(project=project)
    text = f"# Tea\n\n- one\n\n{SCRIPT}\n\n![x](https://example.org/x.png) [y](javascript:alert(1))\n"
    shown = browser(*CURATES).post(page(memory, "preview"), {"text": text}).content.decode()
    assert "<h1>Tea</h1>" in shown and "<li>one</li>" in shown
    assert "<script" not in shown and "<img" not in shown and 'href="javascript' not in shown
