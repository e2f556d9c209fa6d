"""Archive, merge, move, delete and undo of projects: random sequences against a model, over REST, and by jobs."""

from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from rest_framework.test import APIClient

from conversations.actions.messages import add_messages
from conversations.domain.messages import NewMessage, Role
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import Scope, command
from memoryhub.tenancy.policy import Trust
from summaries.actions.corrections import correct_routing
from summaries.actions.documents import append_entry
from summaries.actions.entries import trusted_texts
from summaries.actions.project_lifecycle import (
    DELETED_RETENTION,
    NotUndoable,
    archive_project,
    due_for_purge,
    merge_projects,
    move_entries,
    reactivate_project,
    undo_event,
)
from summaries.actions.projects import (
    ProjectArchived,
    active_project,
    catalog_of,
    create_project,
    delete_project,
    documents_of,
    purge_document,
    purge_project,
)
from summaries.actions.routing import corrections_of
from summaries.domain.documents import line_digest
from summaries.models import Document, Project, ProjectEvent, RoutingDecision
from tests.conftest import client_with_key
from tests.examples import examples
from tests.integration.summaries.conftest import open_talk

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
ASKED = "?agent_id=kana&user_id=hiroki"
BY = command("test")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

# Against a model

NAMES = ("amber", "birch", "cedar", "delta")
DOCUMENTS = ("MEMORY.md", "decisions.md", "timeline.md")
STEPS = 20
LINES = ("roses", "an elder by the gate", "柚子の木", "no bamboo")


@dataclass
class ModelledProject:
    """Lines by document, with whether they wait for approval; the state, and the project that it is part of."""

    lines: dict[str, dict[str, bool]] = field(default_factory=lambda: {each: {} for each in DOCUMENTS})
    is_archived: bool = False
    is_deleted: bool = False
    part_of: str | None = None

    @property
    def is_active(self) -> bool:
        return not self.is_archived and not self.is_deleted


@dataclass
class ModelledEvent:
    """A merge, move or deletion, with what it added, took away and vouched for."""

    kind: str
    source: str
    into: str = ""
    added: list[tuple[str, str]] = field(default_factory=list)
    vouched: list[tuple[str, str]] = field(default_factory=list)
    taken: dict[tuple[str, str], bool] = field(default_factory=dict)
    followers: list[str] = field(default_factory=list)


project_names, document_names = st.sampled_from(NAMES), st.sampled_from(DOCUMENTS)


class Life(RuleBasedStateMachine):
    """Projects of one user, changed at random; the model knows sets of lines and who is part of whom."""

    @initialize()
    def begin(self) -> None:
        self.undone_later = transaction.atomic()
        self.undone_later.__enter__()
        self.actor = actor_for_writing(BY, "kana", "hiroki", now=NOW)
        self.model: dict[str, ModelledProject] = {}
        self.events: list[tuple[ProjectEvent, ModelledEvent]] = []
        self.corrected: dict[str, str] = {}
        for name in NAMES:
            create_project(actor=self.actor, name=name, description=f"Garden {name}.", by=BY, now=NOW)
            self.model[name] = ModelledProject()

    def teardown(self) -> None:
        if hasattr(self, "undone_later"):
            transaction.set_rollback(True)
            self.undone_later.__exit__(None, None, None)

    def row(self, name: str) -> Project:
        return Project.objects.get(actor=self.actor, name=name)

    def event(self, kind: str) -> ProjectEvent:
        return ProjectEvent.objects.filter(kind=kind).latest("id")

    @rule(name=project_names, document=document_names, line=st.sampled_from(LINES), waits=st.booleans())
    def append(self, name: str, document: str, line: str, waits: bool) -> None:
        project, text = self.model[name], f"2026-01-0{len(line) % 9 + 1}: {line}"
        trust = Trust.UNTRUSTED if waits else Trust.TRUSTED

        def appended() -> None:
            append_entry(project=self.row(name), document_name=document, text=text, trust=trust, by=BY, now=NOW)

        if project.is_active:
            appended()
            lines = project.lines[document]
            lines[text] = lines.get(text, True) and waits
        elif not project.is_deleted and text not in project.lines[document]:
            with pytest.raises(ProjectArchived):
                appended()

    @rule(name=project_names)
    def archive_and_reactivate(self, name: str) -> None:
        project = self.model[name]
        if project.is_deleted:
            return
        if project.part_of is not None:
            with pytest.raises(ProjectArchived):
                reactivate_project(project=self.row(name), by=BY, now=NOW)
        elif project.is_archived:
            reactivate_project(project=self.row(name), by=BY, now=NOW)
            project.is_archived = False
        else:
            archive_project(project=self.row(name), by=BY, now=NOW)
            project.is_archived = True

    @rule(name=project_names)
    def correct(self, name: str) -> None:
        if self.model[name].is_active:
            message = f"message {len(self.corrected)}"
            decision = RoutingDecision.objects.create(
                actor=self.actor, message=message, channel="api", confidence="low", action="ask", created_at=NOW
            )
            correct_routing(decision=decision, project_name=name, by=BY, now=NOW)
            self.corrected[message] = name

    @rule(source=project_names, into=project_names, at_once=st.booleans())
    def merge(self, source: str, into: str, at_once: bool) -> None:
        one, other = self.model[source], self.model[into]
        if source == into or not one.is_active or not other.is_active:
            return
        before = deepcopy(self.model), self.texts()
        preview = merge_projects(source=self.row(source), into=self.row(into), by=BY, now=NOW, dry_run=True)
        assert self.texts() == before[1]
        done = merge_projects(source=self.row(source), into=self.row(into), by=BY, now=NOW)
        assert (preview.documents, preview.corrections) == (done.documents, done.corrections)
        event = ModelledEvent("merge", source, into)
        for document, lines in one.lines.items():
            self.add(event, other, document, lines)
        event.followers = [name for name, each in self.model.items() if each.part_of == source]
        for name in (source, *event.followers):
            self.model[name].part_of = into
        one.is_archived = True
        self.done(event, before, at_once)

    @rule(source=project_names, into=project_names, document=document_names, data=st.data(), at_once=st.booleans())
    def move(self, source: str, into: str, document: str, data: Any, at_once: bool) -> None:
        one, other = self.model[source], self.model[into]
        lines = one.lines[document]
        if source == into or not lines or not one.is_active or not other.is_active:
            return
        chosen = data.draw(st.lists(st.sampled_from(sorted(lines)), min_size=1, unique=True))
        before = deepcopy(self.model), self.texts()
        digests = {document: [line_digest(line) for line in chosen]}
        move_entries(source=self.row(source), lines=digests, into=self.row(into), by=BY, now=NOW)
        event = ModelledEvent("move", source, into)
        self.add(event, other, document, {line: lines[line] for line in chosen})
        event.taken = {(document, line): lines.pop(line) for line in chosen}
        self.done(event, before, at_once)

    @rule(name=project_names)
    def delete(self, name: str) -> None:
        if not self.model[name].is_deleted:
            delete_project(project=self.row(name), by=BY, now=NOW)
            self.model[name].is_deleted = True
            self.events.append((self.event("delete"), ModelledEvent("delete", name)))

    def add(self, event: ModelledEvent, into: ModelledProject, document: str, lines: dict[str, bool]) -> None:
        for line, waits in lines.items():
            had = into.lines[document]
            if line not in had:
                event.added.append((document, line))
                had[line] = waits
            elif had[line] and not waits:
                event.vouched.append((document, line))
                had[line] = False

    def done(self, event: ModelledEvent, before: tuple[Any, Any], at_once: bool) -> None:
        """Keep an event to undo it some time, or undo it at once, which leaves no trace in any text."""
        row = self.event(event.kind)
        if not at_once:
            self.events.append((row, event))
            return
        undo_event(event=row, by=BY, now=NOW)
        self.model = before[0]
        assert self.texts() == before[1]

    @rule(data=st.data())
    def undo(self, data: Any) -> None:
        if not self.events:
            return
        row, event = data.draw(st.sampled_from(self.events), label="event")
        one, other = self.model[event.source], self.model.get(event.into)
        if other is not None and (one.is_deleted or not other.is_active or (event.kind == "move" and one.is_archived)):
            with pytest.raises(NotUndoable):
                undo_event(event=row, by=BY, now=NOW)
            return
        undo_event(event=row, by=BY, now=NOW)
        self.events.remove((row, event))
        if other is None:
            one.is_deleted = False
            return
        for document, line in event.added:
            other.lines[document].pop(line, None)
        for document, line in event.vouched:
            if line in other.lines[document]:
                other.lines[document][line] = True
        for (document, line), waits in event.taken.items():
            one.lines[document].setdefault(line, waits)
        if event.kind == "merge":
            one.is_archived, one.part_of = False, None
            for name in event.followers:
                if self.model[name].part_of == event.into:
                    self.model[name].part_of = event.source

    def texts(self) -> dict[tuple[str, str], str]:
        rows = Document.objects.of(self.actor.pk).values_list("project__name", "name", "text")
        return {(project, name): text for project, name, text in rows}

    @invariant()
    def lines_are_those_of_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        rows = Project.objects.filter(actor=self.actor)
        found = {(row.name, each.name): each for row in rows for each in documents_of(row)}
        trusted = trusted_texts([*found.values()])
        for name, project in self.model.items():
            for document, lines in project.lines.items():
                row = found.get((name, document))
                assert entries_in(row.text if row else "") == sorted(lines), (name, document)
                believed = sorted(line for line, waits in lines.items() if not waits)
                assert entries_in(trusted[row.pk] if row else "") == believed, (name, document)

    @invariant()
    def catalog_and_names_are_those_of_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        active = [name for name, each in self.model.items() if each.is_active]
        listed = [line.split("**")[1] for line in catalog_of(actor_id=self.actor.pk).splitlines()]
        assert listed == active
        for name, each in self.model.items():
            found, part_of = active_project(actor_id=self.actor.pk, name=name), each.part_of or name
            is_found = not each.is_deleted and self.model[part_of].is_active
            assert (found.name if found else None) == (part_of if is_found else None)
        counted = {each.message: each.project for each in corrections_of(self.actor, Trust.TRUSTED)}
        expected = {
            message: self.model[name].part_of or name
            for message, name in self.corrected.items()
            if not self.model[name].is_deleted
        }
        assert counted == expected


def entries_in(text: str) -> list[str]:
    return sorted(line.removeprefix("- ") for line in text.splitlines() if line.startswith("- "))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.django_db
def test_any_life_is_that_of_the_model() -> None:
    # A sequence takes half a second, so what fails is shown as it was found.
    settings = hypothesis_settings(
        max_examples=examples(150),
        stateful_step_count=STEPS,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Life, settings=settings)


# Over REST


@pytest.fixture
def garden(client: APIClient) -> APIClient:
    """Return a client whose user has two projects with documents of the same names."""
    for name in ("garden", "roses"):
        client.post(f"{API}/projects", {**WHO, "name": name, "description": f"About the {name}."})
        client.post(
            f"{API}/projects/{name}/documents/timeline.md/entries{ASKED}",
            {"text": f"2026-02-0{len(name)}: {name} begun"},
        )
        client.post(f"{API}/projects/{name}/documents/decisions.md/entries{ASKED}", {"text": "no bamboo"})
    client.put(f"{API}/projects/roses/documents/detail-soil.md{ASKED}", {"text": "# Soil\n\n- loam\n"})
    return client


def texts_of(client: APIClient, name: str) -> dict[str, str]:
    listed = client.get(f"{API}/projects/{name}{ASKED}").json()["documents"]
    at = f"{API}/projects/{name}/documents"
    return {each["name"]: client.get(f"{at}/{each['name']}{ASKED}").json()["text"] for each in listed}


def test_archived_project_is_out_of_catalog_and_contexts_and_kept_whole(garden: APIClient) -> None:
    before = texts_of(garden, "roses")
    archived = garden.post(f"{API}/projects/roses/archive{ASKED}", {"reason": "done"})
    assert (archived.status_code, archived.json()["status"]) == (200, "archived")
    assert "roses" not in garden.get(f"{API}/projects/catalog{ASKED}").content.decode()
    names = {
        status: [each["name"] for each in garden.get(f"{API}/projects{ASKED}&status={status}").json()["results"]]
        for status in ("active", "archived", "deleted", "all")
    }
    assert names == {"active": ["garden"], "archived": ["roses"], "deleted": [], "all": ["garden", "roses"]}
    asked = garden.post(f"{API}/context", {**WHO, "message": "loam?", "project": "roses"}).json()
    assert asked["metadata"]["project"] is None and "- loam" not in str(asked["messages"])
    refused = garden.put(f"{API}/projects/roses/documents/MEMORY.md{ASKED}", {"text": "x"})
    assert (refused.status_code, refused.json()["code"]) == (409, "project_archived")
    assert garden.post(f"{API}/projects/roses/reactivate{ASKED}", {}).json()["status"] == "active"
    assert texts_of(garden, "roses") == before
    assert "loam" in str(garden.post(f"{API}/context", {**WHO, "message": "loam?", "project": "roses"}).json())


def test_merge_is_previewed_done_and_undone(garden: APIClient) -> None:
    before = texts_of(garden, "garden")
    at = f"{API}/projects/roses/merge{ASKED}"
    preview = garden.post(at, {"into": "garden", "dry_run": True}).json()
    assert texts_of(garden, "garden") == before and preview["event_id"] is None
    done = garden.post(at, {"into": "garden", "reason": "the same thing"}).json()
    assert done["documents"] == preview["documents"]
    changes = {each["name"]: (each["added"], each["repeated"], each["is_new"]) for each in done["documents"]}
    assert changes == {
        "MEMORY.md": (1, 0, False),
        "decisions.md": (0, 1, False),
        "timeline.md": (1, 0, False),
        "detail-soil.md": (1, 0, True),
    }
    after = texts_of(garden, "garden")
    assert after["MEMORY.md"] == "# garden\n\n> About the garden.\n\n## roses\n\nAbout the roses.\n"
    assert after["timeline.md"] == "- 2026-02-05: roses begun\n- 2026-02-06: garden begun\n"
    entries = garden.get(f"{API}/projects/garden/documents/timeline.md/entries{ASKED}").json()["results"]
    assert {each["text"] for each in entries} == set(after["timeline.md"].splitlines())
    merged = garden.get(f"{API}/projects/roses{ASKED}").json()
    assert (merged["status"], merged["merged_into"]) == ("archived", "garden")
    refused = garden.post(f"{API}/projects/roses/reactivate{ASKED}", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "project_archived")
    asked = garden.post(f"{API}/context", {**WHO, "message": "roses?", "project": "roses"}).json()
    assert "roses begun" in str(asked["messages"])
    garden.post(f"{API}/projects/garden/documents/timeline.md/entries{ASKED}", {"text": "2026-02-09: fence painted"})
    undone = garden.post(f"{API}/projects/events/{done['event_id']}/undo", {})
    assert (undone.status_code, undone.json()["status"]) == (200, "active")
    assert texts_of(garden, "garden") == {
        **before,
        "timeline.md": before["timeline.md"] + "- 2026-02-09: fence painted\n",
    }
    again = garden.post(f"{API}/projects/events/{done['event_id']}/undo", {})
    assert (again.status_code, again.json()["code"]) == (409, "not_undoable")


def test_lines_move_to_a_new_project_and_back(garden: APIClient) -> None:
    before = texts_of(garden, "roses")
    at = f"{API}/projects/roses/documents/detail-soil.md/move{ASKED}"
    unknown = garden.post(at, {"lines": ["- sand"], "into": "garden"})
    assert (unknown.status_code, unknown.json()["code"]) == (409, "nothing_to_move")
    body = {"lines": ["- loam"], "into": "soil", "new_project": True, "document": "decisions.md"}
    assert garden.post(at, {**body, "dry_run": True}).status_code == 200
    assert garden.get(f"{API}/projects/soil{ASKED}").status_code == 404
    done = garden.post(at, body)
    assert done.status_code == 200, done.content
    assert texts_of(garden, "soil") == {"MEMORY.md": "# soil\n\n", "decisions.md": "- loam\n"}
    assert texts_of(garden, "roses")["detail-soil.md"] == "# Soil\n\n"
    garden.post(f"{API}/projects/events/{done.json()['event_id']}/undo", {})
    assert texts_of(garden, "roses") == before
    assert garden.get(f"{API}/projects/soil{ASKED}").status_code == 404


def test_deletion_needs_curate_and_can_be_undone_for_a_month(garden: APIClient) -> None:
    writer = client_with_key(scopes=[Scope.READ, Scope.WRITE])
    assert writer.delete(f"{API}/projects/roses{ASKED}").status_code == 403
    before = texts_of(garden, "roses")
    assert garden.delete(f"{API}/projects/roses{ASKED}").status_code == 204
    assert garden.get(f"{API}/projects/roses{ASKED}").status_code == 404
    event = garden.get(f"{API}/projects/events{ASKED}&kind=delete").json()["results"][0]
    assert event["undoable"] and "undo" not in event
    garden.post(f"{API}/projects", {**WHO, "name": "roses"})
    taken = garden.post(f"{API}/projects/events/{event['id']}/undo", {})
    assert (taken.status_code, taken.json()["code"]) == (409, "project_exists")
    garden.patch(f"{API}/projects/roses{ASKED}", {"name": "other-roses"})
    assert garden.post(f"{API}/projects/events/{event['id']}/undo", {}).status_code == 200
    assert texts_of(garden, "roses") == before
    garden.delete(f"{API}/projects/roses{ASKED}")
    project = Project.objects.get(name="roses")
    assert due_for_purge(now=project.deleted_at + DELETED_RETENTION - timedelta(seconds=1)) == []
    (purge,) = due_for_purge(now=project.deleted_at + DELETED_RETENTION)
    assert purge.keywords == {"project": project}
    purge_project(project=project)
    late = garden.get(f"{API}/projects/events{ASKED}&kind=delete").json()["results"][0]
    assert not late["undoable"]
    gone = garden.post(f"{API}/projects/events/{late['id']}/undo", {})
    assert (gone.status_code, gone.json()["code"]) == (409, "not_undoable")


def test_deleted_document_comes_back_whole_for_a_month(garden: APIClient) -> None:
    at, listed = (f"{API}/projects/roses/documents/decisions.md{ASKED}", f"{API}/projects/events{ASKED}&kind=delete")
    writer = client_with_key(scopes=[Scope.READ, Scope.WRITE])
    assert writer.delete(at).status_code == 403
    before = texts_of(garden, "roses")
    entries = garden.get(at.replace("?", "/entries?")).json()["results"]
    assert garden.delete(at).status_code == 204
    assert garden.get(at).status_code == 404
    assert texts_of(garden, "roses") == {name: text for name, text in before.items() if name != "decisions.md"}
    asked = {**WHO, "message": "What was decided?", "project": "roses"}
    assert "bamboo" not in str(garden.post(f"{API}/context", asked).json()["messages"][0])
    event = garden.get(listed).json()["results"][0]
    garden.put(at, {"text": "another\n"})
    taken = garden.post(f"{API}/projects/events/{event['id']}/undo", {})
    assert (taken.status_code, taken.json()["code"]) == (409, "not_undoable")
    assert garden.delete(at).status_code == 204
    assert garden.post(f"{API}/projects/events/{event['id']}/undo", {}).status_code == 200
    assert texts_of(garden, "roses") == before
    assert garden.get(at.replace("?", "/entries?")).json()["results"] == entries
    gone = Document.objects.exclude(deleted_at=None).get()
    assert gone.text == "another\n" and gone.deleted_at is not None
    assert due_for_purge(now=gone.deleted_at + DELETED_RETENTION - timedelta(seconds=1)) == []
    (purge,) = due_for_purge(now=gone.deleted_at + DELETED_RETENTION)
    assert purge.keywords == {"document": gone}
    event = garden.get(listed).json()["results"][0]
    purge_document(document=gone)
    late = garden.post(f"{API}/projects/events/{event['id']}/undo", {})
    assert (late.status_code, late.json()["code"]) == (409, "not_undoable")
    assert texts_of(garden, "roses") == before


def test_document_of_a_deleted_or_archived_project_comes_back_after_it(garden: APIClient) -> None:
    garden.delete(f"{API}/projects/roses/documents/detail-soil.md{ASKED}")
    event = garden.get(f"{API}/projects/events{ASKED}&kind=delete").json()["results"][0]
    garden.post(f"{API}/projects/roses/archive{ASKED}", {})
    refused = garden.post(f"{API}/projects/events/{event['id']}/undo", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "project_archived")
    garden.post(f"{API}/projects/roses/reactivate{ASKED}", {})
    garden.delete(f"{API}/projects/roses{ASKED}")
    refused = garden.post(f"{API}/projects/events/{event['id']}/undo", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_undoable")


# After a correction


def test_what_a_wrong_decision_caused_is_proposed_and_moved(db: None) -> None:
    talk = open_talk()
    client, who = client_with_key(), f"?agent_id=kana&user_id={talk.actor.user_id}"
    for name in ("billing-api", "mobile-app"):
        create_project(actor=talk.actor, name=name, description="", by=BY, now=NOW)

    def said(text: str, minute: int) -> str:
        at = NOW + timedelta(minutes=minute)
        add_messages(session=talk.session, batch=[NewMessage(role=Role.USER, content=text)], by=BY, now=at)
        talk.session.refresh_from_db()
        return str(talk.session.messages.latest("seq").pk)

    def decided(name: str, minute: int) -> RoutingDecision:
        return RoutingDecision.objects.create(
            actor=talk.actor,
            session=talk.session,
            message="m",
            channel="web",
            confidence="medium",
            action="route_and_disclose",
            project=Project.objects.get(name=name),
            created_at=NOW + timedelta(minutes=minute),
        )

    def written(text: str, message: str, minute: int) -> None:
        append_entry(
            project=Project.objects.get(name="billing-api"),
            document_name="decisions.md",
            text=text,
            by=BY,
            sources={"message_ids": [message], "channel": "web"},
            now=NOW + timedelta(minutes=minute),
        )

    first = said("The invoice is wrong.", 0)
    written("invoices are checked", first, 1)
    wrong = decided("billing-api", 2)
    written("the button is blue", said("Make the button blue.", 3), 4)
    decided("billing-api", 5)
    written("the icon is round", said("And a round icon.", 6), 7)
    decided("mobile-app", 8)
    decided("billing-api", 9)
    written("taxes are added", said("Add the taxes.", 10), 11)
    at = f"{API}/projects/routes/{wrong.pk}"
    assert client.get(f"{at}/misplaced").json()["results"] == []
    client.post(f"{at}/correct", {"project": "mobile-app"})
    proposed = client.get(f"{at}/misplaced").json()["results"]
    assert [each["text"] for each in proposed] == ["- the button is blue", "- the icon is round"]
    assert client_with_key(scopes=[Scope.WRITE]).post(f"{at}/misplaced", {}).status_code == 403
    client.post(f"{at}/misplaced", {"entry_ids": [proposed[1]["id"]]})
    assert client.post(f"{at}/misplaced", {}).json()["documents"][0]["added"] == 1
    moved = client.get(f"{API}/projects/mobile-app/documents/decisions.md{who}").json()["text"]
    assert moved == "- the icon is round\n- the button is blue\n"
    kept = client.get(f"{API}/projects/billing-api/documents/decisions.md{who}").json()["text"]
    assert kept == "- invoices are checked\n- taxes are added\n"
    assert client.post(f"{at}/misplaced", {}).json()["code"] == "nothing_to_move"
