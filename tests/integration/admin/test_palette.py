"""The palette and the sidebar: screens and rows are found by their words, by those who may see them."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from conversations.models import Session
from memoryhub.auth.models import ApiKey
from memoryhub.auth.roles import CURATOR
from tests.integration.admin.conftest import Hub, list_of, logged_in, page_of
from tests.integration.admin.test_base_roles import person


def found(browser: Client, words: str) -> list[tuple[str, str]]:
    answer = browser.get(reverse("palette"), {"s": words})
    assert answer.status_code == 200 and "no-store" in answer["Cache-Control"]
    return [(each["title"], each["link"]) for each in answer.context["found"]]


def test_memories_sessions_projects_and_screens_are_found_by_words(boss: Client, hub: Hub) -> None:
    hub.remember("The kettle was bought in Kyoto")
    Session.objects.filter(pk=hub.session.pk).update(title="Kettles and pots")
    results = dict(found(boss, "KETTLE"))
    assert results["Kettles and pots"] == page_of(hub.session)
    assert any(title.startswith("The kettle was bought") for title in results)
    assert ("Audit trail", reverse("admin:memoryhub_auditentry_changelist")) in found(boss, "audit")
    assert found(boss, "") == [] and found(boss, "nothing at all of this name") == []
    assert "Nothing contains" in boss.get(reverse("palette"), {"s": "<b>quux</b>"}).content.decode()
    assert "<b>quux" not in boss.get(reverse("palette"), {"s": "<b>quux</b>"}).content.decode()


@pytest.mark.parametrize(
    ("words", "title", "name"),
    [
        ("export", "Export all data of a user", "memoryhub_actor_changelist"),
        ("delete user", "Erase a user", "memoryhub_actor_changelist"),
        ("new key", "Issue an API key", "memoryhub_apikey_add"),
        ("unblock", "Allow a blocked text again", "strength_tombstone_changelist"),
    ],
)
def test_a_task_is_found_by_words_of_what_it_does(
    boss: Client, staff: Callable[..., Client], words: str, title: str, name: str
) -> None:
    assert (title, reverse(f"admin:{name}")) in found(boss, words)
    seeing = staff("view_actor", "view_apikey", "view_tombstone")
    assert title not in dict(found(seeing, words)), "only where it may be done"


def test_a_task_is_found_in_japanese(boss: Client) -> None:
    boss.cookies["django_language"] = "ja"
    assert reverse("admin:memoryhub_actor_changelist") in dict(found(boss, "書き出")).values()


def test_nobody_finds_what_he_may_not_see(hub: Hub, staff: Callable[..., Client]) -> None:
    hub.remember("The kettle was bought in Kyoto")
    kei = staff("view_agent")
    assert found(kei, "kettle") == []
    assert [title for title, _link in found(kei, "agents")] == ["Agents"]
    assert list_of(ApiKey) not in [link for _title, link in found(logged_in(person(CURATOR, "aki")), "key")]


@pytest.mark.parametrize(
    ("held", "address"),
    [(("view_session", "view_message"), "conversations_session"), (("view_message",), "conversations_message")],
)
def test_a_sidebar_entry_opens_the_first_of_its_screens_that_one_may_see(
    staff: Callable[..., Client], hub: Hub, held: tuple[str, ...], address: str
) -> None:
    areas = staff(*held).get(reverse("admin:index")).context["sidebar_navigation"][0]["items"]
    shown = {str(each["title"]): str(each["link_callback"]) for each in areas if each["has_permission"]}
    assert shown == {"Conversations": reverse(f"admin:{address}_changelist")}


def test_the_sidebar_has_eleven_entries_and_marks_the_area_of_every_screen(boss: Client, hub: Hub) -> None:
    for screen, area in (
        ("strength_merge", "Sleep"),
        ("summaries_document", "Projects"),
        ("memoryhub_actor", "Agents"),
    ):
        page = boss.get(reverse(f"admin:{screen}_changelist"))
        areas = page.context["sidebar_navigation"][0]["items"]
        assert len(areas) == 11
        assert [str(each["title"]) for each in areas if each["active"]] == [area]


def test_a_list_is_called_the_same_in_sidebar_title_and_breadcrumb(boss: Client, hub: Hub) -> None:
    text = boss.get(list_of(Session)).content.decode()
    assert "<title>" in text and "Conversations" in text.partition("</title>")[0]
    assert ">Sessions<" not in text
