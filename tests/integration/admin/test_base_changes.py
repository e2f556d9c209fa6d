"""Changes in the admin go through the actions: each leaves its trail, and a refusal loses nothing."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as BrowserSession
from django.db import connection
from django.test import Client
from django.urls import reverse

from memoryhub.auth.actions import update_agent
from memoryhub.auth.models import ApiKey, AuditEntry
from memoryhub.tenancy.models import Actor, Agent
from strength.actions.curation import edit_memory
from strength.models import Memory, MemoryRevision
from tests.integration.admin.conftest import BY, NOW, SECRET_USER, Hub, form_of, list_of, logged_in, page_of

pytestmark = pytest.mark.django_db(transaction=False)


def post_form(browser: Client, page: str, **changes: Any) -> Any:
    """Open a form, change some values as a person would, and send it."""
    values = {**form_of(browser.get(page)), **changes}
    return browser.post(page, {name: value for name, value in values.items() if value is not None})


def problems(response: Any) -> str:
    assert response.status_code == 200, "the form was accepted"
    return str(response.context["adminform"].form.errors)


def told(response: Any) -> str:
    return " ".join(str(message) for message in response.context["messages"])


def everything_stored() -> str:
    """Return the text of every row of every table."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        tables = [name for (name,) in cursor.fetchall()]
        rows = []
        for table in tables:
            cursor.execute(f'SELECT row_to_json(t)::text FROM "{table}" t')
            rows += [text for (text,) in cursor.fetchall()]
    sessions = [json.dumps(each.get_decoded()) for each in BrowserSession.objects.all()]
    return "\n".join([*rows, *sessions])


# API keys


def issue(browser: Client, **values: Any) -> Any:
    return browser.post(list_of(ApiKey, "add"), {"name": "phone", "scopes": ["read", "write"], **values})


def test_key_is_shown_once_and_stored_nowhere(boss: Client, hub: Hub) -> None:
    response = issue(boss, agent_ids=["kana"], is_trusted="on")
    text = re.search(r"mh_[0-9a-f]{10}_[\w-]{40,}", response.content.decode())
    assert response.status_code == 200 and text and "no-store" in response["Cache-Control"]
    secret = text.group()
    key = ApiKey.objects.get(name="phone")
    assert (key.scopes, key.agent_ids, key.is_trusted) == (["read", "write"], ["kana"], True)
    assert secret not in everything_stored() and secret.split("_", 2)[2] not in everything_stored()
    assert all(secret not in morsel.value for morsel in boss.cookies.values())
    for page in (list_of(ApiKey), page_of(key), reverse("admin:index")):
        assert secret not in boss.get(page).content.decode()
    answer = Client().get("/api/v1/agents", headers={"authorization": f"Bearer {secret}"})
    assert answer.status_code == 200


def test_key_can_be_bound_to_a_user_and_gets_an_audit_entry(boss: Client, hub: Hub) -> None:
    issue(boss, user_id=SECRET_USER)
    key = ApiKey.objects.get(name="phone")
    assert key.user_id == SECRET_USER and key.agent_ids is None and not key.is_trusted
    entry = AuditEntry.objects.get(object_id=str(key.pk), verb="issue")
    assert (entry.who_kind, entry.who_name) == ("curator", "boss")


def test_key_without_scopes_is_refused(boss: Client, hub: Hub) -> None:
    assert "scopes" in problems(boss.post(list_of(ApiKey, "add"), {"name": "phone"}))


def test_key_is_revoked_by_post_and_never_edited_or_deleted(boss: Client, hub: Hub) -> None:
    boss.get(list_of(ApiKey), {"action": "revoke", "_selected_action": [hub.key.pk]})
    assert boss.post(page_of(hub.key), {"name": "other"}).status_code == 403
    assert boss.post(page_of(hub.key, "delete"), {"post": "yes"}).status_code == 403
    hub.key.refresh_from_db()
    assert hub.key.revoked_at is None and hub.key.name == "laptop"
    chosen = {"action": "revoke", "_selected_action": [hub.key.pk], "confirmed": "1", "reason": "lost"}
    response = boss.post(list_of(ApiKey), chosen, follow=True)
    hub.key.refresh_from_db()
    assert hub.key.revoked_at is not None and "1 key was revoked" in told(response)
    assert AuditEntry.objects.filter(object_id=str(hub.key.pk), verb="revoke").count() == 1


# Agents and actors


def test_agent_is_created_through_the_action(boss: Client) -> None:
    response = post_form(
        boss,
        list_of(Agent, "add"),
        agent_id="yuno",
        system_prompt="Be kind.\r\nBe brief.",
        policy='{"max_tokens": 5000}',
        related_domains="work\r\nplay, and rest",
        strategies=["semantic"],
    )
    assert response.status_code == 302, problems(response)
    agent = Agent.objects.get(pk="yuno")
    assert agent.system_prompt == "Be kind.\nBe brief." and agent.policy == {"max_tokens": 5000}
    assert agent.related_domains == ["work", "play, and rest"]
    assert [name for name, on in agent.strategies.items() if on] == ["semantic"]
    assert AuditEntry.objects.get(object_kind="agent", verb="create").who_name == "boss"


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("agent_id", "no spaces", "agent_id"),
        ("agent_id", "kana", "exists"),
        ("policy", '{"max_tokens": 1}', "max_tokens: must be"),
        ("policy", '{"max_token": 5000}', "is not a policy value"),
        ("policy", "[1]", "JSON object"),
        ("policy", '{"max_tokens": NaN}', "NaN"),
        ("policy", '{"a": "\\u0000"}', "NUL"),
        ("policy", '{"a": "\\ud800"}', "surrogate"),
        ("policy", "[" * 5000, "levels deep"),
        ("policy", "{", "not JSON"),
        ("retrieval_config", '{"/facts": {}}', "slash"),
        ("system_prompt", "\x00", "Null characters"),
        ("related_domains", "x" * 256, "255"),
        ("language", "fr", "fr"),
    ],
)
def test_agent_with_a_wrong_value_is_refused_and_what_was_typed_stays(
    boss: Client, hub: Hub, field: str, value: str, problem: str
) -> None:
    typed = {"agent_id": "yuno", "name": "Yuno", field: value}
    response = post_form(boss, list_of(Agent, "add"), **typed)
    assert problem in problems(response)
    form = response.context["adminform"].form
    assert {name: form[name].value() for name in typed} == typed
    assert not Agent.objects.filter(pk="yuno").exists()


def test_agent_edit_changes_what_was_changed(boss: Client, hub: Hub) -> None:
    response = post_form(boss, page_of(hub.agent), name="Kana", strategies=["semantic", "summary"])
    assert response.status_code == 302, problems(response)
    agent = Agent.objects.get(pk="kana")
    assert (agent.name, agent.language, agent.domain, agent.version) == ("Kana", "ja", "home", 2)
    assert agent.strategies["episodic"] is False and agent.retrieval_config is None
    entry = AuditEntry.objects.get(object_kind="agent", verb="update")
    assert entry.details == {"fields": ["name", "strategies"]}


def test_agent_saved_as_it_was_stays_as_it_was(boss: Client, hub: Hub) -> None:
    values = {"system_prompt": "one\n two \r\n", "policy": {"max_tokens": 5000}}
    update_agent(agent_id="kana", values=values, expected_version=None, by=BY, now=NOW)
    assert post_form(boss, page_of(hub.agent)).status_code == 302
    assert Agent.objects.get(pk="kana").version == 2


def test_agent_edited_meanwhile_is_not_overwritten_unasked(boss: Client, hub: Hub) -> None:
    values = {**form_of(boss.get(page_of(hub.agent))), "name": "Mine"}
    update_agent(agent_id="kana", values={"name": "Theirs"}, expected_version=None, by=BY, now=NOW)
    response = boss.post(page_of(hub.agent), values)
    assert "changed while you edited" in problems(response)
    assert Agent.objects.get(pk="kana").name == "Theirs"
    again = form_of(response)
    assert again["name"] == "Mine"
    assert boss.post(page_of(hub.agent), again).status_code == 302
    assert Agent.objects.get(pk="kana").name == "Mine"


def test_actor_policy_is_set_through_the_action(boss: Client, hub: Hub) -> None:
    assert "must be" in problems(post_form(boss, page_of(hub.actor), policy='{"max_tokens": 1}'))
    assert post_form(boss, page_of(hub.actor), policy='{"max_tokens": 4000}').status_code == 302
    assert Actor.objects.get(pk=hub.actor.pk).policy == {"max_tokens": 4000}
    assert AuditEntry.objects.get(object_kind="actor", verb="update").who_name == "boss"


# Writing memories


def write(browser: Client, **values: Any) -> Any:
    values = {"agent": "kana", "content": "Plays the koto", "new_user": values.get("user_id", ""), **values}
    return post_form(browser, list_of(Memory, "add"), **values)


def test_memory_is_written_through_the_action(boss: Client, hub: Hub) -> None:
    response = write(boss, user_id="mika", kind="fact", tags="music\r\nold, new", content=" two\r\nlines ")
    assert response.status_code == 302, problems(response)
    memory = Memory.objects.get(content=" two\nlines ")
    assert (memory.actor.user_id, memory.namespace, memory.tags) == ("mika", "/facts/mika/", ["music", "old, new"])
    assert memory.numbers.strength == 1.0  # type: ignore[attr-defined]
    revision = MemoryRevision.objects.get(memory=memory)
    assert (revision.verb, revision.who_kind, revision.who_name) == ("create", "curator", "boss")
    assert AuditEntry.objects.filter(object_id=str(memory.pk), verb="create").exists()


def test_memory_with_a_known_text_strengthens_the_first(boss: Client, hub: Hub) -> None:
    write(boss)
    Memory.objects.filter(content="Plays the koto").update(created_at=NOW)  # within a minute it may be a retry
    blank = form_of(boss.get(list_of(Memory, "add")))
    values = {**blank, "agent": "kana", "content": "Plays the koto"}
    response = boss.post(list_of(Memory, "add"), values, follow=True)
    assert "already" in told(response)
    memory = Memory.objects.get(content="Plays the koto")
    assert memory.numbers.access_count == 1  # type: ignore[attr-defined]


BACKWARDS = {"valid_from_0": "2026-02-02", "valid_from_1": "00:00", "valid_to_0": "2026-01-01", "valid_to_1": "00:00"}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"content": "   "}, "content"),
        ({"content": "x" * 100_001}, "content"),
        ({"content": "a\x00b"}, "content"),
        ({"namespace": "/facts/mika"}, "namespace"),
        ({"scope_level": "universal", "user_id": "mika"}, "scope_level"),
        (BACKWARDS, "valid_to"),
        ({"confidence": "7"}, "confidence"),
        ({"confidence": "nan"}, "confidence"),
        ({"learnings": '{"cook": 7}'}, "learnings"),
        ({"learnings": "{"}, "learnings"),
        ({"tags": "x" * 101}, "tags"),
        ({"agent": "nobody"}, "agent"),
        ({"user_id": "x" * 256}, "user_id"),
        ({"kind": "rumour"}, "kind"),
    ],
)
def test_memory_with_a_wrong_value_is_refused_beside_the_field(
    boss: Client, hub: Hub, values: dict[str, str], problem: str
) -> None:
    before = Memory.objects.count()
    response = write(boss, **values)
    assert problem in problems(response) and Memory.objects.count() == before
    form = response.context["adminform"].form
    for name in set(values) & set(form.fields):
        assert form[name].value() == values[name]


# Editing memories


def test_memory_edit_is_a_revision_with_its_reason(boss: Client, hub: Hub) -> None:
    response = post_form(boss, page_of(hub.memory), content="Loves matcha ice cream", reason="a letter")
    assert response.status_code == 302, problems(response)
    memory = Memory.objects.get(pk=hub.memory.pk)
    assert (memory.content, memory.version, memory.locked) == ("Loves matcha ice cream", 2, True)
    revision = MemoryRevision.objects.get(memory=memory, number=2)
    assert (revision.verb, revision.reason, revision.who_name) == ("edit", "a letter", "boss")
    assert revision.changed_before["content"] == "Likes matcha ice cream"


def test_memory_saved_as_it_was_stays_as_it_was(boss: Client, hub: Hub) -> None:
    memory = hub.remember(
        "one\n two \r\n", learnings={"cook": "ü"}, tags=["a, b"], confidence=0.7, valid_from=NOW.replace(microsecond=7)
    )
    response = post_form(boss, page_of(memory))
    assert response.status_code == 302, problems(response)
    memory.refresh_from_db()
    assert (memory.version, memory.content, memory.locked) == (1, "one\n two \r\n", False)
    assert MemoryRevision.objects.filter(memory=memory).count() == 1


def test_memory_edited_meanwhile_is_not_overwritten_unasked(boss: Client, hub: Hub) -> None:
    values = {**form_of(boss.get(page_of(hub.memory))), "content": "Mine"}
    edit_memory(memory=hub.memory, values={"content": "Theirs"}, expected_version=None, by=BY, reason="", now=NOW)
    response = boss.post(page_of(hub.memory), values)
    assert "changed while you edited" in problems(response)
    assert Memory.objects.get(pk=hub.memory.pk).content == "Theirs"
    assert boss.post(page_of(hub.memory), form_of(response)).status_code == 302
    assert Memory.objects.get(pk=hub.memory.pk).content == "Mine"


def test_memory_edited_into_a_duplicate_is_refused(boss: Client, hub: Hub) -> None:
    other = hub.remember("Plays the koto", kind=hub.memory.kind)
    response = post_form(boss, page_of(other), content=hub.memory.content)
    assert "same text" in problems(response)
    other.refresh_from_db()
    assert other.content == "Plays the koto" and other.version == 1


def test_memory_edit_with_a_wrong_namespace_or_scope_is_refused(boss: Client, hub: Hub) -> None:
    assert "namespace" in problems(post_form(boss, page_of(hub.memory), namespace="/facts"))
    assert "scope_level" in problems(post_form(boss, page_of(hub.memory), scope_level="universal"))
    hub.memory.refresh_from_db()
    assert hub.memory.version == 1


# Curating memories


def pending(hub: Hub, text: str) -> Memory:
    return hub.remember(text, confidence=0.1)


@pytest.mark.parametrize(
    ("before", "verb", "field", "value"),
    [
        ([], "pin", "pinned", True),
        (["pin"], "unpin", "pinned", False),
        ([], "archive", "status", "archived"),
        (["archive"], "reactivate", "status", "active"),
        (["pending"], "approve", "status", "active"),
        (["pending"], "reject", "status", "rejected"),
        ([], "reject", "status", "rejected"),
        (["archive"], "reject", "status", "rejected"),
    ],
)
@pytest.mark.parametrize("way", ["button", "list"])
def test_each_verb_works_and_leaves_a_trail(
    boss: Client, hub: Hub, before: list[str], verb: str, field: str, value: object, way: str
) -> None:
    memory = pending(hub, "waits") if before == ["pending"] else hub.memory
    for earlier in before:
        boss.post(page_of(memory, "curate"), {"verb": earlier})
    memory.refresh_from_db()
    trail = AuditEntry.objects.filter(object_id=str(memory.pk), verb=verb)
    if way == "button":
        response = boss.post(
            page_of(memory, "curate"), {"verb": verb, "reason": "so it is", "version": memory.version}, follow=True
        )
    else:
        chosen = {
            "action": verb,
            "_selected_action": [memory.pk],
            "post": "yes",
            f"version-{memory.pk}": memory.version,
        }
        response = boss.post(list_of(Memory), chosen, follow=True)
    assert response.status_code == 200 and told(response)
    memory.refresh_from_db()
    assert getattr(memory, field) == value
    revision = MemoryRevision.objects.get(memory=memory, number=memory.version)
    assert (revision.verb, revision.who_name) == (verb, "boss")
    assert revision.reason == ("so it is" if way == "button" else "")
    assert trail.count() == 1


def test_bulk_action_tells_what_it_left_alone(boss: Client, hub: Hub) -> None:
    waiting = pending(hub, "waits")
    chosen = {"action": "approve", "_selected_action": [hub.memory.pk, waiting.pk], "post": "yes"}
    unread = boss.post(list_of(Memory), chosen, follow=True)
    assert "no version of the text" in told(unread)
    waiting.refresh_from_db()
    assert waiting.status == "pending"
    chosen[f"version-{waiting.pk}"] = "1"
    response = boss.post(list_of(Memory), chosen, follow=True)
    assert "1 memory" in told(response) and "1 left unchanged" in told(response)
    waiting.refresh_from_db()
    assert waiting.status == "active"


def test_button_in_a_wrong_state_is_told_and_changes_nothing(boss: Client, hub: Hub) -> None:
    for verb in ("reactivate", "approve", "explode", ""):
        response = boss.post(page_of(hub.memory, "curate"), {"verb": verb}, follow=True)
        assert [message.level_tag for message in response.context["messages"]] == ["error"]
    hub.memory.refresh_from_db()
    assert hub.memory.version == 1


def test_approval_is_bound_to_the_text_that_was_read(boss: Client, hub: Hub) -> None:
    memory = pending(hub, "harmless")
    version = boss.get(page_of(memory)).context["version"]
    edit_memory(memory=memory, values={"content": "harmful"}, expected_version=None, by=BY, reason="", now=NOW)
    response = boss.post(page_of(memory, "curate"), {"verb": "approve", "version": version}, follow=True)
    assert "has changed since" in told(response)
    memory.refresh_from_db()
    assert memory.status == "pending"


def test_page_offers_the_buttons_that_fit_the_state(boss: Client, hub: Hub) -> None:
    def offered(memory: Memory) -> list[str]:
        return [verb for verb, *_rest in boss.get(page_of(memory)).context["verbs"]]

    waiting = pending(hub, "waits")
    assert offered(hub.memory) == ["pin", "archive", "reject"]
    assert offered(waiting) == ["approve", "reject"]
    boss.post(page_of(hub.memory, "curate"), {"verb": "pin"})
    assert offered(hub.memory) == ["unpin", "archive", "reject"]


def test_too_many_at_once_are_told_and_nothing_is_done(boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strength.admin.bulk.MAX_SELECTED", 1)
    keys = [hub.memory.pk, hub.remember("Plays the koto").pk]
    for action in ("merge", "delete_selected"):
        response = boss.post(list_of(Memory), {"action": action, "_selected_action": keys, "post": "yes"}, follow=True)
        assert "at most 1 memories" in response.content.decode()
    assert Memory.objects.filter(status="active").count() == 2


def test_restore_brings_a_revision_back(boss: Client, hub: Hub) -> None:
    post_form(boss, page_of(hub.memory), content="Hates matcha")
    response = boss.post(page_of(hub.memory, "restore"), {"number": "1"}, follow=True)
    assert "Revision 1 was restored" in told(response)
    hub.memory.refresh_from_db()
    assert hub.memory.content == "Likes matcha ice cream" and hub.memory.version == 3
    assert MemoryRevision.objects.get(memory=hub.memory, number=3).verb == "restore"


@pytest.mark.parametrize("number", ["99", "", "x", "-1", "９", "9" * 30])
def test_restore_of_no_revision_is_told(boss: Client, hub: Hub, number: str) -> None:
    response = boss.post(page_of(hub.memory, "restore"), {"number": number}, follow=True)
    assert "no such revision" in told(response)


def test_reject_empties_what_old_receipts_quoted(boss: Client, hub: Hub) -> None:
    boss.post(list_of(Memory), {"action": "reject", "_selected_action": [hub.memory.pk], "post": "yes"})
    hub.receipt.refresh_from_db()
    excerpts = [item["excerpt"] for item in hub.receipt.items if item["source_id"] == str(hub.memory.pk)]
    assert excerpts and not any(excerpts)
    assert "(text removed)" in boss.get(page_of(hub.receipt)).content.decode()


def test_delete_goes_through_the_action(boss: Client, hub: Hub) -> None:
    other = hub.remember("Plays the koto")
    assert b"Likes matcha" in boss.get(page_of(hub.memory, "delete")).content, "one sees what is asked about"
    boss.post(page_of(hub.memory, "delete"), {"post": "yes"})
    boss.post(list_of(Memory), {"action": "delete_selected", "_selected_action": [other.pk], "post": "yes"})
    assert not Memory.objects.exists()
    hub.receipt.refresh_from_db()
    excerpts = [item["excerpt"] for item in hub.receipt.items if item["source_id"] == str(hub.memory.pk)]
    assert excerpts and not any(excerpts)
    assert AuditEntry.objects.filter(verb="delete", object_kind="memory", who_name="boss").count() == 2


# What holds everywhere


def test_get_changes_nothing(boss: Client, hub: Hub) -> None:
    before = everything_stored()
    for name in ("curate", "restore"):
        assert boss.get(page_of(hub.memory, name), {"verb": "pin", "number": "1"}).status_code == 405
    for page in (page_of(hub.memory, "delete"), page_of(hub.memory), page_of(hub.key), list_of(ApiKey, "add")):
        assert boss.get(page, {"verb": "pin", "action": "pin", "post": "yes"}).status_code in (200, 403)
    for verb in ("pin", "archive", "delete_selected"):
        boss.get(list_of(Memory), {"action": verb, "_selected_action": hub.memory.pk, "post": "yes"})
    assert everything_stored() == before


def test_posts_need_a_csrf_token(boss: Client, hub: Hub) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(username="boss"))
    for page, values in [
        (page_of(hub.memory, "curate"), {"verb": "pin"}),
        (page_of(hub.memory, "restore"), {"number": "1"}),
        (list_of(Memory), {"action": "pin", "_selected_action": [hub.memory.pk]}),
        (list_of(ApiKey, "add"), {"name": "phone", "scopes": ["read"]}),
    ]:
        assert strict.post(page, values).status_code == 403
    assert ApiKey.objects.count() == 1 and MemoryRevision.objects.count() == 1


def test_rows_that_cannot_exist_are_told_and_never_an_error_page(boss: Client, hub: Hub) -> None:
    for key in ("nothing", "00000000-0000-0000-0000-000000000000", "%00", "a/b"):
        for model in (Memory, ApiKey):
            where = list_of(model) + f"{key}/change/"
            assert boss.get(where).status_code in (302, 400)
        assert boss.post(list_of(Memory) + f"{key}/curate/", {"verb": "pin"}).status_code in (302, 400)
        response = boss.post(list_of(Memory), {"action": "pin", "_selected_action": [key]})
        assert response.status_code == 302


def test_sessions_messages_receipts_and_the_trail_are_read_only(boss: Client, hub: Hub) -> None:
    for row in (hub.session, hub.messages[0], hub.receipt, AuditEntry.objects.first()):
        assert boss.get(list_of(row, "add")).status_code == 403
        assert boss.post(page_of(row), {"title": "other"}).status_code == 403
        assert boss.post(page_of(row, "delete"), {"post": "yes"}).status_code == 403
        response = boss.get(list_of(row))
        assert "delete_selected" not in response.content.decode()


def test_the_admins_own_log_holds_no_text_and_no_user(boss: Client, hub: Hub) -> None:
    write(boss, user_id=SECRET_USER, content="a secret text")
    post_form(boss, page_of(hub.memory), content="another secret text", reason="for a secret text")
    post_form(boss, page_of(hub.actor), policy='{"max_tokens": 4000}')
    issue(boss, user_id=SECRET_USER)
    boss.post(page_of(hub.memory, "curate"), {"verb": "pin", "reason": "secret text"})
    boss.post(list_of(Memory), {"action": "archive", "_selected_action": [hub.memory.pk], "post": "yes"})
    boss.post(page_of(hub.memory, "delete"), {"post": "yes"})
    log = [f"{entry.object_repr} {entry.change_message}" for entry in LogEntry.objects.all()]
    assert len(log) == 7
    assert not [line for line in log if "secret" in line or SECRET_USER in line]


def test_curators_may_do_what_their_permissions_say(staff: Callable[..., Client], hub: Hub) -> None:
    browser = staff("view_memory", "change_memory")
    assert browser.post(page_of(hub.memory, "curate"), {"verb": "pin"}).status_code == 302
    assert browser.get(list_of(Memory, "add")).status_code == 403
    assert browser.post(page_of(hub.memory, "delete"), {"post": "yes"}).status_code == 403
    hub.memory.refresh_from_db()
    assert hub.memory.pinned
    assert AuditEntry.objects.get(verb="pin").who_name == "kei"


def test_people_and_groups_are_managed_with_unfolds_forms(boss: Client) -> None:
    page = reverse("admin:auth_user_add")
    password = "quite long enough"
    response = boss.post(
        page, {"username": "mio", "password1": password, "password2": password, "usable_password": "true"}
    )
    assert response.status_code == 302
    user = User.objects.get(username="mio")
    assert user.check_password(password) and logged_in(user)
    assert boss.get(page_of(user)).status_code == 200
    assert boss.get(reverse("admin:auth_user_password_change", args=[user.pk])).status_code == 200
