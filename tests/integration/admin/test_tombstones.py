"""Decisions against memories: where the old wording still stands, what is kept out, and writing it again by hand."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from strength.models import Memory, MemoryRevision, Merge, Tombstone
from tests.integration.admin.conftest import SECRET_USER, Hub, form_of, list_of, page_of


def saved(browser: Client, memory: Memory, **values: str) -> str:
    form = form_of(browser.get(page_of(memory)))
    return browser.post(page_of(memory), {**form, **values, "_continue": "1"}, follow=True).content.decode()


def rejected(browser: Client, memory: Memory) -> str:
    return browser.post(
        page_of(memory, "curate"), {"verb": "reject", "reason": "It is a joke."}, follow=True
    ).content.decode()


def added(browser: Client, content: str, **values: str) -> Any:
    empty = form_of(browser.get(list_of(Memory, "add")))
    given = {**empty, "agent": "kana", "user_id": SECRET_USER, "content": content, **values}
    return browser.post(list_of(Memory, "add"), given)


def test_an_edit_says_that_the_old_wording_is_kept_out_and_where_it_still_stands(boss: Client, hub: Hub) -> None:
    hub.say("Who is on call?", "Ken is on call only until 20:00.", "Ken is on call until 18:00, he says.")
    quoted = hub.session.messages.get(content__contains="20:00")
    memory = hub.remember("Ken is on call until 20:00.")
    page = saved(boss, memory, content="Ken is on call until 18:00.")
    decided = Tombstone.objects.get()
    assert "The old wording is blocked." in page and page_of(decided) in page
    assert "It also occurs in 1 message" in page
    assert f"?at={quoted.pk}#message-{quoted.pk}" in page


def test_a_change_of_other_fields_and_words_that_nobody_said_are_not_talked_about(boss: Client, hub: Hub) -> None:
    memory = hub.remember("Ken is on call until 20:00.")
    assert "blocked" not in saved(boss, memory, tags="work")
    page = saved(boss, memory, content="Ken is never on call.")
    assert "is blocked" in page and "also occurs in" not in page


def test_a_rejected_memory_and_its_decision_lead_to_each_other(boss: Client, hub: Hub) -> None:
    page = rejected(boss, hub.memory)
    decided = Tombstone.objects.get()
    assert "It is blocked." in page
    assert "This text is blocked since" in page and page_of(decided) in page
    shown = boss.get(page_of(decided)).content.decode()
    assert hub.memory.content in shown and page_of(hub.memory) in shown and "It is a joke." in shown
    listed = boss.get(list_of(Tombstone)).content.decode()
    assert re.search(rf'href="{page_of(decided)}"[^>]*>\s*(<[^>]*>)*{hub.memory.content}', listed)


def test_the_list_shows_the_former_text_beside_the_one_that_replaced_it(boss: Client, hub: Hub) -> None:
    saved(boss, hub.memory, content="Likes hojicha ice cream")
    for shown in (page_of(Tombstone.objects.get()), list_of(Tombstone)):
        text = boss.get(shown).content.decode()
        assert "Likes matcha ice cream" in text and "Likes hojicha ice cream" in text
    assert "A former wording is blocked since" in boss.get(page_of(hub.memory)).content.decode()


def test_what_was_deleted_for_good_is_shown_nowhere(boss: Client, hub: Hub) -> None:
    content = hub.memory.content
    boss.post(page_of(hub.memory, "delete"), {"post": "yes"})
    for shown in (page_of(Tombstone.objects.get()), list_of(Tombstone)):
        text = boss.get(shown).content.decode()
        assert content not in text and ("no longer stored" in text or "(the text is not stored)" in text)


def test_texts_are_for_those_who_may_read_memories(staff: Any, boss: Client, hub: Hub) -> None:
    rejected(boss, hub.memory)
    browser = staff("view_tombstone")
    for shown in (page_of(Tombstone.objects.get()), list_of(Tombstone)):
        assert hub.memory.content not in browser.get(shown).content.decode()


def test_who_writes_a_rejected_text_again_is_asked_first(boss: Client, hub: Hub) -> None:
    rejected(boss, hub.memory)
    decided = Tombstone.objects.get()
    answer = added(boss, "likes matcha ice-cream")
    text = answer.content.decode()
    assert answer.status_code == 200 and Memory.objects.filter(status="active").count() == 0
    assert "was rejected on" in text and "by boss" in text and page_of(decided) in text
    assert 'name="despite"' in text
    assert added(boss, "Likes matcha ice cream", despite="1").status_code == 302
    assert Memory.objects.filter(status="active").count() == 1 and not Tombstone.objects.exists()


def test_another_users_decision_asks_nobody_else(boss: Client, hub: Hub) -> None:
    rejected(boss, hub.memory)
    assert added(boss, "Likes matcha ice cream", user_id="mika", new_user="mika").status_code == 302


def test_an_edit_says_which_proposals_it_drops(boss: Client, hub: Hub) -> None:
    other = hub.remember("Likes matcha icecream")
    Merge.objects.create(
        actor=hub.actor,
        kept=hub.memory,
        kept_version=hub.memory.version,
        absorbed=other,
        absorbed_version=other.version,
        likeness=0.9,
    )
    page = saved(boss, hub.memory, content="Likes hojicha ice cream")
    assert "1 merge proposal was about its former version, and is dropped." in page


def test_an_archiving_that_was_undone_is_not_part_of_its_life(boss: Client, hub: Hub) -> None:
    done = boss.post(page_of(hub.memory, "curate"), {"verb": "archive"}, follow=True)
    assert "Archived: Likes matcha ice cream" in done.content.decode()
    assert len(done.context["archivings"]) == 1
    number = MemoryRevision.objects.filter(memory=hub.memory).latest("number").number
    undone = boss.post(page_of(hub.memory, "undo"), {"number": number}, follow=True)
    assert undone.context["archivings"] == []


def test_keys_of_a_memory_are_those_of_the_review(boss: Client, hub: Hub) -> None:
    def keys(memory: Memory) -> dict[str, str]:
        return {verb: key for verb, _label, key in boss.get(page_of(memory)).context["verbs"]}

    waits = hub.remember("Drinks sencha", confidence=0.1)
    assert keys(waits)["approve"] == "a" and keys(waits)["reject"] == "r"
    assert keys(hub.memory)["archive"] == "v"


def test_a_search_by_meaning_says_what_hashing_compares(boss: Client, hub: Hub) -> None:
    asked = {"q": "dessert", "by": "meaning", "actor__agent__agent_id__exact": "kana", "user": SECRET_USER}
    assert "This server compares spellings" in boss.get(list_of(Memory), asked).content.decode()
    assert "compares spellings" not in boss.get(list_of(Memory), {"q": "dessert"}).content.decode()


def found(browser: Client, words: str) -> list[Any]:
    return [row.pk for row in browser.get(list_of(Tombstone), {"q": words}).context["cl"].result_list]


@pytest.mark.parametrize("words", ["matcha", "liked ice", "MATCHA cream", "抹茶", "boss"])
def test_blocked_texts_are_found_by_their_words_in_any_inflection(boss: Client, hub: Hub, words: str) -> None:
    for content in ("Likes matcha ice cream, 抹茶アイス", "Ken is on call until 20:00."):
        boss.post(page_of(hub.remember(content), "delete"), {"post": "yes"})
    of_matcha, of_ken = Tombstone.objects.order_by("created_at", "id").values_list("pk", flat=True)
    assert found(boss, words) == ([of_ken, of_matcha] if words == "boss" else [of_matcha])
    assert found(boss, "matcha 20:00") == found(boss, "the") == found(boss, "?") == []


def test_words_are_for_those_who_may_read_memories(staff: Any, boss: Client, hub: Hub) -> None:
    rejected(boss, hub.memory)
    browser = staff("view_tombstone")
    assert (found(boss, "matcha"), found(browser, "matcha")) == ([Tombstone.objects.get().pk], [])


@pytest.mark.parametrize("verb", ["reject", "delete", "edit"])
def test_a_client_that_writes_a_blocked_text_is_counted_and_the_review_says_who_decided(
    boss: Client, hub: Hub, verb: str
) -> None:
    former = hub.memory.content
    if verb == "edit":
        saved(boss, hub.memory, content="Likes hojicha ice cream")
    elif verb == "delete":
        boss.post(page_of(hub.memory, "delete"), {"post": "yes"})
    else:
        rejected(boss, hub.memory)
    again = hub.remember(former)
    decided = Tombstone.objects.get()
    assert again.status == "pending" and decided.held_back == 1
    Tombstone.objects.update(who_name="<b>ann</b>")
    shown = boss.get(reverse("review"), {"at": f"memory:{again.pk}"}).content.decode()
    words = {
        "reject": "&lt;b&gt;ann&lt;/b&gt;</bdi> rejected this on",
        "edit": "&lt;b&gt;ann&lt;/b&gt;</bdi> corrected this on",
        "delete": "&lt;b&gt;ann&lt;/b&gt;</bdi> deleted a memory with",
    }
    assert words[verb] in shown and page_of(decided) in shown
    assert ("Likes hojicha ice cream" in shown) is (verb == "edit")
