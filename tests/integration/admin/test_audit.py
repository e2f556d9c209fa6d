"""The audit trail's page: who did what to which row, in words, by person and period, with the way to the row."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memoryhub.admin.audit import OBJECT_KINDS
from memoryhub.admin.labels import PRINCIPAL_KINDS, VERBS, audit_title, kind_label, model_of
from memoryhub.auth import audit
from memoryhub.auth.models import ApiKey, AuditEntry
from memoryhub.auth.principals import PrincipalKind
from memoryhub.auth.roles import ADMINISTRATOR
from memoryhub.jobs.models import Job
from memoryhub.tenancy.models import Agent
from strength.actions.curation import TRANSITIONS
from strength.actions.curation_sets import SET_VERBS
from strength.actions.revisions import new_revision
from strength.admin import labels
from tests.integration.admin.conftest import Hub, form_of, list_of, logged_in, page_of
from tests.integration.admin.test_base_roles import person
from tests.integration.admin.verbs import verbs_given_to


def entry(**values: Any) -> AuditEntry:
    defaults = {
        "at": timezone.now(),
        "who_kind": "curator",
        "who_id": "1",
        "who_name": "aya",
        "verb": "pin",
        "object_kind": "memory",
    }
    return AuditEntry.objects.create(**{**defaults, **values})


def rows(browser: Client, **query: str) -> list[AuditEntry]:
    response = browser.get(list_of(AuditEntry), query)
    assert response.status_code == 200
    return list(response.context["cl"].result_list)


def test_an_entry_says_who_did_what_and_leads_to_the_row(boss: Client, hub: Hub) -> None:
    boss.post(page_of(hub.memory, "curate"), {"verb": "pin", "reason": "always true"})
    page = boss.get(list_of(AuditEntry)).content.decode()
    assert "Memory pinned" in page and "always true" in page and page_of(hub.memory) in page
    found = AuditEntry.objects.get(verb="pin")
    assert page_of(hub.memory) in boss.get(page_of(found)).content.decode()


def test_the_trail_is_narrowed_to_a_person(boss: Client, hub: Hub) -> None:
    kei = person(ADMINISTRATOR)
    logged_in(kei).post(page_of(hub.memory, "curate"), {"verb": "pin"})
    entry(who_id=str(User.objects.get(username="boss").pk))
    entry(who_kind="key", who_id=str(kei.pk))
    assert [(row.verb, row.who_name) for row in rows(boss, person=str(kei.pk))] == [("pin", "kei")]


def test_the_trail_is_narrowed_to_a_period(boss: Client) -> None:
    old = entry(at=timezone.now() - timedelta(days=10))
    entry()
    day = (timezone.now() - timedelta(days=5)).date().isoformat()
    assert rows(boss, at_from_0="2020-01-01", at_from_1="00:00:00", at_to_0=day, at_to_1="00:00:00") == [old]
    assert rows(boss, at_to_0=day) == [old]
    assert len(rows(boss, at_from_0="no day", at_to_0="2026-02-30")) == 2


def test_a_row_without_a_screen_is_told_without_a_link(boss: Client) -> None:
    odd = entry(object_kind="odd_thing", object_id="<b>1</b>", verb="do_it")
    assert model_of("odd_thing") is None and audit_title("do_it", "odd_thing") == "Odd thing do it"
    page = boss.get(page_of(odd)).content.decode()
    assert "<b>1</b>" not in page and "&lt;b&gt;1&lt;/b&gt;" in page


def test_a_deletion_of_messages_is_not_called_one_of_their_session(boss: Client) -> None:
    entry(object_kind="session", verb="delete", details={"messages": 1, "first_seq": 3, "whole": False})
    entry(object_kind="session", verb="delete", details={"messages": 4, "first_seq": 1, "whole": True})
    page = boss.get(list_of(AuditEntry)).content.decode()
    assert page.count("Messages of a session deleted") == 1 and page.count("Session deleted") == 1
    home = boss.get(reverse("admin:index")).content.decode()
    assert "Messages of a session deleted" in home


def test_an_entry_names_its_row_by_the_rows_words(boss: Client, hub: Hub) -> None:
    boss.post(page_of(hub.memory, "curate"), {"verb": "pin"})
    found = AuditEntry.objects.get(verb="pin")
    for address in (list_of(AuditEntry), page_of(found)):
        assert "Likes matcha" in boss.get(address).content.decode(), address
    hub.memory.delete()
    assert str(found.object_id) in boss.get(list_of(AuditEntry)).content.decode()


def test_verbs_and_kinds_are_chosen_and_found_by_their_words(boss: Client) -> None:
    rejected, opened = entry(verb="reject"), entry(verb="open", object_kind="session", object_id="s")
    assert rows(boss, verb="reject") == [rejected] and rows(boss, object_kind="session") == [opened]
    assert rows(boss, q="rejected") == [rejected] and rows(boss, q="session opened") == [opened]
    boss.cookies[settings.LANGUAGE_COOKIE_NAME] = "ja"
    assert rows(boss, q="却下") == [rejected] and rows(boss, q="セッション") == [opened]
    page = boss.get(list_of(AuditEntry)).content.decode()
    assert '<option value="reject">却下</option>' in " ".join(page.split()).replace(" >", ">")


def test_details_are_said_in_words(boss: Client) -> None:
    page = boss.get(page_of(entry(details={"fields": ["content", "tags"], "version": 3}))).content.decode()
    assert "fields: <code>content, tags</code>" in page and "version: <code>3</code>" in page
    assert "{}" not in boss.get(page_of(entry())).content.decode()


def test_numbers_of_rows_are_named_as_the_rows_are(boss: Client) -> None:
    made = {"strength_memory": 31, "conversations_message": 61, "a_former_table": 1}
    page = boss.get(page_of(entry(verb="import", details={"made": made}))).content.decode()
    assert "<code>a_former_table 1, memories 31, messages 61</code>" in page


def test_every_kind_that_is_written_can_be_chosen(boss: Client, hub: Hub) -> None:
    kinds = set(AuditEntry.objects.values_list("object_kind", flat=True))
    assert kinds and kinds <= set(OBJECT_KINDS)


def test_kinds_are_called_as_their_screens() -> None:
    assert kind_label("api_key") == "API key" and kind_label("sleep_run") == "sleep"
    assert kind_label("reviewinstructions") == "instructions for reviewers"
    assert kind_label("person") == "user" and kind_label("routing") == "routing decision"


WRITERS = {
    "the trail": ((audit.record, audit.record_each, audit.record_rows), VERBS),
    "a memory's story": ((new_revision,), labels.VERB_LABELS),
}


@pytest.mark.parametrize("where", WRITERS)
def test_the_verbs_that_are_written_are_those_that_have_words(where: str) -> None:
    writers, in_words = WRITERS[where]
    closed = {"apply_transition": TRANSITIONS, "_transition": SET_VERBS, "enqueue_curation": {*TRANSITIONS, "delete"}}
    found = verbs_given_to(writers, closed=closed)
    assert not found.unread
    in_sql = {"sleep"} if where == "a memory's story" else set()  # the view of histories says it
    assert found.written | in_sql == set(in_words)


def test_the_one_table_of_hands_knows_every_kind() -> None:
    assert set(PRINCIPAL_KINDS) == set(PrincipalKind)


def test_a_long_reason_is_cut_in_the_list_and_whole_on_its_page(boss: Client) -> None:
    long = entry(reason="why " * 10_000 + "THE-END")
    assert "THE-END" not in boss.get(list_of(AuditEntry)).content.decode()
    assert "THE-END" in boss.get(page_of(long)).content.decode()


def test_the_trail_is_read_only(boss: Client) -> None:
    row = entry()
    assert boss.post(page_of(row), {"reason": "x"}).status_code == 403
    assert boss.post(page_of(row, "delete"), {"post": "yes"}).status_code == 403
    assert boss.get(list_of(AuditEntry, "add")).status_code == 403


# What a browser posts, and the verb and the kind that the trail tells of it.
Posted = Callable[[Client, Hub], Any]


def _saved(row: Any, **values: Any) -> Posted:
    return lambda browser, hub: browser.post(page_of(row(hub)), {**form_of(browser.get(page_of(row(hub)))), **values})


def _pressed(row: Any, button: str, **values: Any) -> Posted:
    return lambda browser, hub: browser.post(page_of(row(hub), button), values)


def _dead_job(hub: Hub) -> Job:
    return Job.objects.get_or_create(kind="embed", state="dead", defaults={"due_at": timezone.now()})[0]


def _waiting_job(hub: Hub) -> Job:
    return Job.objects.get_or_create(kind="embed", state="queued", defaults={"due_at": timezone.now()})[0]


CHANGES: dict[str, tuple[Posted, str, str]] = {
    "pin a memory": (_pressed(lambda hub: hub.memory, "curate", verb="pin"), "pin", "memory"),
    "archive a memory": (_pressed(lambda hub: hub.memory, "curate", verb="archive"), "archive", "memory"),
    "edit a memory": (_saved(lambda hub: hub.memory, content="Likes hojicha"), "edit", "memory"),
    "lock a summary": (_pressed(lambda hub: hub.summary, "lock", locked="1"), "lock", "summary"),
    "edit a summary": (_saved(lambda hub: hub.summary, text="Of Kyoto."), "edit", "summary"),
    "edit an agent": (_saved(lambda hub: hub.agent, name="Kana"), "update", "agent"),
    "add an agent": (
        lambda browser, hub: browser.post(
            list_of(Agent, "add"), {"agent_id": "yuno", "name": "Yuno", "language": "ja"}
        ),
        "create",
        "agent",
    ),
    "edit a user's policy": (_saved(lambda hub: hub.actor, policy='{"working_memory_limit": 5}'), "update", "actor"),
    "issue a key": (
        lambda browser, hub: browser.post(list_of(ApiKey, "add"), {"name": "phone", "scopes": ["read"]}),
        "issue",
        "api_key",
    ),
    "revoke a key": (
        lambda browser, hub: browser.post(
            list_of(ApiKey), {"action": "revoke", "_selected_action": [hub.key.pk], "confirmed": "1", "reason": "lost"}
        ),
        "revoke",
        "api_key",
    ),
    "send a job back": (_pressed(_dead_job, "retry"), "retry", "job"),
    "take a job out": (_pressed(_waiting_job, "cancel"), "cancel", "job"),
    "add a group": (lambda browser, hub: browser.post(list_of(Group, "add"), {"name": "readers"}), "create", "group"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_person_changes_stands_in_the_trail(boss: Client, hub: Hub, change: str) -> None:
    post, verb, kind = CHANGES[change]
    response = post(boss, hub)
    assert response.status_code in (200, 302)
    told = AuditEntry.objects.filter(who_kind="curator", who_name="boss")
    assert [(each.verb, each.object_kind) for each in told] == [(verb, kind)]
