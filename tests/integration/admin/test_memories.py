"""The memories' list and page: found by meaning, decided about one by one or many at once, and taken back."""

import io
import json
import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.models import Receipt
from memoryhub.admin.base import CappedPaginator
from memoryhub.admin.object_actions import UNDO
from memoryhub.auth.access import actor_for_writing, tenant_for_reading
from memoryhub.auth.actions import create_agent
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import command, curator
from memoryhub.embeddings import spaces
from memoryhub.importexport.native.jsonl import read_lines
from memoryhub.jobs.models import Job
from strength.actions.bulk_jobs import enqueue_curation
from strength.actions.curation import apply_transition, edit_memory
from strength.actions.memories import NewMemory, supersede_memory, write_memory
from strength.actions.search import MemorySearch, search_memories
from strength.domain.memories import Kind, ScopeLevel
from strength.models import Memory, MemoryRevision, Merge, SavedView, Tombstone
from tests.conftest import run_jobs
from tests.factories.planting import API, made
from tests.integration.admin.conftest import BY, NOW, SCRIPT, SECRET_USER, Hub, form_of, list_of, page_of

RTL = "\u202e\u05e9\u05dc\u05d5\u05dd"
MOST_QUERIES = 25
MOST_BYTES = 400 * 1024
MEANING = {"by": "meaning", "actor__agent__agent_id__exact": "kana", "user": SECRET_USER}


def told(response: Any) -> str:
    return " ".join(str(message) for message in response.context["messages"])


def levels(response: Any) -> list[str]:
    return [message.level_tag for message in response.context["messages"]]


def undo_of(response: Any) -> str:
    """Return where the Undo button of the page posts to."""
    tags = [message.extra_tags for message in response.context["messages"]]
    (address,) = [tag.removeprefix(UNDO) for tag in tags if tag and tag.startswith(UNDO)]
    assert f'action="{address}"' in unescape(response.content.decode())
    return str(address)


def text_of(browser: Client, page: str, **query: Any) -> str:
    response = browser.get(page, query)
    assert response.status_code == 200
    return str(response.content.decode())


def ask(browser: Client, verb: str, *memories: Memory, query: str = "", **values: Any) -> Any:
    """Choose rows in the list and an action."""
    chosen = {"action": verb, "_selected_action": [memory.pk for memory in memories], **values}
    return browser.post(list_of(Memory) + query, chosen, follow=True)


def fields_of(response: Any) -> dict[str, list[str]]:
    """Return what the form of the confirmation page would send."""
    form = re.search(r'<form[^>]*id="confirm-form".*?</form>', response.content.decode(), re.DOTALL)
    assert form is not None
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form.group()):
        fields.setdefault(name, []).append(unescape(value))
    return fields


def say_yes(browser: Client, response: Any, query: str = "", **values: Any) -> Any:
    return browser.post(list_of(Memory) + query, {**fields_of(response), **values}, follow=True)


def pending(hub: Hub, text: str) -> Memory:
    return hub.remember(text, confidence=0.1)


def state(memory: Memory) -> tuple[str, bool, int]:
    row = Memory.objects.get(pk=memory.pk)
    return row.status, row.pinned, row.version


# The list: searched by meaning


def test_search_by_meaning_shows_the_best_first_with_their_scores(boss: Client, hub: Hub) -> None:
    hub.remember("Plays the koto on Sundays")
    response = boss.get(list_of(Memory), {"q": "matcha ice", **MEANING})
    rows = list(response.context["cl"].result_list)
    assert rows[0].pk == hub.memory.pk and rows[0].found.final_score >= rows[-1].found.final_score
    text = response.content.decode()
    assert f"{rows[0].found.final_score:.2f}</span>" in text and "recency" in text
    assert "As kana would find it for" in text
    numbers = Memory.objects.select_related("numbers").get(pk=hub.memory.pk).numbers  # type: ignore[attr-defined]
    assert numbers.candidate_count == hub.memory.numbers.candidate_count + 1, "a receipt counted it, no search here"  # type: ignore[attr-defined]


def test_search_by_meaning_works_in_japanese_and_keeps_the_filters(boss: Client, hub: Hub) -> None:
    liked = hub.remember("抹茶アイスが好きです")
    hub.remember("日曜日に琴を弾く")
    rows = boss.get(list_of(Memory), {"q": "抹茶が好き", **MEANING}).context["cl"].result_list
    assert rows[0].pk == liked.pk
    narrowed = boss.get(list_of(Memory), {"q": "抹茶が好き", **MEANING, "kind__exact": "preference"})
    assert liked.pk not in {row.pk for row in narrowed.context["cl"].result_list}
    apply_transition(memory=liked, verb="archive", by=BY, reason="", now=NOW)
    archived = boss.get(list_of(Memory), {"q": "抹茶が好き", **MEANING, "status__exact": "archived"})
    assert [row.pk for row in archived.context["cl"].result_list] == [liked.pk]


def test_search_by_meaning_shows_all_that_the_agent_finds_for_a_user(boss: Client, hub: Hub) -> None:
    """A user's searches find what is the agent's own, and what other agents share, too."""
    owners = [("kana", ""), ("other", "")]
    create_agent(agent_id="other", values={}, by=BY, now=NOW)
    shared = {
        write_memory(
            actor=actor_for_writing(BY, agent_id, user_id, now=NOW),
            new=NewMemory(content=f"Ice cream is stored by {agent_id}", scope_level=ScopeLevel.UNIVERSAL),
            by=BY,
            now=NOW,
        )[0].pk
        for agent_id, user_id in owners
    }
    rows = boss.get(list_of(Memory), {"q": "matcha ice cream", **MEANING}).context["cl"].result_list
    tenant = tenant_for_reading(BY, "kana", SECRET_USER)
    search = MemorySearch(query=spaces.text_query("matcha ice cream", payer=tenant.payer), limit=100)
    found = search_memories(tenant=tenant, search=search, by=BY, mark=False, now=NOW).found
    assert [row.pk for row in rows] == [each.memory.pk for each in found]
    assert shared | {hub.memory.pk} == {row.pk for row in rows}


def test_search_by_meaning_asks_whose_memory_and_uses_words_meanwhile(boss: Client, hub: Hub) -> None:
    create_agent(agent_id="other", values={}, by=BY, now=NOW)
    response = boss.get(list_of(Memory), {"q": "matcha", "by": "meaning", "kind__exact": "preference"})
    text = response.content.decode()
    assert "choose-whose" in text and 'name="by" value="meaning" checked' in text
    assert [row.pk for row in response.context["cl"].result_list] == [hub.memory.pk]
    assert '<input type="hidden" name="kind__exact" value="preference">' in text
    assert "choose-whose" not in text_of(boss, list_of(Memory), q="matcha", by="words")
    boss.get(list_of(Memory), {"q": "matcha", **MEANING})
    again = boss.get(list_of(Memory), {"q": "matcha", "by": "meaning"}).content.decode()
    assert "choose-whose" in again, "the agent that was searched last is not taken silently"
    offered = dict(response.context["cl"].above["offered"])
    assert set(offered) == {"kana", "other"}
    found = boss.get(list_of(Memory) + offered["kana"])
    assert "Memories of kana" in found.content.decode()
    assert [tab["title"] for tab in found.context["cl"].above["tabs"] if tab["is_chosen"]] == ["Active"]


def test_search_by_meaning_without_a_user_looks_through_all_of_the_agents_users(boss: Client, hub: Hub) -> None:
    mine = write_memory(
        actor=actor_for_writing(BY, "kana", "", now=NOW), new=NewMemory(content="Matcha is sold out"), by=BY, now=NOW
    )[0]
    response = boss.get(list_of(Memory), {"q": "matcha", "by": "meaning"})
    assert {row.pk for row in response.context["cl"].result_list} == {hub.memory.pk, mine.pk}
    assert "all its users" in response.content.decode()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"actor__agent__agent_id__exact": "nobody"}, "There is no agent “nobody”"),
        ({"actor__agent__agent_id__exact": "kana", "user": "nobody"}, "kana has no user “nobody”"),
        ({"user": SCRIPT}, "There is no user “"),
    ],
)
def test_an_unknown_name_is_told(boss: Client, hub: Hub, names: dict[str, str], words: str) -> None:
    text = text_of(boss, list_of(Memory), **names)
    assert words in text and SCRIPT not in text
    assert "unknown-name" not in text_of(boss, list_of(Memory), **{"actor__agent__agent_id__exact": "kana"})


# The list: states, filters and views


def test_the_tabs_count_each_state_under_the_other_filters(boss: Client, hub: Hub) -> None:
    apply_transition(memory=hub.memory, verb="pin", by=BY, reason="", now=NOW)
    for number in range(2):
        pending(hub, f"waits {number}")
    apply_transition(memory=hub.remember("gone"), verb="archive", by=BY, reason="", now=NOW)
    hub.remember("A summary", kind=Kind.SUMMARY)

    def counts(**query: str) -> dict[str, Any]:
        tabs = boss.get(list_of(Memory), query).context["cl"].above["tabs"]
        return {str(tab["title"]): tab["count"] for tab in tabs}

    everything = {"All": "4", "Active": "1", "Pending": "2", "Archived": "1", "Rejected": "0", "Pinned": "1"}
    assert counts() == counts(status__exact="archived") == everything, "summaries are hidden"
    assert counts(summaries="shown")["All"] == "5"
    assert counts(kind__exact="preference")["All"] == "1"
    assert set(counts(q="waits").values()) == {None}, "a search is not counted once more"


def test_summaries_are_hidden_until_they_are_asked_for(boss: Client, hub: Hub) -> None:
    summary = hub.remember("We spoke about matcha", kind=Kind.SUMMARY)

    def shows(**query: str) -> bool:
        return summary.pk in {row.pk for row in boss.get(list_of(Memory), query).context["cl"].result_list}

    assert not shows() and not shows(q="matcha") and not shows(kind__exact="preference")
    assert shows(summaries="shown") and shows(kind__exact="summary") and shows(q=str(summary.pk))
    assert shows(q="spoke about matcha", by="meaning"), "an agent finds it too"
    page = ask(boss, "pin", hub.memory, select_across="1")
    assert "1 memory will be changed" in page.content.decode(), "what is hidden is not selected"


def test_each_filter_is_a_chip_that_takes_it_away(boss: Client, hub: Hub) -> None:
    query = {"q": SCRIPT, "kind__exact": "preference", "user": SECRET_USER, "status__exact": "active"}
    response = boss.get(list_of(Memory), query)
    chips = response.context["cl"].above["chips"]
    assert SCRIPT not in response.content.decode()
    left = [set(query) - set(parse_qs(chip["href"].removeprefix("?"))) for chip in chips]
    assert left == [{"q"}, {"kind__exact"}, {"user"}], "tabs say the state"


def test_a_view_is_saved_by_name_and_is_its_owners_alone(boss: Client, staff: Callable[..., Client], hub: Hub) -> None:
    views = reverse("admin:strength_memory_views")
    query = "kind__exact=preference&user=a%26b"
    saved = boss.post(views, {"name": f" Tastes  {SCRIPT[:20]}", "query": f"{query}&p=2"}, follow=True)
    assert saved.redirect_chain[-1][0].endswith(f"?{query}")
    [view] = saved.context["cl"].above["views"]
    assert view.query == query and SCRIPT[:20] not in saved.content.decode()
    boss.post(views, {"name": view.name, "query": "kind__exact=fact"})
    assert SavedView.objects.get().query == "kind__exact=fact", "the name is known already"
    other = staff("view_memory")
    assert not other.get(list_of(Memory)).context["cl"].above["views"]
    other.post(views, {"delete": view.pk})
    assert SavedView.objects.count() == 1
    assert levels(boss.post(views, {"name": " ", "query": query}, follow=True)) == ["error"]
    boss.post(views, {"delete": view.pk})
    assert not SavedView.objects.exists()
    assert boss.get(views).status_code == 405


def test_an_embedder_that_is_away_is_told_and_words_are_used(
    boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spaces, "embed_query", lambda *args, **options: None)
    response = boss.get(list_of(Memory), {"q": "matcha ice cream", **MEANING})
    assert "The embedder is unavailable" in response.content.decode()
    assert [row.pk for row in response.context["cl"].result_list] == [hub.memory.pk]


@pytest.mark.parametrize("agent", ["nobody", "%00", "a b", "x" * 300])
def test_search_by_meaning_of_nobodys_memory_finds_nothing_or_asks(boss: Client, hub: Hub, agent: str) -> None:
    query = {"q": SCRIPT, **MEANING, "actor__agent__agent_id__exact": agent}
    assert boss.get(list_of(Memory), query).status_code == 200


def test_an_id_is_found_by_itself_also_where_meaning_is_asked_for(boss: Client, hub: Hub) -> None:
    response = boss.get(list_of(Memory), {"q": str(hub.memory.pk), **MEANING})
    assert [row.pk for row in response.context["cl"].result_list] == [hub.memory.pk]


# The list: buttons of a row


def row_button(text: str, memory: Memory, verb: str) -> tuple[str, str]:
    """Return a button's tag and where it posts to."""
    for tag in re.findall(r"<button[^>]*row-button[^>]*>", text):
        address = unescape(re.search(r'formaction="([^"]+)"', tag).group(1))  # type: ignore[union-attr]
        if str(memory.pk) in address and f'value="{verb}"' in tag:
            return tag, address
    raise AssertionError(f"no button {verb}")


def test_pin_of_a_row_posts_leads_back_to_the_row_and_is_taken_back(boss: Client, hub: Hub) -> None:
    query = {"kind__exact": "preference", "q": "matcha"}
    tag, address = row_button(text_of(boss, list_of(Memory), **query), hub.memory, "pin")
    assert 'aria-pressed="false"' in tag and 'form="row-form"' in tag and "Likes matcha" in tag
    here = re.search(r'name="next" value="([^"]+)"', text_of(boss, list_of(Memory), **query))
    assert here is not None
    response = boss.post(address, {"verb": "pin", "row": "1", "next": unescape(here.group(1))}, follow=True)
    back = response.redirect_chain[-1][0]
    assert parse_qs(urlsplit(back).query) == {name: [value] for name, value in query.items()}
    assert back.endswith(f"#row-{hub.memory.pk}") and f'id="row-{hub.memory.pk}"' in response.content.decode()
    assert state(hub.memory) == ("active", True, 2)
    assert 'aria-pressed="true"' in row_button(response.content.decode(), hub.memory, "unpin")[0]
    undone = boss.post(undo_of(response), follow=True)
    assert undone.redirect_chain[-1][0] == back and state(hub.memory) == ("active", False, 3)


def test_a_memory_that_waits_is_approved_in_the_list(boss: Client, hub: Hub) -> None:
    waiting = pending(hub, "harmless")
    text = text_of(boss, list_of(Memory))
    _tag, address = row_button(text, waiting, "approve")
    edit_memory(memory=waiting, values={"content": "harmful"}, expected_version=None, by=BY, reason="", now=NOW)
    assert levels(boss.post(address, {"verb": "approve"}, follow=True)) == ["error"], "another text was read"
    _tag, address = row_button(text_of(boss, list_of(Memory)), waiting, "approve")
    assert levels(boss.post(address, {"verb": "approve"}, follow=True)) == ["success"]
    assert state(waiting)[0] == "active"


def test_who_may_only_look_has_no_buttons(staff: Callable[..., Client], hub: Hub) -> None:
    apply_transition(memory=hub.memory, verb="pin", by=BY, reason="", now=NOW)
    browser = staff("view_memory")
    text = text_of(browser, list_of(Memory))
    assert '<button type="submit" form="row-form"' not in text and "pinned" in text
    for page in (page_of(hub.memory, "undo"), page_of(hub.memory, "unmerge"), page_of(hub.memory, "curate")):
        assert browser.post(page, {"verb": "unpin", "number": "2"}).status_code == 403
    assert browser.post(reverse("admin:strength_memory_undo_batch")).status_code == 403
    assert state(hub.memory) == ("active", True, 2)


# Taking back


@pytest.mark.parametrize(
    ("before", "verb"),
    [("", "pin"), ("pin", "unpin"), ("pin", "archive"), ("archive", "reactivate"), ("pending", "approve"),
     ("pending", "reject"), ("", "reject")],
)  # fmt: skip
def test_each_button_offers_the_way_back(boss: Client, hub: Hub, before: str, verb: str) -> None:
    memory = pending(hub, "waits") if before == "pending" else hub.memory
    if before not in ("", "pending"):
        apply_transition(memory=memory, verb=before, by=BY, reason="", now=NOW)
    stood = state(memory)[:2]
    if verb == "approve":
        unread = boss.post(page_of(memory, "curate"), {"verb": verb}, follow=True)
        assert levels(unread) == ["error"] and "no version of the text" in told(unread)
    read = {"verb": verb, "version": state(memory)[2]}
    response = boss.post(page_of(memory, "curate"), read, follow=True)
    assert state(memory)[:2] != stood
    undone = boss.post(undo_of(response), follow=True)
    assert "The change was undone" in told(undone) and state(memory)[:2] == stood
    assert not Tombstone.objects.exists()
    again = boss.post(undo_of(response), follow=True)
    assert levels(again) == ["error"] and "changed since" in told(again) and state(memory)[:2] == stood


def test_an_edit_is_taken_back_with_the_decision_that_it_left(boss: Client, hub: Hub) -> None:
    values = {**form_of(boss.get(page_of(hub.memory))), "content": "Hates every sort of soup"}
    response = boss.post(page_of(hub.memory), values, follow=True)
    assert Tombstone.objects.count() == 1
    boss.post(undo_of(response))
    memory = Memory.objects.get(pk=hub.memory.pk)
    assert memory.content == "Likes matcha ice cream" and memory.version == 3
    assert not Tombstone.objects.exists()


def test_saving_nothing_offers_nothing_to_take_back(boss: Client, hub: Hub) -> None:
    response = boss.post(page_of(hub.memory), form_of(boss.get(page_of(hub.memory))), follow=True)
    assert not [message for message in response.context["messages"] if UNDO in (message.extra_tags or "")]


def test_a_restored_revision_is_taken_back(boss: Client, hub: Hub) -> None:
    edit_memory(memory=hub.memory, values={"content": "Hates soup"}, expected_version=None, by=BY, reason="", now=NOW)
    response = boss.post(page_of(hub.memory, "restore"), {"number": "1", "version": "2"}, follow=True)
    assert Memory.objects.get(pk=hub.memory.pk).content == "Likes matcha ice cream"
    boss.post(undo_of(response))
    assert Memory.objects.get(pk=hub.memory.pk).content == "Hates soup"


def test_what_an_approval_ended_holds_again_when_it_is_taken_back(boss: Client, hub: Hub) -> None:
    new = supersede_memory(
        memory=hub.memory,
        new=NewMemory(content="Likes mango ice cream", needs_approval=True),
        at=NOW,
        by=BY,
        reason="",
        now=NOW,
    )
    assert new.status == "pending" and Memory.objects.get(pk=hub.memory.pk).valid_to is None
    read = {"verb": "approve", "version": new.version}
    response = boss.post(page_of(new, "curate"), read, follow=True)
    ended = Memory.objects.get(pk=hub.memory.pk)
    assert ended.valid_to is not None and ended.superseded_by_id == new.pk
    boss.post(undo_of(response))
    ended.refresh_from_db()
    assert ended.valid_to is None and ended.superseded_by_id is None
    waiting = Memory.objects.get(pk=new.pk)
    assert waiting.status == "pending" and waiting.supersedes == [hub.memory.pk]
    boss.post(page_of(new, "curate"), {"verb": "approve", "version": waiting.version})
    assert Memory.objects.get(pk=hub.memory.pk).valid_to is not None, "approved anew, it ends it anew"


@pytest.mark.parametrize("number", ["", "x", "99", "1"])
def test_there_is_nothing_to_take_back(boss: Client, hub: Hub, number: str) -> None:
    response = boss.post(page_of(hub.memory, "undo"), {"number": number}, follow=True)
    assert levels(response) == ["error"] and state(hub.memory)[2] == 1
    for batch in ("", "x", str(hub.memory.pk)):
        many = boss.post(reverse("admin:strength_memory_undo_batch"), {"batch": batch}, follow=True)
        assert levels(many) == ["error"]


def test_a_get_takes_nothing_back(boss: Client, hub: Hub) -> None:
    apply_transition(memory=hub.memory, verb="pin", by=BY, reason="", now=NOW)
    assert boss.get(page_of(hub.memory, "undo"), {"number": "2"}).status_code == 405
    assert boss.get(page_of(hub.memory, "unmerge")).status_code == 405
    assert boss.get(reverse("admin:strength_memory_undo_batch")).status_code == 405
    assert state(hub.memory) == ("active", True, 2)


# Many at once


def test_the_page_counts_what_will_change_and_what_not_and_why(boss: Client, hub: Hub) -> None:
    waiting, other = pending(hub, "waits"), hub.remember(f"{SCRIPT} {RTL}")
    page = ask(boss, "archive", hub.memory, waiting, other)
    text = page.content.decode()
    assert "2 memories will be changed" in text and "1 left unchanged" in text and "pending" in text
    assert "Likes matcha" in text and SCRIPT not in text and 'name="reason"' in text
    assert {state(each)[2] for each in (hub.memory, waiting, other)} == {1}, "nothing was done yet"
    done = say_yes(boss, page, reason="a clean-up")
    assert "Done: Archive, 2 memories." in told(done) and "1 left unchanged" in told(done)
    assert {state(each)[0] for each in (hub.memory, other)} == {"archived"}
    assert set(MemoryRevision.objects.filter(verb="archive").values_list("reason", flat=True)) == {"a clean-up"}
    assert AuditEntry.objects.filter(verb="archive", reason="a clean-up").count() == 2


def test_what_stays_is_told_by_its_reason(boss: Client, hub: Hub) -> None:
    waits = [pending(hub, f"waits {number}") for number in range(2)]
    archived = hub.remember("put aside")
    apply_transition(memory=archived, verb="archive", by=BY, reason="", now=NOW)
    page = ask(boss, "archive", hub.memory, *waits, archived)
    reasons = page.context["left"]
    assert [reason["text"].split(":")[0] for reason in reasons] == ["2 left unchanged", "1 left unchanged"]
    shown = [{each["memory"].pk for each in reason["examples"]} for reason in reasons]
    assert shown == [{each.pk for each in waits}, {archived.pk}]
    text = page.content.decode()
    places = [text.index(words) for words in ("2 left unch", "waits 0", "1 left unch", "put aside")]
    assert places == sorted(places)


def test_of_many_that_stay_some_are_shown(boss: Client, hub: Hub) -> None:
    page = ask(boss, "archive", hub.memory, *(pending(hub, f"waits {number}") for number in range(7)))
    [reason] = page.context["left"]
    assert (len(reason["examples"]), reason["more"]) == (5, "2") and "and 2 more" in page.content.decode()


def test_many_are_taken_back_as_one_but_for_what_was_changed_since(boss: Client, hub: Hub) -> None:
    rows = [hub.memory, *(hub.remember(f"memory {number}") for number in range(3))]
    query = "?kind__exact=note"
    done = say_yes(boss, ask(boss, "archive", *rows), reason="mistaken")
    assert len(set(MemoryRevision.objects.filter(verb="archive").values_list("batch", flat=True))) == 1
    apply_transition(memory=rows[3], verb="reactivate", by=BY, reason="", now=NOW)
    undone = boss.post(undo_of(done), follow=True)
    assert "3 memories are as they were before" in told(undone) and "1 left unchanged" in told(undone)
    assert [state(each)[0] for each in rows] == ["active"] * 4 and state(rows[3])[2] == 3
    assert query not in undone.redirect_chain[-1][0]
    again = boss.post(undo_of(done), follow=True)
    assert "4 left unchanged" in told(again)


def test_many_lead_back_to_the_filtered_list(boss: Client, hub: Hub) -> None:
    query = "?kind__exact=preference"
    done = say_yes(boss, ask(boss, "pin", hub.memory, query=query), query=query)
    assert done.redirect_chain[-1][0].endswith(query)
    assert boss.post(undo_of(done), follow=True).redirect_chain[-1][0].endswith(query)
    assert state(hub.memory) == ("active", False, 3)


def test_many_rejected_are_taken_back_with_their_decisions(boss: Client, hub: Hub) -> None:
    rows = [pending(hub, "the first rumour"), pending(hub, "another tale")]
    done = say_yes(boss, ask(boss, "reject", *rows), reason="untrue")
    assert Tombstone.objects.count() == 2
    boss.post(undo_of(done))
    assert [state(each)[0] for each in rows] == ["pending"] * 2 and not Tombstone.objects.exists()


def test_what_was_edited_after_the_page_was_read_is_left(boss: Client, hub: Hub) -> None:
    waiting = pending(hub, "harmless")
    page = ask(boss, "approve", waiting)
    edit_memory(memory=waiting, values={"content": "harmful"}, expected_version=None, by=BY, reason="", now=NOW)
    done = say_yes(boss, page)
    assert levels(done) == ["warning"] and state(waiting)[0] == "pending"


def test_what_is_so_already_is_told_and_leaves_no_revision(boss: Client, hub: Hub) -> None:
    page = ask(boss, "unpin", hub.memory)
    assert "Nothing would change" in page.content.decode() and "in this state already" in page.content.decode()
    assert levels(say_yes(boss, page)) == ["warning"] and state(hub.memory)[2] == 1


def test_all_that_match_are_taken_within_the_limit(boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [hub.remember(f"memory {number}") for number in range(3)]
    query = "?kind__exact=note"
    page = ask(boss, "pin", rows[0], query=query, select_across="1")
    assert "3 memories will be changed" in page.content.decode()
    hub.remember("one more, which nobody saw")
    done = say_yes(boss, page, query=query)
    assert "Done: Pin, 3 memories." in told(done), "those that the page counted, and no others"


def test_a_large_selection_is_a_job_with_progress_and_one_undo(
    boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strength.admin.bulk.MAX_SELECTED", 2)
    monkeypatch.setattr("strength.actions.bulk_jobs.SLICE_SIZE", 2)
    rows = [hub.remember(f"memory {number}") for number in range(5)]
    query = "?kind__exact=note"
    archived = apply_transition(memory=rows[4], verb="archive", by=BY, reason="", now=NOW)
    page = ask(boss, "archive", rows[0], query=query, select_across="1")
    text = page.content.decode()
    assert "4 memories will be changed" in text and "1 is left unchanged" in text
    seen = fields_of(page)
    late = NewMemory(content="one more, which nobody saw")
    write_memory(actor=hub.actor, new=late, by=BY, now=timezone.now())
    edit_memory(
        memory=rows[1],
        values={"content": "edited meanwhile"},
        expected_version=None,
        by=BY,
        reason="",
        now=timezone.now(),
    )
    ordered = boss.post(list_of(Memory) + query, {**seen, "reason": "spring cleaning"}, follow=True)
    assert "as soon as a worker is free" in ordered.content.decode()
    assert state(rows[0])[0] == "active", "nothing is done while the page waits"
    assert "spring" not in str(Job.objects.get(kind="curate_memories").payload)

    run_jobs()
    done = boss.get(ordered.request["PATH_INFO"]).content.decode()
    assert "3 memories were changed." in done and "http-equiv" not in done
    assert [state(row)[0] for row in rows] == ["archived", "active", "archived", "archived", "archived"]
    assert Memory.objects.get(content="one more, which nobody saw").status == "active"
    revision = MemoryRevision.objects.filter(memory=rows[0]).latest("number")
    assert (revision.who_kind, revision.who_name, revision.reason) == ("curator", "boss", "spring cleaning")

    undo_at = f"{reverse('admin:strength_memory_undo_batch')}?batch={revision.batch}"
    assert undo_at in unescape(done)
    undone = boss.post(undo_at, follow=True)
    run_jobs()
    assert "Undone" in boss.get(undone.request["PATH_INFO"]).content.decode()
    assert [state(row)[0] for row in rows] == ["active"] * 4 + ["archived"]
    archived.refresh_from_db()
    assert MemoryRevision.objects.filter(memory=archived).latest("number").verb == "archive", "left alone"


def test_labels_of_chosen_memories_are_changed_and_undone(boss: Client, hub: Hub) -> None:
    rows = [hub.remember(f"memory {number}", tags=["old"]) for number in range(2)]
    page = ask(boss, "relabel", *rows)
    assert "2 memories will be changed" in page.content.decode() and 'name="add_tags"' in page.content.decode()
    fields = fields_of(page)
    empty = boss.post(list_of(Memory), {**fields, "namespace": "facts"}).content.decode()
    assert "A namespace is a path" in empty and "2 memories will be changed" in empty
    assert "Name at least one tag" in boss.post(list_of(Memory), fields).content.decode()
    given = {**fields, "add_tags": "tea\ngreen tea", "remove_tags": "old", "kind": "fact"}
    done = boss.post(list_of(Memory), given, follow=True)
    assert "Done: Change tags, kind or namespace, 2 memories. Add tags: " in told(done)
    stored = Memory.objects.filter(pk__in=[row.pk for row in rows])
    assert all((row.tags, row.kind) == (["tea", "green tea"], "fact") for row in stored)
    batch = MemoryRevision.objects.filter(memory=rows[0]).latest("number").batch
    boss.post(f"{reverse('admin:strength_memory_undo_batch')}?batch={batch}", follow=True)
    assert all((row.tags, row.kind) == (["old"], "note") for row in stored.all())


def test_labels_of_a_large_selection_are_changed_by_a_job(
    boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strength.admin.bulk.MAX_SELECTED", 2)
    rows = [hub.remember(f"memory {number}") for number in range(5)]
    query = "?kind__exact=note"
    page = ask(boss, "relabel", rows[0], query=query, select_across="1")
    boss.post(list_of(Memory) + query, {**fields_of(page), "namespace": "/tea/{actorId}/"})
    run_jobs()
    namespaces = set(Memory.objects.filter(pk__in=[row.pk for row in rows]).values_list("namespace", flat=True))
    assert len(namespaces) == 1 and namespaces.pop().startswith("/tea/")


def test_an_unknown_batch_and_a_stranger_are_refused(boss: Client, hub: Hub, staff: Callable[..., Client]) -> None:
    address = reverse("admin:strength_memory_batch", args=[hub.memory.pk])
    assert boss.get(address).status_code == 404
    assert staff("view_memory").get(address).status_code == 403


def test_the_page_of_a_deletion_counts_and_offers_no_way_back(boss: Client, hub: Hub) -> None:
    batch = enqueue_curation(
        memory_ids=[hub.memory.pk],
        verb="delete",
        by=command("test"),
        reason="",
        seen_at=timezone.now(),
        now=NOW,
        actor=hub.actor,
    )
    run_jobs()
    shown = text_of(boss, reverse("admin:strength_memory_batch", args=[batch]))
    assert "1 memory was deleted permanently" in shown
    assert reverse("admin:strength_memory_undo_batch") not in shown


def test_a_job_that_was_interrupted_goes_on_where_it_stopped(
    boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strength.actions.bulk_jobs.SLICE_SIZE", 2)
    monkeypatch.setattr("strength.actions.bulk_jobs.SECONDS_PER_SLICE", 1e9)
    rows = [hub.remember(f"memory {number}") for number in range(5)]
    batch = enqueue_curation(
        memory_ids=[row.pk for row in rows],
        verb="pin",
        by=curator(User.objects.get(username="boss").pk, "boss"),
        reason="",
        seen_at=timezone.now(),
        now=NOW,
    )
    for pinned in (2, 4, 5):
        Job.objects.update(due_at=NOW)
        run_jobs()
        assert Memory.objects.filter(pinned=True, pk__in=[row.pk for row in rows]).count() == pinned
    assert MemoryRevision.objects.filter(batch=batch).count() == 5


LEAVES_MEANWHILE = """
CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN UPDATE auth_user SET is_active = false WHERE username = 'boss'; RETURN NULL; END $$;
CREATE TRIGGER leave AFTER INSERT ON strength_memoryrevision
FOR EACH ROW WHEN (NEW.verb = 'pin') EXECUTE FUNCTION leave();
"""


def test_a_job_ends_whose_person_leaves_while_it_runs(boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strength.actions.bulk_jobs.SLICE_SIZE", 2)
    rows = [hub.remember(f"memory {number}") for number in range(5)]
    by, keys = curator(User.objects.get(username="boss").pk, "boss"), [row.pk for row in rows]
    enqueue_curation(memory_ids=keys, verb="pin", by=by, reason="", seen_at=timezone.now(), now=NOW)
    connection.check_constraints()
    with connection.cursor() as cursor:
        cursor.execute(LEAVES_MEANWHILE)
    run_jobs()
    job = Job.objects.get(kind="curate_memories")
    assert job.state == "failed" and "no longer has access" in job.error
    assert Memory.objects.filter(pinned=True, pk__in=keys).count() == 2, "the first slice stays"


@pytest.mark.parametrize(("verb", "permission"), [("archive", "change_memory"), ("delete", "delete_memory")])
@pytest.mark.parametrize("keeps_it", [True, False])
def test_a_job_needs_the_permission_that_its_curator_had(
    staff: Callable[..., Client], hub: Hub, verb: str, permission: str, keeps_it: bool
) -> None:
    staff("view_memory", permission)
    kei = User.objects.get(username="kei")
    enqueue_curation(
        memory_ids=[hub.memory.pk],
        verb=verb,
        by=curator(kei.pk, "kei"),
        reason="",
        seen_at=timezone.now(),
        now=NOW,
        actor=hub.actor,
    )
    if not keeps_it:
        kei.user_permissions.clear()
    run_jobs()
    assert Memory.objects.filter(pk=hub.memory.pk, status="active").exists() is not keeps_it
    if not keeps_it:
        assert "no longer has access" in Job.objects.get(kind="curate_memories").error


def test_more_than_a_job_takes_is_refused(boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("strength.admin.bulk", "strength.actions.bulk_jobs"):
        monkeypatch.setattr(f"{place}.MAX_BULK_SIZE", 2)
    monkeypatch.setattr("strength.admin.bulk.MAX_SELECTED", 1)
    rows = [hub.remember(f"memory {number}") for number in range(3)]
    page = ask(boss, "pin", rows[0], query="?kind__exact=note", select_across="1")
    refused = boss.post(list_of(Memory) + "?kind__exact=note", fields_of(page), follow=True)
    assert "at most 2 memories" in told(refused) and not Job.objects.filter(kind="curate_memories").exists()


def test_a_list_counts_all_of_its_rows(boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    total = 1234
    monkeypatch.setattr(CappedPaginator, "count", total)
    text = text_of(boss, list_of(Memory))
    assert "In this list: 1,234" in " ".join(text.split()) and "Select all 1,234 memories" in text
    assert "All 1,234 selected" in text
    monkeypatch.setattr("memoryhub.admin.base.MAX_LISTED", total)
    assert "1,234 or more memories" in " ".join(text_of(boss, list_of(Memory)).split())


def test_many_are_deleted_with_a_reason_and_no_way_back(boss: Client, hub: Hub) -> None:
    other = hub.remember("Plays the koto")
    page = ask(boss, "delete_selected", hub.memory, other)
    assert "cannot be restored" in page.content.decode()
    done = say_yes(boss, page, reason="asked for")
    assert "Done: Delete permanently, 2 memories." in told(done) and not Memory.objects.exists()
    assert not [message for message in done.context["messages"] if UNDO in (message.extra_tags or "")]
    assert AuditEntry.objects.filter(verb="delete", object_kind="memory", reason="asked for").count() == 2


def test_one_is_deleted_with_a_reason(boss: Client, hub: Hub) -> None:
    assert 'name="reason"' in text_of(boss, page_of(hub.memory, "delete"))
    boss.post(page_of(hub.memory, "delete"), {"post": "yes", "reason": "asked for"})
    assert AuditEntry.objects.get(verb="delete", object_kind="memory").reason == "asked for"


def test_the_page_says_that_a_memory_is_locked_only_where_it_is(boss: Client, hub: Hub) -> None:
    assert "a person edited" not in text_of(boss, page_of(hub.memory)).lower()
    edit_memory(
        memory=hub.memory, values={"content": "matcha"}, expected_version=None, by=curator(1, "ann"), reason="", now=NOW
    )
    assert "yes: a person edited the text" in text_of(boss, page_of(hub.memory))


# Two that are one


def test_two_chosen_are_merged_and_parted_again(boss: Client, hub: Hub) -> None:
    one, other = hub.remember("Green tea in the morning"), hub.remember("Drinks tea early", tags=["tea"])
    page = ask(boss, "merge", one, other)
    assert "become one" in page.content.decode() and str(one.pk) in page.content.decode()
    done = say_yes(boss, page, keep=str(other.pk), reason="the same")
    merge = Merge.objects.get()
    assert (merge.kept_id, merge.absorbed_id, merge.state, merge.reason) == (other.pk, one.pk, "merged", "the same")
    assert state(one)[0] == "archived"
    undone = boss.post(undo_of(done), follow=True)
    assert "were unmerged" in told(undone) and state(one)[0] == "active"
    say_yes(boss, ask(boss, "merge", one, other), keep=str(one.pk))
    assert Merge.objects.get().kept_id == one.pk, "a person may decide otherwise"


def test_what_cannot_be_one_is_told(boss: Client, hub: Hub) -> None:
    one, waits = hub.remember("Green tea"), pending(hub, "Tea that waits")
    assert "exactly two" in told(ask(boss, "merge", one))
    page = ask(boss, "merge", one, waits)
    assert "Only active memories" in page.content.decode() and "Nothing would change" in page.content.decode()
    assert levels(boss.post(list_of(Memory), {**fields_of(page), "post": "yes"}, follow=True)) == ["error"]
    page = ask(boss, "merge", one, hub.memory)
    edit_memory(memory=one, values={"content": "Black tea"}, expected_version=None, by=BY, reason="", now=NOW)
    assert "changed since you saw it" in told(say_yes(boss, page))
    assert not Merge.objects.filter(state="merged").exists()


# Exports


def body_of(response: Any) -> bytes:
    return b"".join(response.streaming_content)


def test_chosen_memories_are_exported_as_a_table(boss: Client, hub: Hub) -> None:
    hub.remember("Not chosen")
    page = ask(boss, "export", hub.memory)
    assert "1 memory will be in the file" in page.content.decode()
    response = boss.post(list_of(Memory), {**fields_of(page), "format": "csv"})
    lines = body_of(response).decode("utf-8-sig").splitlines()
    assert len(lines) == 2 and "Likes matcha" in lines[1]
    assert response["Content-Disposition"] == 'attachment; filename="memories.csv"'
    entry = AuditEntry.objects.get(verb="export")
    assert entry.details == {"format": "csv", "memories": 1} and entry.who_name == "boss"


def test_all_that_match_are_exported_loss_free_up_to_a_cap(
    boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [hub.remember(f"memory {number}") for number in range(3)]
    supersede_memory(memory=rows[0], new=NewMemory(content="another"), at=NOW, by=BY, reason="", now=NOW)
    monkeypatch.setattr("strength.admin.bulk.MAX_EXPORTED", 4)
    page = ask(boss, "export", rows[0], select_across="1")
    assert (
        "4 memories will be in the file" in page.content.decode()
        and "the maximum for one file" in page.content.decode()
    )
    response = boss.post(list_of(Memory), {**fields_of(page), "format": "jsonl"})
    lines = list(read_lines(io.BytesIO(body_of(response))))
    memories = [line for line in lines if line.table == "strength_memory"]
    assert len(memories) == 4 and lines[0].values["counts"]["strength_memory"] == 4
    among = {line.values["id"] for line in memories}
    assert {line.values["superseded_by_id"] for line in memories} <= {None, *among}
    assert {line.table for line in lines if line.table} >= {"strength_memorynumbers", "strength_memoryrevision"}


def test_what_stands_above_memories_is_for_who_may_read_it(staff: Callable[..., Client], hub: Hub) -> None:
    browser = staff("view_memory")
    page = ask(browser, "export", hub.memory)
    assert 'value="jsonl"' not in page.content.decode()
    refused = browser.post(list_of(Memory), {**fields_of(page), "format": "jsonl"})
    assert not refused.streaming and not AuditEntry.objects.filter(verb="export").exists()
    assert "Likes matcha" in body_of(browser.post(list_of(Memory), {**fields_of(page), "format": "csv"})).decode()


# The page: whence, what changed, where used


def test_the_page_begins_with_the_text_and_leads_to_what_was_said(boss: Client, hub: Hub) -> None:
    text = text_of(boss, page_of(hub.memory))
    parts = ('id="memory-text"', 'id="id_reason"', 'id="id_content"', 'id="curate"', 'id="strength-chart"',
             "Source messages", 'id="contexts"', "Technical fields", 'id="revisions"', "Delete permanently")  # fmt: skip
    assert [text.count('name="reason"'), *(text.count(part) > 0 for part in parts)] == [1, *(True for _ in parts)]
    assert sorted(parts, key=text.index) == list(parts)
    Receipt.objects.create(
        actor=hub.actor, created_at=NOW, query="tried", token_limit=1, total_tokens=1, metadata={"is_trial": True}
    )
    text = boss.get(page_of(hub.memory)).content.decode()
    assert "In the only context of its user so far." in text and "Unused, it decays below 0.1 on" not in text, (
        "it has not slept yet"
    )
    assert "抹茶アイスが好きです。" in text and f"#message-{hub.messages[1].pk}" in text
    assert str(hub.session.pk) in text


def test_what_an_agent_remembers_is_shown_with_its_users_contexts_and_tasks(boss: Client, client: APIClient) -> None:
    names = {"agent_id": "kana", "user_id": "hiroki"}
    texts = {"kana answers in Japanese.": {"agent_id": "kana"}, "Hiroki likes Japanese tea.": names}
    keys = [made(client.post(f"{API}/memories", {**who, "content": text}))["id"] for text, who in texts.items()]
    question = {**names, "message": "Which Japanese tea does kana like?"}
    for _ in range(2):
        made(client.post(f"{API}/context", question))
    task = made(client.post(f"{API}/tasks", {**names, "query": question["message"]}))
    for key in keys:
        held = [each for each in Receipt.objects.about(key) if entered(each, key)]
        page = text_of(boss, reverse("admin:strength_memory_change", args=[key]))
        assert len(held) == 2 and f"In {len(held)} of the last 2 contexts" in page
        assert page.count('class="memory-context"') == 2
    page = text_of(boss, reverse("admin:strength_task_change", args=[task["task_id"]]))
    assert "no longer exists" not in page and all(key in page for key in keys)


def entered(receipt: Receipt, key: str) -> bool:
    items = [item for item in receipt.items if key in (item["source_id"], *(item.get("memory_ids") or ()))]
    return any(item["included"] for item in items)


def test_what_was_said_is_for_those_who_may_read_messages(staff: Callable[..., Client], hub: Hub) -> None:
    text = text_of(staff("view_memory"), page_of(hub.memory))
    assert "抹茶アイスが好きです。" not in text and f"#message-{hub.messages[1].pk}" in text


def test_why_it_was_retrieved_is_a_part_and_a_page(boss: Client, hub: Hub) -> None:
    page = page_of(hub.memory, "retrieved")
    assert f'hx-get="{page}"' in text_of(boss, page_of(hub.memory))
    part = boss.get(page, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in part and "matcha ice cream in Kyoto?" in part and "place 1 of 1" in part
    assert "entered" in part and "relevance" in part and "recency" in part
    whole = text_of(boss, page)
    assert "<html" in whole and page_of(hub.memory) in whole and part.strip().splitlines()[1].strip() in whole


def test_contexts_are_read_some_at_a_time(boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strength.admin.memory_detail.RECEIPTS_PAGE_SIZE", 1)
    hub.ask("Some ice cream?")
    page = page_of(hub.memory, "retrieved")
    assert "Some ice cream?" in text_of(boss, page) and "?from=1" in text_of(boss, page)
    earlier = text_of(boss, page, **{"from": "1"})
    assert "matcha ice cream in Kyoto?" in earlier and "Some ice cream?" not in earlier
    for nonsense in ("x", "-1", "9" * 30):
        assert boss.get(page, {"from": nonsense}).status_code == 200


def test_receipts_and_texts_are_for_those_who_may_see_them(staff: Callable[..., Client], hub: Hub) -> None:
    browser = staff("view_memory")
    assert page_of(hub.memory, "retrieved") not in text_of(browser, page_of(hub.memory))
    assert browser.get(page_of(hub.memory, "retrieved")).status_code == 403
    assert browser.get(page_of(hub.memory, "text")).status_code == 200
    missing = hub.messages[0]
    assert browser.get(page_of(hub.memory, "text").replace(str(hub.memory.pk), str(missing.pk))).status_code == 302


def test_what_held_when_is_told_from_first_to_last(boss: Client, hub: Hub) -> None:
    second = supersede_memory(
        memory=hub.memory, new=NewMemory(content="Likes mango"), at=NOW + timedelta(days=1), by=BY, reason="", now=NOW
    )
    third = supersede_memory(
        memory=second, new=NewMemory(content="Likes lemon"), at=NOW + timedelta(days=2), by=BY, reason="", now=NOW
    )
    for memory in (hub.memory, second, third):
        chain = text_of(boss, page_of(memory)).split('id="succession"')[1].split("</ol>")[0]
        assert chain.index("Likes matcha") < chain.index("Likes mango") < chain.index("Likes lemon")
        assert chain.count('aria-current="true"') == 1
    assert 'id="succession"' not in text_of(boss, page_of(hub.remember("alone")))


def test_a_circle_of_memories_ends(boss: Client, hub: Hub) -> None:
    other = hub.remember("Likes mango")
    Memory.objects.filter(pk=other.pk).update(superseded_by=hub.memory.pk)
    Memory.objects.filter(pk=hub.memory.pk).update(superseded_by=other.pk)
    assert 'id="succession"' in text_of(boss, page_of(hub.memory))


def test_a_revision_shows_which_words_went_and_came(boss: Client, hub: Hub) -> None:
    edit_memory(
        memory=hub.memory,
        values={"content": "Likes mango ice cream", "tags": [SCRIPT]},
        expected_version=None,
        by=BY,
        reason="a letter",
        now=NOW,
    )
    text = text_of(boss, page_of(hub.memory))
    assert re.search(r"<del[^>]*>matcha </del>", text) and re.search(r"<ins[^>]*>mango </ins>", text)
    assert "a letter" in text and SCRIPT not in text


def test_a_revision_says_stored_words_in_the_readers_language(boss: Client, hub: Hub) -> None:
    memory = pending(hub, "waits")
    apply_transition(memory=memory, verb="approve", by=BY, reason="", now=NOW)
    edit_memory(
        memory=memory, values={"kind": "fact", "valid_from": NOW}, expected_version=None, by=BY, reason="", now=NOW
    )
    changes = {
        each["name"]: (each["before"], each["after"])
        for revision in boss.get(page_of(memory)).context["revisions"]
        for each in revision["changes"]
    }
    assert changes["state"] == ("pending", "active")
    assert changes["kind"] == ("note", "fact") and changes["holds from"] == ("–", "1 Mar 2026, 12:00 UTC")
    apply_transition(memory=memory, verb="archive", by=BY, reason="", now=NOW)
    text = boss.get(page_of(memory), headers={"accept-language": "ja"}).content.decode()
    for raw in ("pending", "active", "archived", "note", "fact"):
        assert f'">{raw}</del>' not in text and f'">{raw}</ins>' not in text
    assert text.count("</del> →") == 4


def test_what_deletes_is_called_by_one_sentence(boss: Client, hub: Hub) -> None:
    address = page_of(hub.memory, "delete")
    assert re.search(rf'href="{address}"[^>]*>\s*Delete permanently\s*<', text_of(boss, page_of(hub.memory)))
    text = boss.get(page_of(hub.memory), headers={"accept-language": "ja"}).content.decode()
    link = re.search(rf'href="{address}"[^>]*>([^<]*)<', text)
    assert link and "削除 記憶" not in " ".join(link[1].split()) and text.count(f'href="{address}"') == 1


def test_earlier_revisions_are_a_click_away(boss: Client, hub: Hub) -> None:
    for number in range(12):
        verb = "unpin" if number % 2 else "pin"
        apply_transition(memory=hub.memory, verb=verb, by=BY, reason=f"turn {number}", now=NOW)
    latest = boss.get(page_of(hub.memory))
    assert len(latest.context["revisions"]) == 10 and latest.context["before_number"] == 4
    earlier = boss.get(page_of(hub.memory), {"before": "4"})
    assert [each["revision"].number for each in earlier.context["revisions"]] == [3, 2, 1]
    assert earlier.content.decode().count("Restore the state after") == 3
    for nonsense in ("x", "-1", "９", "9" * 30):
        assert boss.get(page_of(hub.memory), {"before": nonsense}).status_code == 200


# Hostile and long texts


def test_a_long_text_is_cut_and_an_edit_of_the_rest_loses_none_of_it(boss: Client, hub: Hub) -> None:
    long = f'{SCRIPT}{RTL}"' + '"&<' * 33_000 + "THE-END"
    memory = hub.remember(long[:100_000])
    page = boss.get(page_of(memory))
    text = page.content.decode()
    assert len(page.content) <= MOST_BYTES and SCRIPT not in text and "The whole text" in text
    assert "content" not in page.context["adminform"].form.fields
    boss.post(page_of(memory), {**form_of(page), "tags": "soup", "reason": "sorted"})
    stored = Memory.objects.get(pk=memory.pk)
    assert stored.tags == ["soup"] and stored.content == long[:100_000]
    whole = boss.get(page_of(memory, "text"))
    assert whole.content.decode() == long[:100_000] and whole["Content-Type"].startswith("text/plain")
    assert whole["X-Content-Type-Options"] == "nosniff"
    edited = boss.get(page_of(memory), {"text": "whole"})
    values = {**form_of(edited), "content": long[:99_000]}
    boss.post(f"{page_of(memory)}?text=whole", values)
    assert Memory.objects.get(pk=memory.pk).content == long[:99_000]
    assert len(boss.get(page_of(memory)).content) <= MOST_BYTES, "also with two revisions of it"


def test_many_long_learnings_are_left_as_they_are(boss: Client, hub: Hub) -> None:
    learnings = {f"view {number}": "x" * 9_000 for number in range(10)}
    Memory.objects.filter(pk=hub.memory.pk).update(learnings=learnings)
    page = boss.get(page_of(hub.memory))
    assert "learnings" not in page.context["adminform"].form.fields and len(page.content) <= MOST_BYTES
    boss.post(page_of(hub.memory), {**form_of(page), "content": "Likes mango"})
    stored = Memory.objects.get(pk=hub.memory.pk)
    assert stored.content == "Likes mango" and stored.learnings == learnings


def test_a_viewer_reads_the_text_and_the_page_stays_small(staff: Callable[..., Client], hub: Hub) -> None:
    memory = hub.remember('"' * 100_000)
    response = staff("view_memory").get(page_of(memory))
    assert len(response.content) <= MOST_BYTES and "The whole text" in response.content.decode()


def test_rows_and_pages_of_hostile_texts_are_text(boss: Client, hub: Hub) -> None:
    hostile = f"\"'>{SCRIPT} {RTL} </button>"
    Memory.objects.filter(pk=hub.memory.pk).update(content=hostile, namespace=f"/x/{SCRIPT}/", tags=[SCRIPT])
    hub.messages[1].content = hostile
    hub.messages[1].author = SCRIPT
    hub.messages[1].save()
    for page in (list_of(Memory), page_of(hub.memory), page_of(hub.memory, "retrieved")):
        text = text_of(boss, page)
        assert SCRIPT not in text and "</button> " not in text.replace("</button>\n", "")
    found = text_of(boss, list_of(Memory), q=hostile, **MEANING)
    assert SCRIPT not in found and json.dumps(SCRIPT) not in found


# How much a page asks


def test_list_and_page_ask_as_much_for_many_as_for_few(boss: Client, hub: Hub) -> None:
    pages = [
        (list_of(Memory), {}),
        (list_of(Memory), {"q": "matcha", **MEANING}),
        (page_of(hub.memory), {}),
        (page_of(hub.memory, "retrieved"), {}),
    ]

    def queries() -> list[int]:
        counts = []
        for page, query in pages:
            with CaptureQueriesContext(connection) as captured:
                assert boss.get(page, query).status_code == 200
            counts.append(len(captured))
        return counts

    for number in range(2):
        hub.remember(f"matcha {number}")
    queries()
    few = queries()
    for number in range(30):
        hub.remember(f"matcha and {number}")
        apply_transition(memory=hub.memory, verb="unpin" if number % 2 else "pin", by=BY, reason="", now=NOW)
        hub.ask(f"matcha {number}?")
    queries()
    assert queries() == few and max(few) <= MOST_QUERIES


def test_an_edit_keeps_cues_that_were_written_while_its_form_was_open(boss: Client, hub: Hub) -> None:
    opened = form_of(boss.get(page_of(hub.memory)))
    Memory.objects.filter(pk=hub.memory.pk).update(cues="drink beverage")  # as the job does, without a version
    boss.post(page_of(hub.memory), {**opened, "content": "Drinks green tea.", "_continue": "1"})
    edited = Memory.objects.get(pk=hub.memory.pk)
    assert (edited.content, edited.cues) == ("Drinks green tea.", "drink beverage")
    opened = form_of(boss.get(page_of(hub.memory)))
    boss.post(page_of(hub.memory), {**opened, "cues": "", "_continue": "1"})
    assert Memory.objects.get(pk=hub.memory.pk).cues == ""
