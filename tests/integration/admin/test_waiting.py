"""Kinds of rows that wait for a person: each state of each model is in the list, and each number can become 0."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from conversations.domain.messages import Role, TurnState
from memoryhub.admin.waiting import WAITING
from memoryhub.auth.models import TokenKind
from memoryhub.jobs.retries import State as JobState
from memoryhub.jobs.status import DatabaseCollector
from memoryhub.search.models import EmbeddingSpace
from memoryhub.tenancy.policy import Trust
from strength.actions.sleep import SleepRequest, sleep
from strength.actions.sleep_runs import preview_sleep
from strength.domain.memories import FeedChange, Kind, ScopeLevel, Source, Status, TombstoneReason
from strength.domain.sleep import MergeState, RunState, Trigger
from strength.models import Memory, SleepRun
from strength.models.task import READERS, TaskState
from summaries.actions.documents import append_entry, note_outcome, restore_document, write_document
from summaries.actions.entries import set_entry_trust, waiting_entries
from summaries.actions.projects import create_project
from summaries.domain.compaction import Outcome
from summaries.domain.documents import DocumentKind
from summaries.domain.projects import EventKind
from summaries.domain.routing import Action, Confidence
from summaries.models import DocumentEntry, RoutingDecision
from tests.integration.admin.conftest import BY, NOW, Hub, list_of, page_of
from tests.integration.admin.test_dashboard import page, tile, unsure

pytestmark = pytest.mark.usefixtures("one_day")

OWN_APPS: Final = ("memoryhub", "conversations", "summaries", "strength", "webhooks")

DO_NOT_WAIT: Final[dict[str, Any]] = {
    # Kinds and authors are no states.
    "*.who_kind": "any",
    "*.verb": "any",
    "AgentLimit.source": "any",
    "*.kind": [
        *Kind,
        *FeedChange,
        *DocumentKind,
        *EventKind,
        *TokenKind,
        "created",
        "used",
        "impact",
        "set",
        "slept",
        "now",
    ],
    "*.generator": "any",
    "*.role": Role,
    "*.language": "any",
    "*.source": Source,
    "*.scope_level": ScopeLevel,
    "*.trigger": Trigger,
    "*.strategy": READERS,
    "MemoryChange.change": FeedChange,
    "Tombstone.decision": TombstoneReason,
    # Decided, or nobody has to decide.
    "Memory.status": [Status.ACTIVE, Status.ARCHIVED, Status.REJECTED],
    "Expectation.state": ["kept"],
    "Endpoint.state": ["active"],
    "Merge.state": [MergeState.MERGED, MergeState.DISMISSED, MergeState.WITHDRAWN, MergeState.UNDONE],
    "RoutingDecision.confidence": [Confidence.HIGH, Confidence.MEDIUM],
    "DocumentEntry.trust": [Trust.TRUSTED],
    # The consequence of a confidence, which waits or not.
    "RoutingDecision.action": Action,
    # Where a text comes from; what is drawn from untrusted ones waits as a memory or an entry.
    "Message.trust": Trust,
    "MessageIndex.trust": Trust,
    "Memory.trust": Trust,
    "MemorySource.trust": Trust,
    "Task.trust": Trust,
    "Summary.trust": Trust,
    "SummaryVersion.trust": Trust,
    "SummaryDraft.trust": Trust,
    "RoutingDecision.trust": Trust,
    # Copies of a memory's.
    "MemoryIndex.status": Status,
    # Machines continue; what ended badly is in the dashboard's background and removed after a time.
    "Job.state": JobState,
    "EmbeddingSpace.state": EmbeddingSpace.State,
    "ChatTurn.state": TurnState,
    "SleepRun.state": RunState,
    "Task.state": TaskState,
}
"""States that wait for no person, with the reasons."""


def states() -> Iterator[tuple[str, str, str]]:
    """Yield each model, field and value of the fields with choices."""
    for model in apps.get_models():
        if model._meta.app_label in OWN_APPS:
            for field in model._meta.concrete_fields:
                for value, _label in field.flatchoices:
                    yield model.__name__, field.name, str(value)


def test_every_state_waits_in_the_list_or_is_known_not_to_wait() -> None:
    listed = {
        (kind.rows(timezone.now()).model.__name__, name, str(value))
        for kind in WAITING
        for name, values in kind.states.items()
        for value in values
    }
    known = {
        (model, name, value)
        for model, name, value in states()
        for values in [DO_NOT_WAIT.get(f"{model}.{name}", DO_NOT_WAIT.get(f"*.{name}", ()))]
        if values == "any" or value in map(str, values)
    }
    assert set(states()) - known - listed == set()
    with_choices = {(model, name) for model, name, _value in states()}
    assert {each for each in listed if each[:2] in with_choices} & known == set(), "waits, and does not"


@pytest.mark.parametrize("kind", WAITING, ids=lambda kind: str(kind.title))
def test_dashboard_and_list_of_each_kind_name_the_same_rows(kind: Any, boss: Client, hub: Hub) -> None:
    href = kind.tile(timezone.now()).href
    assert boss.get(href).status_code == 200
    assert kind.page or "?" in href, "a list of other rows too"
    assert any(str(each.title) == str(kind.title) for each in page(boss).context["tiles"])


def test_no_project_is_a_decision_that_empties_the_number_and_can_be_undone(boss: Client, hub: Hub) -> None:
    decision, old = unsure(hub), unsure(hub, created_at=timezone.now() - timedelta(days=31))
    waiting = tile(boss, "Uncertain routings")
    assert waiting.figure.number == 1
    listed = boss.get(waiting.href)
    assert [row.pk for row in listed.context["cl"].result_list] == [decision.pk] != [old.pk]
    address = f"{page_of(decision, 'correct')}?take=none"
    assert f'formaction="{address}"' in listed.content.decode()
    done = boss.post(address, {"next": list_of(RoutingDecision)}, follow=True)
    decision.refresh_from_db()
    assert (decision.corrected_project, decision.corrected_by) == (None, "boss")
    assert tile(boss, "Uncertain routings").figure.number == 0
    assert "No project" in done.content.decode()
    assert "belongs to no project" in boss.get(page_of(decision)).content.decode()
    [undo] = [each.extra_tags.removeprefix("undo:") for each in done.context["messages"] if each.extra_tags]
    boss.post(undo, follow=True)
    decision.refresh_from_db()
    assert decision.corrected_at is None and tile(boss, "Uncertain routings").figure.number == 1


def test_entries_wait_as_long_as_their_line_is_there_and_nobody_trusts_it(boss: Client, hub: Hub) -> None:
    project = create_project(actor=hub.actor, name="tea-shop", description="", by=BY, now=NOW)
    document = append_entry(
        project=project, document_name="decisions.md", text="Pay by card only", sources={}, trust=Trust.UNTRUSTED,
        by=BY, now=NOW,
    )  # fmt: skip
    assert tile(boss, "Pending entries").figure.number == 1
    listed = boss.get(tile(boss, "Pending entries").href).context["cl"].result_list
    assert [row.pk for row in listed] == [document.pk]
    with_line = document.version
    written = write_document(document=document, text="# Nothing\n", kind=DocumentKind.EDIT, by=BY, reason="", now=NOW)
    assert tile(boss, "Pending entries").figure.number == 0, "a person removed the line"
    restored = restore_document(document=written, number=with_line, by=BY, reason="", now=NOW)
    assert tile(boss, "Pending entries").figure.number == 1, "it is still not trusted"
    [entry] = DocumentEntry.objects.all()
    set_entry_trust(document=restored, entry_ids=[entry.pk], trust=Trust.TRUSTED, by=BY, now=NOW)
    assert not waiting_entries().exists()
    write_document(document=restored, text="# Nothing\n", kind=DocumentKind.EDIT, by=BY, reason="", now=NOW)
    set_entry_trust(document=restored, entry_ids=[entry.pk], trust=Trust.UNTRUSTED, by=BY, now=NOW)
    assert not waiting_entries().exists(), "its line is gone"


def test_a_refused_compaction_waits_until_the_document_is_changed(boss: Client, hub: Hub) -> None:
    now = timezone.now()
    project = create_project(actor=hub.actor, name="tea-shop", description="", by=BY, now=now - timedelta(hours=2))
    [document] = project.current_documents.all()
    note_outcome(document=document, outcome=Outcome.REFUSED, now=now - timedelta(hours=1))
    waiting = tile(boss, "Refused compactions")
    assert waiting.figure.number == 1 == len(boss.get(waiting.href).context["cl"].result_list)
    write_document(document=document, text="# Short\n", kind=DocumentKind.EDIT, by=BY, reason="", now=now)
    assert tile(boss, "Refused compactions").figure.number == 0


def test_what_a_night_held_back_waits_until_a_person_decides(boss: Client, hub: Hub) -> None:
    for number in range(60):
        hub.remember(f"Said in passing {number}", strength=0.02)
    run = sleep(actor=hub.actor, request=SleepRequest(Trigger.SCHEDULE, BY, timezone.now()))
    assert (run.archived_count, run.held_count) == (20, 40)
    waiting = tile(boss, "Postponed by a night")
    assert waiting.figure.number == 1
    assert [row.pk for row in boss.get(waiting.href).context["cl"].result_list] == [run.pk]
    [(sentence, _may_undo)] = page(boss).context["sentences"]
    assert "40 more wait for your decision" in sentence.text
    assert metric("memoryhub_memories_held") == 40
    shown = boss.get(page_of(run)).content.decode()
    assert "40 more memories were due" in shown and "Is due to be archived, and postponed" in shown

    done = boss.post(page_of(run, "leave"), follow=True)
    assert tile(boss, "Postponed by a night").figure.number == 0 == metric("memoryhub_memories_held")
    [undo] = [each.extra_tags.removeprefix("undo:") for each in done.context["messages"] if each.extra_tags]
    boss.post(undo, follow=True)
    assert tile(boss, "Postponed by a night").figure.number == 1
    pinned = Memory.objects.filter(status="active", content__startswith="Said").order_by("pk")[:1]
    Memory.objects.filter(pk__in=pinned).update(pinned=True)
    boss.post(page_of(run, "archive_held"), follow=True)
    assert tile(boss, "Postponed by a night").figure.number == 0
    assert Memory.objects.filter(status="active", content__startswith="Said").count() == 1
    last = SleepRun.objects.latest("number")
    assert (last.archived_count, last.held_count, last.allowance) == (39, 0, None)
    assert "has continued with them" in boss.post(page_of(run, "leave"), follow=True).content.decode()


def metric(name: str) -> float:
    families = DatabaseCollector.registry().collect()
    return sum(sample.value for family in families if family.name == name for sample in family.samples)


def test_a_preview_names_what_it_would_hold_back(boss: Client, hub: Hub) -> None:
    for number in range(60):
        hub.remember(f"Said in passing {number}", strength=0.02)
    preview = preview_sleep(actor=hub.actor, request=SleepRequest(Trigger.CURATOR, BY, timezone.now()))
    shown = boss.get(page_of(preview)).content.decode()
    assert "Is due to be archived, and postponed" in shown and "Archive them all now" not in shown
    assert tile(boss, "Postponed by a night").figure.number == 0, "a preview changes nothing"


def test_the_end_of_the_review_names_what_waits_elsewhere(boss: Client, hub: Hub) -> None:
    assert "Also pending:" not in boss.get(reverse("review")).content.decode()
    unsure(hub)
    text = boss.get(reverse("review")).content.decode()
    assert "Also pending:" in text and "Uncertain routings" in text and "All items of this queue" in text
