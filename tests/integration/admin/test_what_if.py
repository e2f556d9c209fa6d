"""What a change would do is shown before it is made, on a memory's page and in the review; nothing is lost or changed."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from conversations.admin.what_if import PERMISSIONS
from conversations.models import Receipt
from strength.models import Memory, MemoryRevision
from tests.integration.admin.conftest import Hub, form_of, page_of
from tests.integration.admin.test_review import proposed, queue, waiting

FRAGMENT = {"HX-Request": "true"}


def tried(boss: Client, memory: Memory, verb: str, headers: Any = FRAGMENT, **values: Any) -> Any:
    form = form_of(boss.get(page_of(memory)))
    return boss.post(page_of(memory, "what_if"), {**form, "try": verb, **values}, headers=headers)


@pytest.fixture(autouse=True)
def no_contexts_yet(hub: Hub) -> None:
    Receipt.objects.all().delete()


@pytest.fixture
def tea(hub: Hub) -> Memory:
    memory = hub.remember("The user likes green tea.")
    hub.ask("Which tea do I like?")
    return memory


def test_an_edit_is_shown_beside_what_is(boss: Client, tea: Memory) -> None:
    shown = tried(boss, tea, "edit", content="The user likes green tea with lemon.").content.decode()
    assert "1 of the latest 1 contexts would change." in shown
    assert "Assembled again now, 1 of them have the memory; after the change, 1." in shown
    assert "The user likes green tea." in shown and "The user likes green tea with lemon." in shown
    assert "Which tea do I like?" in shown and "Nothing was changed." in shown
    assert "<html" not in shown
    assert Memory.objects.get(pk=tea.pk).content == "The user likes green tea."
    assert not MemoryRevision.objects.filter(verb="edit").exists()


def test_without_javascript_it_is_a_page(boss: Client, tea: Memory) -> None:
    shown = tried(boss, tea, "archive", headers=None).content.decode()
    assert "<html" in shown and "leaves" in shown
    assert page_of(tea) in shown


def test_what_changes_nothing_says_so(boss: Client, hub: Hub) -> None:
    memory = hub.remember("The user likes green tea.")
    assert (
        "No context has been assembled yet that this could change." in tried(boss, memory, "archive").content.decode()
    )
    hub.ask("Which tea do I like?")
    assert "The latest context would not change." in tried(boss, memory, "edit", tags="drinks").content.decode()


@pytest.mark.parametrize(
    ("verb", "values", "problem"),
    [
        ("edit", {"content": " "}, "more than white space"),
        ("approve", {}, "cannot be approved"),
        ("edit", {"expected_version": "7", "content": "Something else."}, "has changed since"),
        ("explode", {}, "Unknown action"),
    ],
)
def test_what_the_change_would_refuse_is_refused(
    boss: Client, tea: Memory, verb: str, values: dict[str, str], problem: str
) -> None:
    shown = tried(boss, tea, verb, **values)
    assert shown.status_code == 200
    assert problem in shown.content.decode()


def test_it_takes_the_permissions_of_the_change_and_of_the_contexts(staff: Any, boss: Client, tea: Memory) -> None:
    form = {"try": "archive"}
    person = staff("view_memory", "change_memory")
    assert person.post(page_of(tea, "what_if"), form).status_code == 403
    assert b'id="what-if-choice"' not in person.get(page_of(tea)).content
    assert boss.get(page_of(tea, "what_if")).status_code == 405
    assert b'id="what-if-choice"' in boss.get(page_of(tea)).content


def test_the_review_shows_what_an_approval_would_bring_in(boss: Client, hub: Hub) -> None:
    waiting(hub, "The user likes green tea.")
    hub.ask("Which tea do I like?")
    shown = queue(boss)
    sent = {"verb": "try-approve", "item": str(shown.context["item"]), "version": shown.context["memory"].version}
    address = shown.context["form_url"]
    text = boss.post(address, sent, follow=True).content.decode()
    assert "after the change, 1." in text and "enters" in text
    typed = boss.post(address, {**sent, "content": "The user likes black tea."}, follow=True).content.decode()
    assert typed.count("The user likes black tea.") >= 2, "as an entry, and still in the editor"
    rejected = boss.post(address, {**sent, "verb": "try-reject"}, follow=True).content.decode()
    assert "The latest context would not change." in rejected
    assert Memory.objects.filter(status="pending").exists()
    assert "Unknown action" in boss.post(address, {**sent, "verb": "try-explode"}, follow=True).content.decode()


def test_the_review_shows_what_a_merge_would_do(boss: Client, hub: Hub) -> None:
    proposal = proposed(hub)
    hub.ask("Which tea do I like?")
    shown = queue(boss)
    sent = {"verb": "try-merge", "item": str(shown.context["item"]), "stays": str(proposal.absorbed_id)}
    text = boss.post(shown.context["form_url"], sent, follow=True).content.decode()
    assert "What would change: Merge" in text
    proposal.refresh_from_db()
    assert proposal.state == "proposed"


def test_the_review_shows_no_contexts_to_those_who_may_not_see_them(staff: Any, hub: Hub) -> None:
    waiting(hub, "The user likes green tea.")
    person = staff("change_memory", "view_memory", "change_merge", "view_merge")
    shown = queue(person)
    assert b"try-approve" not in shown.content
    sent = {"verb": "try-approve", "item": str(shown.context["item"])}
    assert person.post(reverse("review"), sent).status_code == 403


def test_policies_are_tried_on_the_page_of_their_agent_or_user(boss: Client, hub: Hub, tea: Memory) -> None:
    for row, name in ((hub.agent, "agent"), (hub.actor, "actor")):
        page = boss.get(page_of(row))
        form = form_of(page) | {"policy_include_profile": "false", "policy_include_semantic_memory": "false"}
        shown = boss.post(page.context["what_if_url"], form, headers=FRAGMENT).content.decode()
        assert "1 of the latest 1 contexts would change." in shown, (name, shown)
        assert "The user likes green tea." in shown
        row.refresh_from_db()
        assert "include_profile" not in row.policy
        wrong = boss.post(
            page.context["what_if_url"], {**form, "policy_max_tokens": "1"}, headers=FRAGMENT
        ).content.decode()
        assert "hub-problem" in wrong


def test_policies_take_the_permission_to_change_them(staff: Any, hub: Hub) -> None:
    person = staff(*(name.partition(".")[2] for name in PERMISSIONS))
    address = reverse("what_if")
    assert person.post(address, {"agent": hub.agent.pk}).status_code == 403
    assert b"Open an agent or a user" in person.get(address).content
    assert b"Open an agent or a user" in person.post(address, {"agent": "nobody"}).content
