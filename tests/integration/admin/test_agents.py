"""Pages of agents and users: the way to their rows, and a user's erasure."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from conversations.models import Message
from memoryhub.api.agents import file_name
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.models import AuditEntry
from memoryhub.tenancy.models import Actor, Agent
from strength.actions.memories import NewMemory, write_memory
from strength.models import Memory
from tests.integration.admin.conftest import BY, NOW, SECRET_USER, Hub, list_of, page_of


def links(browser: Client, row: object) -> dict[str, str]:
    """Return the addresses of the lists that a row's page leads to, by their titles."""
    page = browser.get(page_of(row)).content.decode()
    nav = page[page.index('aria-label="What is stored"') :]
    nav = nav[: nav.index("</nav>")]
    return {title: unescape(at) for at, title in re.findall(r'<a href="([^"]+)"[^>]*>([^<]+)</a>', nav)}


def listed(browser: Client, address: str) -> set[object]:
    return {row.pk for row in browser.get(address).context["cl"].result_list}


def test_a_user_leads_to_its_rows_and_an_agent_to_those_of_all_its_users(boss: Client, hub: Hub) -> None:
    other = actor_for_writing(BY, "kana", "mei", now=NOW)
    theirs = write_memory(actor=other, new=NewMemory(content="Likes yuzu"), by=BY, now=NOW)[0]
    of_user, of_agent = links(boss, hub.actor), links(boss, hub.agent)
    assert listed(boss, of_user["Memories"]) == {hub.memory.pk}
    assert listed(boss, of_agent["Memories"]) == {hub.memory.pk, theirs.pk}
    assert listed(boss, of_user["Conversations"]) == {hub.session.pk}
    assert listed(boss, of_agent["Actors"]) >= {hub.actor.pk, other.pk}
    for address in {*of_user.values(), *of_agent.values()}:
        assert boss.get(address).status_code == 200, address


def test_who_may_see_some_lists_alone_is_led_to_these(staff: Callable[..., Client], hub: Hub) -> None:
    assert list(links(staff("view_actor", "view_memory"), hub.actor)) == ["Memories"]


def test_a_user_is_erased_by_who_types_its_id(boss: Client, hub: Hub) -> None:
    asked = page_of(hub.actor, "erase")
    page = boss.get(asked).content.decode()
    assert "Messages: 3" in page and "Memories: 1" in page
    wrong = boss.post(asked, {"user_id": SECRET_USER.upper()})
    assert "This is not the user&#x27;s id." in wrong.content.decode()
    assert Message.objects.count() == 3
    done = boss.post(asked, {"user_id": SECRET_USER}, follow=True)
    assert done.redirect_chain == [(list_of(Actor), 302)]
    assert re.search(r"The user was erased: \d+ rows, with revisions", done.content.decode())
    assert not Message.objects.exists() and not Memory.objects.exists()
    assert not Actor.objects.filter(pk=hub.actor.pk).exists()
    assert Agent.objects.filter(pk="kana").exists()
    assert AuditEntry.objects.get(verb="erase").who_name == "boss"
    assert not LogEntry.objects.filter(object_repr__contains=SECRET_USER).exists()


def test_the_owner_of_an_agent_is_not_erased(boss: Client, hub: Hub) -> None:
    Agent.objects.filter(pk="kana").update(fixed_user_id=SECRET_USER)
    page = boss.post(page_of(hub.actor, "erase"), {"user_id": SECRET_USER}).content.decode()
    assert "owner mode" in page and Actor.objects.filter(pk=hub.actor.pk).exists()


def test_erasure_takes_the_permission_to_delete(staff: Callable[..., Client], hub: Hub) -> None:
    browser = staff("view_actor", "change_actor")
    assert "Erase this user" not in browser.get(page_of(hub.actor)).content.decode()
    assert browser.get(page_of(hub.actor, "erase")).status_code == 403
    assert browser.post(page_of(hub.actor, "erase"), {"user_id": SECRET_USER}).status_code == 403
    assert Message.objects.count() == 3


def test_an_agent_itself_is_not_offered_for_erasure(boss: Client, hub: Hub) -> None:
    itself = actor_for_writing(BY, "kana", "", now=NOW)
    assert "Erase this user" not in boss.get(page_of(itself)).content.decode()
    boss.post(page_of(itself, "erase"), {"user_id": ""})
    assert Actor.objects.filter(pk=itself.pk).exists()


def test_all_data_of_a_user_are_exported_by_who_may_erase(boss: Client, staff: Callable[..., Client], hub: Hub) -> None:
    address = page_of(hub.actor, "export")
    assert "Export all data of this user" in boss.get(page_of(hub.actor)).content.decode()
    assert boss.get(address).status_code == 405, "only by the button"
    sent = boss.post(address)
    day = timezone.localdate().isoformat()
    assert sent["Content-Disposition"] == f'attachment; filename="kana-{SECRET_USER}-{day}.jsonl"'
    lines = b"".join(sent).decode().splitlines()
    assert any(hub.memory.content in line for line in lines)
    assert '"end"' in lines[-1]
    assert AuditEntry.objects.get(verb="export").who_name == "boss"
    assert staff("view_actor", "view_memory").post(address).status_code == 403


@pytest.mark.parametrize(
    ("user_id", "named"),
    [
        ("", "kana-2026-05-01.jsonl"),
        ('../a b\r\n"c', "kana-..a_bc-2026-05-01.jsonl"),
        ("花子", "kana-花子-2026-05-01.jsonl"),
        ("u" * 300, f"kana-{'u' * 60}-2026-05-01.jsonl"),
    ],
)
def test_an_export_is_named_by_agent_user_and_day_in_safe_characters(user_id: str, named: str) -> None:
    actor = Actor(agent_id="kana", user_id=user_id)
    assert file_name(actor, datetime(2026, 5, 1, 12, tzinfo=UTC)) == named


def test_the_only_user_of_an_agent_is_not_another(boss: Client, hub: Hub) -> None:
    Agent.objects.filter(pk=hub.actor.agent_id).update(fixed_user_id=SECRET_USER)
    form = {"agent": hub.actor.agent_id, "content": "Rows on Sundays.", "kind": "note", "scope_level": "project"}
    page = boss.post(page_add(), {**form, "user_id": "somebody-else"}).content.decode()
    assert f"This agent has one user, {SECRET_USER}" in unescape(page)
    assert not Memory.objects.filter(content=form["content"]).exists()
    boss.post(page_add(), form)
    assert Memory.objects.get(content=form["content"]).actor.user_id == SECRET_USER


def page_add() -> str:
    return reverse("admin:strength_memory_add")


def test_a_day_without_a_time_is_its_beginning(boss: Client, hub: Hub) -> None:
    form = {"agent": hub.actor.agent_id, "content": "Rows on Sundays.", "kind": "note", "scope_level": "project"}
    boss.post(page_add(), {**form, "valid_from_0": "2026-05-01", "valid_from_1": ""})
    assert Memory.objects.get(content=form["content"]).valid_from == datetime(2026, 5, 1, tzinfo=UTC)
