"""The review queue: what waits comes one after the other, is decided once, and can be taken back."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation

from conversations.domain.statements.grounding import Doubt
from memoryhub.admin.waiting import WAITING
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.actions import create_agent
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import Principal, PrincipalKind
from memoryhub.ids import new_id
from strength.actions.curation import delete_memory, edit_memory
from strength.actions.memories import NewMemory, supersede_memory, write_memory
from strength.actions.sleep import SleepRequest, sleep
from strength.admin.review import AlreadyDecided, _decide_proposal
from strength.domain.memories import Source
from strength.domain.review import Item, Sort
from strength.domain.sleep import Trigger
from strength.models import Memory, MemoryRevision, Merge, ReviewHold, Tombstone
from tests.integration.admin.conftest import BY, NOW, SCRIPT, SECRET_USER, Hub, logged_in, page_of

DAY = timedelta(days=1)
EDIT: dict[str, Any] = {"expected_version": None, "by": BY, "reason": "", "now": NOW}
SAME = ("The user likes green tea.", "The user actually likes green tea")
MOST_QUERIES = 28
STRANGER = Principal(kind=PrincipalKind.KEY, id="k", name="inbox", is_trusted=False)
RTL = "\u202e\u05e9\u05dc\u05d5\u05dd"


def queue(browser: Client, **filters: Any) -> Any:
    """Open the queue."""
    response = browser.get(reverse("review"), filters)
    assert response.status_code == 200
    return response


def press(browser: Client, verb: str, shown: Any = None, **values: Any) -> Any:
    """Press a button of the queue as it was shown, and go where it leads."""
    shown = shown or queue(browser)
    memory = shown.context.get("memory")
    sent = {"verb": verb, "item": str(shown.context["item"]), "version": memory.version if memory else "", **values}
    return browser.post(shown.context["form_url"], sent, follow=True)


def undo(browser: Client, shown: Any) -> Any:
    return browser.post(
        shown.context["form_url"], {"verb": "undo", "number": shown.context["done"]["number"]}, follow=True
    )


def told(response: Any) -> str:
    return " ".join(str(message) for message in response.context["messages"])


def waiting(hub: Hub, content: str, **options: Any) -> Memory:
    """Write a memory that waits: whoever drew it was not sure."""
    return hub.remember(content, **{"confidence": 0.1, "source": Source.EXTRACTION, **options})


def proposed(hub: Hub, *same: str) -> Merge:
    """Write two memories that say the same, and let a sleep propose to merge them."""
    for number, text in enumerate(same or SAME):
        hub.remember(text, strength=2.0 - number, tags=[f"tag{number}"])
    sleep(actor=hub.actor, request=SleepRequest(Trigger.SCHEDULE, BY, NOW + DAY))
    return Merge.objects.get()


def fresh(row: Any) -> Any:
    return type(row).objects.get(pk=row.pk)


def everything(memory: Memory) -> dict[str, Any]:
    """Return a memory's values but those that count changes."""
    names = [field.attname for field in Memory._meta.fields if field.name not in ("version", "updated_at")]
    return {
        name: bytes(value) if isinstance(value := getattr(fresh(memory), name), memoryview) else value for name in names
    }


def decisions(hub: Hub) -> list[Any]:
    names = [field.attname for field in Tombstone._meta.fields if field.name != "id"]
    rows = Tombstone.objects.filter(actor=hub.actor).order_by("digest")
    return [[bytes(each) if isinstance(each, memoryview) else each for each in row] for row in rows.values_list(*names)]


# Pending memories


def test_what_waits_is_shown_with_why_and_whence(boss: Client, hub: Hub) -> None:
    memory = waiting(hub, "Likes matcha ice cream very much", source_message_ids=[hub.messages[1].pk])
    response = queue(boss)
    text = response.content.decode()
    assert response.context["memory"] == memory and "1 of 1" in text
    assert "was not confident enough" in text and "confidence: 0.10" in text
    assert "抹茶アイスが好きです。" in text and f"#message-{hub.messages[1].pk}" in text
    assert "slack" in text and "kana" in text
    [near, *_] = response.context["near"]
    assert near["memory"] == hub.memory and page_of(hub.memory) in text


@pytest.mark.parametrize(
    ("options", "by", "why"),
    [
        ({}, STRANGER, "written through a key"),
        ({"confidence": 0.2}, BY, "was not confident enough"),
        ({"needs_approval": True}, BY, "stored as pending"),
        ({"doubt": Doubt("date", "12 March")}, BY, "No message says “12 March”."),
        ({"doubt": Doubt("hypothesis")}, BY, "The user supposed it"),
    ],
)
def test_it_is_told_why_it_waits(boss: Client, hub: Hub, options: dict[str, Any], by: Principal, why: str) -> None:
    write_memory(actor=hub.actor, new=NewMemory(content="Owns a canoe", **options), by=by, now=NOW)
    assert why in queue(boss).content.decode()


def test_the_confidence_that_is_enough_is_named_only_where_it_decides(boss: Client, hub: Hub) -> None:
    enough = "it would need no approval"
    memory = waiting(hub, "Owns a canoe", confidence=0.1)
    assert enough in queue(boss).content.decode()
    Memory.objects.filter(pk=memory.pk).update(status="active")
    waiting(hub, "Owns a kayak", confidence=0.85, needs_approval=True)
    text = queue(boss).content.decode()
    assert "confidence: 0.85" in text and enough not in text


def test_what_a_person_decided_against_before_is_told(boss: Client, hub: Hub) -> None:
    gone = hub.remember("Owns a canoe")
    delete_memory(memory=gone, expected_version=None, by=BY, reason="", now=NOW)
    key = Principal(kind=PrincipalKind.KEY, id="k", name="app")
    write_memory(actor=hub.actor, new=NewMemory(content="Owns a canoe"), by=key, now=NOW)
    assert "test</bdi></span> (command) deleted a memory with this content on" in queue(boss).content.decode()


def test_approving_shows_the_next_and_what_was_done(boss: Client, hub: Hub) -> None:
    first, second = waiting(hub, "Owns a canoe"), waiting(hub, "Has a cat")
    response = press(boss, "approve", reason="I asked.")
    assert fresh(first).status == "active" and fresh(second).status == "pending"
    assert response.context["memory"] == second and "2 of 2" in response.content.decode()
    assert "Approved" in response.content.decode() and page_of(first) in response.content.decode()
    revision = MemoryRevision.objects.filter(memory=first, verb="approve").get()
    assert (revision.who_name, revision.reason) == ("boss", "I asked.")
    assert LogEntry.objects.filter(object_id=str(first.pk), change_message="approve").exists()
    response = press(boss, "approve", response)
    assert "All items have been reviewed" in response.content.decode()
    assert "2 items in this round" in response.content.decode()


def test_rejecting_needs_no_reason_and_keeps_one(boss: Client, hub: Hub) -> None:
    first, second = waiting(hub, "Owns a canoe"), waiting(hub, "Has a cat")
    press(boss, "reject")
    press(boss, "reject", reason="A joke.")
    reasons = MemoryRevision.objects.filter(verb="reject").order_by("memory_id").values_list("reason", flat=True)
    assert [fresh(each).status for each in (first, second)] == ["rejected"] * 2 and list(reasons) == ["", "A joke."]
    assert {each.decision for each in Tombstone.objects.all()} == {"rejected"}


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_undoing_a_decision_leaves_everything_as_it_was(boss: Client, hub: Hub, verb: str) -> None:
    memory = write_memory(actor=hub.actor, new=NewMemory(content="Owns a canoe"), by=STRANGER, now=NOW)[0]
    before, stood = everything(memory), decisions(hub)
    response = undo(boss, press(boss, verb))
    assert everything(memory) == before and decisions(hub) == stood
    assert response.context["memory"] == memory and "pending again" in told(response)
    assert response.context["done"] is None
    assert AuditEntry.objects.filter(object_id=str(memory.pk), verb="undo", who_name="boss").count() == 1
    assert fresh(memory).version == before_version(memory) + 2


def before_version(memory: Memory) -> int:
    return MemoryRevision.objects.filter(memory=memory).order_by("number").values_list("number", flat=True)[0]


def test_undoing_brings_back_what_stood_against_the_text_before(boss: Client, hub: Hub) -> None:
    gone = hub.remember("Owns a canoe")
    delete_memory(memory=gone, expected_version=None, by=BY, reason="", now=NOW)
    key = Principal(kind=PrincipalKind.KEY, id="k", name="app")
    memory = write_memory(actor=hub.actor, new=NewMemory(content="Owns a canoe"), by=key, now=NOW)[0]
    stood = decisions(hub)
    assert memory.status == "pending" and len(stood) == 1
    for verb in ("approve", "reject"):
        shown = press(boss, verb)
        assert decisions(hub) != stood
        undo(boss, shown)
        assert decisions(hub) == stood


def test_a_text_is_put_right_and_approved_as_one(boss: Client, hub: Hub) -> None:
    memory = waiting(hub, "Owns a canoe\nand a paddle")
    before = everything(memory)
    shown = press(boss, "approve", content="Owns two kayaks\r\nand a paddle")
    stored = fresh(memory)
    assert (stored.content, stored.status, stored.locked) == ("Owns two kayaks\nand a paddle", "active", True)
    assert [each.verb for each in memory.revisions.all()] == ["approve", "create"]
    assert [each.decision for each in Tombstone.objects.all()] == ["edited"]
    found = boss.get(reverse("admin:strength_memory_changelist"), {"q": "kayaks"})
    assert [each.pk for each in found.context["cl"].result_list] == [memory.pk]
    undo(boss, shown)
    assert everything(memory) == before and not Tombstone.objects.exists()


def test_the_same_text_with_a_browsers_line_ends_is_no_change(boss: Client, hub: Hub) -> None:
    memory = waiting(hub, "Owns a canoe\nand a paddle")
    press(boss, "approve", content="Owns a canoe\r\nand a paddle")
    assert (fresh(memory).content, fresh(memory).locked) == ("Owns a canoe\nand a paddle", False)


@pytest.mark.parametrize("content", ["  \r\n ", "x" * 100_001])
def test_a_text_that_cannot_be_stored_is_told_and_not_lost(boss: Client, hub: Hub, content: str) -> None:
    memory = waiting(hub, "Owns a canoe")
    response = press(boss, "approve", content=content)
    assert response.status_code == 200 and told(response) and response.context["text"] == content
    assert fresh(memory).status == "pending" and fresh(memory).version == memory.version


def test_a_text_that_another_memory_has_is_told_and_not_lost(boss: Client, hub: Hub) -> None:
    hub.remember("Owns a kayak")
    memory = waiting(hub, "Is called Tanaka")
    response = press(boss, "approve", content="Owns a kayak")
    assert "same text" in told(response) and 'name="content"' in response.content.decode()
    assert "Owns a kayak</textarea>" in response.content.decode() and fresh(memory).status == "pending"


def test_an_approval_counts_for_the_text_that_was_read(boss: Client, hub: Hub) -> None:
    memory = waiting(hub, "Owns a canoe")
    shown = queue(boss)
    edit_memory(memory=memory, values={"content": "Owns a rifle"}, expected_version=None, by=BY, reason="", now=NOW)
    response = press(boss, "approve", shown)
    assert fresh(memory).status == "pending" and "changed since you read it" in told(response)
    assert response.context["memory"] == memory and "Owns a rifle" in response.content.decode()
    press(boss, "approve", response)
    assert fresh(memory).status == "active"
    response = boss.post(reverse("review"), {"verb": "approve", "item": f"memory:{memory.pk}"}, follow=True)
    assert "Another person has decided" in told(response)


def test_without_the_version_nothing_is_approved(boss: Client, hub: Hub) -> None:
    memory = waiting(hub, "Owns a canoe")
    response = boss.post(reverse("review"), {"verb": "approve", "item": f"memory:{memory.pk}"}, follow=True)
    assert "nothing was decided" in told(response) and fresh(memory).status == "pending"


def test_two_curators_are_shown_different_items(boss: Client, hub: Hub) -> None:
    other = logged_in(User.objects.create_superuser("second", password="a long password"))
    first, second = waiting(hub, "Owns a canoe"), waiting(hub, "Has a cat")
    assert queue(boss).context["memory"] == queue(boss).context["memory"] == first, "it stays the person's own"
    assert queue(other).context["memory"] == second
    third = logged_in(User.objects.create_superuser("third", password="a long password"))
    end = queue(third)
    assert end.context["item"] is None and "open for boss, second" in end.content.decode()
    [anyway] = end.context["held"]
    shown = third.get(anyway)
    assert shown.context["memory"] in (first, second) and shown.context["holder"] in ("boss", "second")
    ReviewHold.objects.update(ends_at=timezone.now())
    assert queue(third).context["memory"] == first, "nobody keeps an item for long"
    assert queue(boss).context["memory"] == second, "what somebody took over is no longer one's own"
    assert press(boss, "skip").context["memory"] == second and ReviewHold.objects.count() == 3 - 1


def test_a_round_ends_with_what_was_decided(boss: Client, hub: Hub) -> None:
    for number in range(4):
        waiting(hub, f"Owns canoe {number}")
    for verb in ("approve", "approve", "reject"):
        shown = press(boss, verb)
    undo(boss, shown)
    end = press(boss, "reject", press(boss, "reject"))
    assert [(str(words), number) for words, number in end.context["tally"]] == [("approved", 2), ("rejected", 2)]
    assert "4 items in this round" in end.content.decode() and "Blocked texts" in end.content.decode()


def test_the_teams_instructions_are_shown_and_audited(boss: Client, staff: Callable[..., Client], hub: Hub) -> None:
    waiting(hub, "Owns a canoe")
    boss.post(reverse("review"), {"verb": "instruct", "instructions": f"No boats.\r\n{SCRIPT}"})
    text = queue(boss).content.decode()
    assert "No boats." in text and SCRIPT not in text
    assert AuditEntry.objects.filter(verb="update", object_kind="reviewinstructions", who_name="boss").count() == 1
    other = staff("change_memory", "change_merge")
    assert "No boats." in queue(other).content.decode() and "instructions-form" not in queue(other).content.decode()
    assert other.post(reverse("review"), {"verb": "instruct", "instructions": "x"}).status_code == 403


def test_a_script_gets_the_next_item_alone(boss: Client, hub: Hub) -> None:
    first, second = waiting(hub, "Owns a canoe"), waiting(hub, "Has a cat")
    shown = queue(boss)
    sent = {"verb": "approve", "item": str(shown.context["item"]), "version": first.version}
    part = boss.post(shown.context["form_url"], sent, headers={"X-Requested-With": "fetch"})
    text = part.content.decode()
    assert part.status_code == 200 and part.context["memory"] == second and fresh(first).status == "active"
    assert "<html" not in text and "data-address" in text and len(part.content) < 20_000
    again = boss.post(shown.context["form_url"], sent, headers={"X-Requested-With": "fetch"})
    assert "another person" in again.content.decode().lower(), "what is to be said comes along"


def test_of_two_curators_one_decides_and_the_other_is_told(boss: Client, hub: Hub) -> None:
    other = logged_in(User.objects.create_superuser("second", password="a long password"))
    first, _second, third = (waiting(hub, text) for text in ("Owns a canoe", "Has a cat", "Has a dog"))
    shown = queue(other, at=f"memory:{first.pk}")
    press(boss, "approve", queue(boss, at=f"memory:{first.pk}"))
    response = press(other, "reject", shown)
    assert "Another person has decided" in told(response) and response.context["memory"] == third
    assert fresh(first).status == "active" and not Tombstone.objects.exists()
    assert MemoryRevision.objects.filter(memory=first).count() == 2
    assert response.context["done"] is None


def test_what_is_gone_is_told_and_left_behind(boss: Client, hub: Hub) -> None:
    first, second = waiting(hub, "Owns a canoe"), waiting(hub, "Has a cat")
    shown = queue(boss)
    delete_memory(memory=first, expected_version=None, by=BY, reason="", now=NOW)
    response = press(boss, "approve", shown)
    assert "no longer pending" in told(response) and response.context["memory"] == second
    response = queue(boss, at=f"memory:{first.pk}")
    assert "no longer pending" in response.content.decode() and response.context["memory"] == second


@contextmanager
def just_before(words: str, act: Callable[[], object]) -> Iterator[None]:
    """Do something right before the first statement that says this: as another person would."""
    done = []

    def execute(run: Any, sql: str, *rest: Any) -> Any:
        if words in sql and not done:
            done.append(sql)
            act()
        return run(sql, *rest)

    with connection.execute_wrapper(execute):
        yield
    assert done


def test_what_goes_while_it_is_looked_up_is_told_and_the_next_comes(boss: Client, hub: Hub) -> None:
    first, second = waiting(hub, "Owns a canoe"), waiting(hub, "Has a cat")

    def delete() -> None:
        delete_memory(memory=first, expected_version=None, by=BY, reason="", now=NOW)

    with just_before("strength_memorynumbers", delete):
        response = boss.get(reverse("review"), {"at": f"memory:{first.pk}"}, follow=True)
    assert "no longer pending" in told(response) and response.redirect_chain
    assert response.context["memory"] == second and response.context["place"] == 1
    assert "All items have been reviewed" not in response.content.decode()


def test_a_pair_that_goes_while_it_is_looked_up_is_told(boss: Client, hub: Hub) -> None:
    proposal = proposed(hub)
    with just_before('SELECT "strength_merge"."actor_id"', lambda: fresh(proposal).delete()):
        response = boss.get(reverse("review"), {"at": f"merge:{proposal.pk}"}, follow=True)
    assert "no longer pending" in told(response) and response.context["item"] is None


def test_what_was_typed_about_one_is_never_put_into_the_next(boss: Client, hub: Hub) -> None:
    first, second = waiting(hub, "Owns a canoe"), waiting(hub, "Has a cat")
    hub.remember("Owns a kayak")
    shown = queue(boss)

    def decide() -> None:
        Memory.objects.filter(pk=first.pk).update(status="rejected")

    # Refused, for another says so already; and before the page is shown anew, somebody else has decided.
    with just_before('"rank"', decide):
        response = press(boss, "approve", shown, content="Owns a kayak")
    assert response.context["memory"] == second and response.context["is_gone"]
    assert response.context["text"] is None
    assert ">\nHas a cat</textarea>" in response.content.decode()


def test_a_decision_that_was_changed_since_is_not_undone(boss: Client, hub: Hub) -> None:
    memory = waiting(hub, "Owns a canoe")
    shown = press(boss, "approve")
    edit_memory(memory=memory, values={"tags": ["x"]}, expected_version=None, by=BY, reason="", now=NOW)
    response = undo(boss, shown)
    assert "changed since" in told(response) and fresh(memory).status == "active"
    assert "nothing to undo" in told(undo(boss, shown))


def test_a_text_that_another_wrote_meanwhile_cannot_wait_again(boss: Client, hub: Hub) -> None:
    memory = waiting(hub, "Owns a canoe")
    shown = press(boss, "reject")
    Tombstone.objects.all().delete()
    hub.remember("Owns a canoe")
    response = undo(boss, shown)
    assert "since been written with the same text" in told(response) and fresh(memory).status == "rejected"


def test_decisions_are_undone_one_after_the_other(boss: Client, hub: Hub) -> None:
    memories = [waiting(hub, text) for text in ("Owns a canoe", "Has a cat", "Plays chess")]
    for verb in ("approve", "reject", "approve"):
        shown = press(boss, verb)
    for _ in memories:
        shown = undo(boss, shown)
    assert [fresh(each).status for each in memories] == ["pending"] * 3
    assert shown.context["done"] is None and queue(boss).context["place"] == 1


def test_an_undo_is_done_once(boss: Client, hub: Hub) -> None:
    waiting(hub, "Owns a canoe")
    first = press(boss, "approve")
    undo(boss, first)
    assert "nothing to undo" in told(undo(boss, first))
    assert "nothing to undo" in told(boss.post(reverse("review"), {"verb": "undo", "number": "x"}, follow=True))


# What contradicts an active memory


def correction(hub: Hub) -> tuple[Memory, Memory]:
    """Return a believed memory, and one that waits to end it."""
    old = hub.remember("Lives in Kyoto", pinned=True)
    new = supersede_memory(
        memory=old,
        new=NewMemory(content="Lives in Osaka", needs_approval=True),
        at=NOW + DAY,
        by=BY,
        reason="",
        now=NOW + DAY,
    )
    return old, new


def test_what_would_end_another_says_so(boss: Client, hub: Hub) -> None:
    old, new = correction(hub)
    response = queue(boss)
    text = response.content.decode()
    assert response.context["memory"] == new and "contradicts an active memory" in text
    assert "A replacing memory" in text and "would be replaced" in text and page_of(old) in text


def test_undoing_lets_what_it_ended_hold_again(boss: Client, hub: Hub) -> None:
    old, new = correction(hub)
    before = everything(old), everything(new)
    shown = press(boss, "approve")
    assert (fresh(old).superseded_by_id, fresh(old).pinned) == (new.pk, False) and fresh(old).valid_to
    undo(boss, shown)
    assert (everything(old), everything(new)) == before


def test_what_was_changed_since_it_ended_stays_as_it_is(boss: Client, hub: Hub) -> None:
    old, new = correction(hub)
    shown = press(boss, "approve")
    edit_memory(memory=old, values={"tags": ["x"]}, expected_version=None, by=BY, reason="", now=NOW)
    undo(boss, shown)
    assert fresh(new).status == "pending" and fresh(old).superseded_by_id == new.pk


# The round


def test_what_is_skipped_comes_again_at_the_end(boss: Client, hub: Hub) -> None:
    first, second, third = (waiting(hub, text) for text in ("Owns a canoe", "Has a cat", "Plays chess"))
    response = press(boss, "skip")
    assert response.context["memory"] == second and "1 of 3" in response.content.decode()
    response = press(boss, "skip", response)
    response = press(boss, "approve", response)
    assert fresh(third).status == "active"
    assert response.context["memory"] == first and "2 of 3 · skipped before" in response.content.decode()
    response = press(boss, "skip", response)
    assert response.context["memory"] == second
    response = press(boss, "previous", response)
    assert response.context["memory"] == first


def test_previous_shows_what_was_skipped_last(boss: Client, hub: Hub) -> None:
    first, second = waiting(hub, "Owns a canoe"), waiting(hub, "Has a cat")
    assert queue(boss).context["may_go_back"] is False
    response = press(boss, "previous")
    assert "Nothing was skipped" in told(response) and response.context["memory"] == first
    response = press(boss, "skip")
    assert response.context["memory"] == second and response.context["may_go_back"]
    response = press(boss, "previous", response)
    assert response.context["memory"] == first and queue(boss).context["memory"] == first


def test_a_round_is_one_persons(boss: Client, hub: Hub) -> None:
    first = waiting(hub, "Owns a canoe")
    waiting(hub, "Has a cat")
    press(boss, "skip")
    other = logged_in(User.objects.create_superuser("second", password="a long password"))
    assert queue(other).context["memory"] == first


def test_the_queue_is_narrowed_and_ordered(boss: Client, hub: Hub) -> None:
    old = waiting(hub, "Owns a canoe", strength=0.2)
    create_agent(agent_id="yuno", values={}, by=BY, now=NOW)
    other = actor_for_writing(BY, "yuno", "mika", now=NOW)
    weighty = write_memory(
        actor=other, new=NewMemory(content="Has a cat", confidence=0.1, strength=1.9), by=BY, now=NOW + DAY
    )[0]
    _, ends = correction(hub)
    pair = proposed(hub)
    assert [queue(boss, **each).context["item"].key for each in (
        {}, {"order": "weightiest"}, {"agent": "yuno"}, {"user": SECRET_USER}, {"sort": "correction"},
        {"sort": "merge"}, {"agent": "yuno", "user": "mika", "sort": "memory"}, {"sort": "nonsense", "order": "x"},
    )] == [old.pk, ends.pk, weighty.pk, old.pk, ends.pk, pair.pk, weighty.pk, old.pk]  # fmt: skip
    assert queue(boss).context["total"] == 4
    assert "Nothing is left under this filter" in queue(boss, agent="nobody").content.decode()
    response = press(boss, "skip", queue(boss, agent="kana", order="weightiest"))
    assert response.context["form_url"] == f"{reverse('review')}?agent=kana&order=weightiest"
    assert response.context["item"].key == pair.pk


def test_other_filters_begin_another_round(boss: Client, hub: Hub) -> None:
    waiting(hub, "Owns a canoe")
    second = waiting(hub, "Has a cat")
    response = press(boss, "approve")
    response = press(boss, "skip", response)
    response = queue(boss, agent="kana")
    assert response.context["memory"] == second and (response.context["place"], response.context["total"]) == (1, 1)
    assert response.context["done"]  # what was decided can be taken back all the same


def test_many_that_wait_are_not_counted_to_the_end(boss: Client, hub: Hub) -> None:
    waiting(hub, "Owns a canoe")
    rows = [
        Memory(
            actor=hub.actor, content=f"{number}", content_digest=str(number).encode(), namespace="/x/", status="pending"
        )
        for number in range(1100)
    ]
    Memory.objects.bulk_create(rows)
    response = queue(boss)
    assert "1 of more than 1000" in response.content.decode().replace(",", "")
    assert "99+" in response.content.decode()


# Pairs


def test_a_pair_is_shown_side_by_side_with_what_each_says_alone(boss: Client, hub: Hub) -> None:
    proposal = proposed(hub)
    response = queue(boss)
    text = response.content.decode()
    assert response.context["proposal"] == proposal
    cells = re.findall(r'<div role="cell" class="review-cell review-(one|other)" dir="auto">(.*?)</div>', text)
    own = {side: re.findall(r'<span class="review-own">(.*?)</span>', cell) for side, cell in cells}
    assert own == {"one": ["."], "other": ["actually "]}
    assert "tag0" in text and "tag1" in text and "used 0 times" in text


def test_a_pair_is_merged_by_one_button_and_parted_by_one(boss: Client, hub: Hub) -> None:
    proposal = proposed(hub)
    kept, absorbed = proposal.kept, proposal.absorbed
    before = everything(kept), everything(absorbed)
    shown = press(boss, "merge")
    assert (fresh(proposal).state, fresh(absorbed).status) == (
        "merged",
        "archived",
    ) and "Merged" in shown.content.decode()
    response = undo(boss, shown)
    assert (everything(kept), everything(absorbed)) == before
    assert fresh(proposal).state == "proposed" and response.context["proposal"] == proposal
    press(boss, "merge", response)
    assert fresh(proposal).state == "merged"


def test_the_other_one_may_stay(boss: Client, hub: Hub) -> None:
    proposal = proposed(hub)
    kept, absorbed = proposal.kept, proposal.absorbed
    before = everything(kept), everything(absorbed)
    shown = press(boss, "merge", stays=absorbed.pk)
    stored = fresh(proposal)
    assert (stored.kept_id, stored.absorbed_id) == (absorbed.pk, kept.pk)
    assert fresh(kept).status == "archived" and fresh(absorbed).tags == ["tag1", "tag0"]
    assert fresh(absorbed).numbers.strength == pytest.approx(fresh(kept).numbers.strength)
    response = undo(boss, shown)
    assert (everything(kept), everything(absorbed)) == before
    stored = fresh(proposal)
    assert (stored.kept_id, stored.absorbed_id) == (kept.pk, absorbed.pk), "as it was proposed"
    assert (stored.kept_version, stored.absorbed_version) == (fresh(kept).version, fresh(absorbed).version)
    assert [side["memory"].pk for side in response.context["sides"]] == [kept.pk, absorbed.pk]
    press(boss, "merge", response)
    assert (fresh(kept).status, fresh(absorbed).status) == ("active", "archived")


def fates(text: str, side: str) -> list[str]:
    """Return what the parts of one side's memory say of it, as proposed; the style sheet shows one of each two."""
    parts = re.findall(rf'<(?:div|th|p)[^>]* class="[^"]*review-{side}[ "].*?</(?:div|th|p)>', text)
    return [word for part in parts for word in re.findall(r'<span class="review-(stays|goes)-so">', part)]


def test_what_is_said_of_a_pair_goes_by_who_is_chosen_to_stay(boss: Client, hub: Hub) -> None:
    proposal = proposed(hub)
    third = hub.remember("Something else about tea")
    for _ in range(2):
        other = hub.remember(f"Something of tea {new_id()}")
        Merge.objects.create(
            actor=hub.actor, kept=other, kept_version=1, absorbed=proposal.kept, absorbed_version=1, likeness=0.9
        )
    Merge.objects.create(
        actor=hub.actor, kept=third, kept_version=1, absorbed=proposal.absorbed, absorbed_version=1, likeness=0.9
    )
    for address in (f"{reverse('review')}?at=merge:{proposal.pk}", page_of(proposal)):
        response = boss.get(address)
        text = response.content.decode()
        assert response.context["others"] == {"as_proposed": 1, "turned": 2}
        assert "<ins" not in text and "<del" not in text
        for side in ("one", "other"):
            said = fates(text, side)
            assert len(said) >= 4 and said.count("stays") == said.count("goes")
        turns = re.findall(r'<input type="radio" name="stays" value="([^"]+)"[^>]* class="review-turns"', text)
        assert turns == [str(proposal.absorbed_id)] and "review-choice" in text.split(turns[0])[0]
        assert re.search(r'review-stays-so">1 further proposal about.*review-goes-so">2 further', text, re.S)


def test_none_of_the_two_cannot_stay(boss: Client, hub: Hub) -> None:
    proposal = proposed(hub)
    response = press(boss, "merge", stays=new_id())
    assert "one of the two" in told(response) and fresh(proposal).state == "proposed"


def test_a_pair_is_kept_apart_and_comes_back_when_undone(boss: Client, hub: Hub) -> None:
    proposal = proposed(hub)
    shown = press(boss, "dismiss", reason="Two teas.")
    assert (fresh(proposal).state, fresh(proposal).reason) == ("dismissed", "Two teas.")
    undo(boss, shown)
    assert fresh(proposal).state == "proposed" and fresh(proposal).decided_at is None
    verbs = AuditEntry.objects.filter(object_id=str(proposal.pk)).order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["dismiss", "reopen"]


def test_undoing_a_merge_lets_the_others_wait_again(boss: Client, hub: Hub) -> None:
    proposal = proposed(hub)
    third = hub.remember("Something else about tea")
    further = [
        Merge.objects.create(
            actor=hub.actor,
            kept=one,
            kept_version=one.version,
            absorbed=other,
            absorbed_version=other.version,
            likeness=0.9,
            created_at=NOW + 2 * DAY,
        )
        for one, other in ((proposal.absorbed, third), (proposal.kept, third))
    ]
    shown = press(boss, "merge")
    assert [fresh(each).state for each in further] == ["withdrawn", "proposed"]
    shown = undo(boss, shown)
    assert [fresh(each).state for each in further] == ["proposed"] * 2 and shown.context["total"] == 3
    for each in further:
        press(boss, "dismiss", queue(boss, at=f"merge:{each.pk}"))
    assert [fresh(each).state for each in further] == ["dismissed"] * 2


def test_a_pair_of_which_one_was_changed_is_left_to_the_next_sleep(boss: Client, hub: Hub) -> None:
    proposal = proposed(hub)
    shown = queue(boss)
    edit_memory(memory=proposal.kept, values={"content": "Owns a canoe"}, **EDIT)
    response = press(boss, "merge", shown)
    assert "no longer pending" in told(response) and fresh(proposal).state == "proposed"
    assert response.context["item"] is None


def test_a_pair_of_which_the_tags_were_changed_waits_on(boss: Client, hub: Hub) -> None:
    proposal = proposed(hub)
    edit_memory(memory=proposal.kept, values={"tags": ["x"]}, **EDIT)
    shown = queue(boss)
    assert shown.context["proposal"] == proposal and "compared was version" not in shown.content.decode()
    press(boss, "merge", shown)
    assert fresh(proposal).state == "merged" and "x" in fresh(proposal.kept).tags


def waits_by_the_first_page(browser: Client) -> dict[str, str]:
    tiles = browser.get(reverse("admin:index")).context["tiles"]
    return {str(tile.title): str(tile.figure) for tile in tiles}


def test_the_first_page_counts_what_the_queue_shows(boss: Client, hub: Hub) -> None:
    waiting(hub, "Owns a canoe")
    proposal = proposed(hub)
    memory = proposal.kept
    changes: list[tuple[dict[str, Any], str]] = [
        ({}, "1"),
        ({"valid_to": NOW + DAY}, "0"),
        ({"valid_to": timezone.now() + DAY}, "1"),
        ({"valid_to": None, "status": "archived"}, "0"),
        ({"status": "active"}, "1"),
    ]
    for values, count in changes:
        Memory.objects.filter(pk=memory.pk).update(**values)
        tiles = waits_by_the_first_page(boss)
        assert (tiles["Merge proposals"], tiles["Pending"]) == (count, "1"), values
        shown = queue(boss, sort="merge")
        assert (str(shown.context["total"]), bool(shown.context["item"])) == (count, count == "1"), values


def test_the_first_page_leads_to_each_kind_alone(boss: Client, hub: Hub) -> None:
    waiting(hub, "Owns a canoe")
    replacing = waiting(hub, "Owns a kayak")
    Memory.objects.filter(pk=replacing.pk).update(supersedes=[hub.memory.pk])
    proposed(hub)
    tiles = {str(tile.title): tile for tile in boss.get(reverse("admin:index")).context["tiles"]}
    for title, sort in (("Pending", "memory"), ("Replacing memories", "correction"), ("Merge proposals", "merge")):
        shown = boss.get(tiles[title].href)
        assert str(tiles[title].figure) == str(shown.context["total"]) == "1"
        assert shown.context["item"].sort == sort


def test_many_pairs_that_wait_are_not_counted_to_the_end(
    boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposed(hub)
    limited = [replace(kind, max_counted=0) if kind.model is Merge else kind for kind in WAITING]
    monkeypatch.setattr("memoryhub.admin.waiting.WAITING", limited)
    assert waits_by_the_first_page(boss)["Merge proposals"] == "about 0"


# Who and what


def test_only_who_may_decide_sees_the_queue(hub: Hub, staff: Callable[..., Client]) -> None:
    waiting(hub, "Owns a canoe")
    reader = staff("view_memory", "view_merge")
    assert reader.get(reverse("review")).status_code == 403
    assert reader.post(reverse("review"), {"verb": "approve"}).status_code == 403
    assert reverse("review") not in reader.get(reverse("admin:strength_merge_changelist")).content.decode()


def test_messages_are_shown_to_who_may_read_them(hub: Hub, staff: Callable[..., Client]) -> None:
    waiting(hub, "Owns a canoe", source_message_ids=[hub.messages[1].pk])
    response = queue(staff("change_memory", "change_merge"))
    assert "抹茶アイスが好きです" not in response.content.decode() and "may not read it" in response.content.decode()


def test_a_post_needs_its_token(hub: Hub, boss: Client) -> None:
    memory = waiting(hub, "Owns a canoe")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(username="boss"))
    sent = {"verb": "approve", "item": f"memory:{memory.pk}", "version": 1}
    assert strict.post(reverse("review"), sent).status_code == 403
    assert fresh(memory).status == "pending"


def test_what_is_refused_is_told_from_a_template(boss: Client, hub: Hub) -> None:
    with translation.override("ja"), pytest.raises(AlreadyDecided) as caught:
        _decide_proposal(None, Item(Sort.MERGE, new_id()), Merge.objects.get)  # type: ignore[arg-type]
    assert "no longer pending" in str(caught.value)


def test_stored_words_are_said_in_the_readers_language(boss: Client, hub: Hub) -> None:
    message = hub.messages[1]
    waiting(hub, "Owns a canoe", kind="preference", source_message_ids=[message.pk])
    waiting(hub, "Has a cat", kind="episode")
    in_japanese = boss.get(reverse("review"), headers={"accept-language": "ja"}).content.decode()
    assert "<span>preference</span>" not in in_japanese and "<bdi>user</bdi>" not in in_japanese
    press(boss, "skip")
    in_japanese = boss.get(reverse("review"), headers={"accept-language": "ja"}).content.decode()
    assert "<span>episode</span>" not in in_japanese and "extraction" not in in_japanese
    proposed(hub)
    in_japanese = boss.get(reverse("review"), {"sort": "merge"}, headers={"accept-language": "ja"}).content.decode()
    assert "<td>active" not in in_japanese


@pytest.mark.parametrize(
    "values", [{}, {"item": "x:y"}, {"item": "memory:zzz"}, {"item": f"merge:{new_id()}", "verb": "explode"}]
)
def test_nonsense_is_told(boss: Client, hub: Hub, values: dict[str, str]) -> None:
    assert told(boss.post(reverse("review"), values, follow=True))
    assert boss.get(reverse("review"), {"at": "memory:", "agent": " ", "user": "%" * 300}).status_code == 200


def test_texts_of_others_are_texts(boss: Client, hub: Hub) -> None:
    message = hub.say(f"{SCRIPT} {RTL}")[0]
    hub.remember(f"A canoe {SCRIPT}")
    waiting(hub, f"Owns a canoe {SCRIPT} {RTL}", source_message_ids=[message.pk])
    assert SCRIPT not in queue(boss).content.decode()
    response = press(boss, "approve")
    assert SCRIPT not in response.content.decode()
    proposed(hub, f"{SAME[0]} {SCRIPT}", f"{SAME[1]} {SCRIPT}")
    assert SCRIPT not in queue(boss, sort="merge").content.decode()


def test_a_very_long_text_is_cut_and_its_whole_is_linked(boss: Client, hub: Hub) -> None:
    memory = waiting(hub, "京" * 100_000)
    response = queue(boss)
    assert len(response.content) < 400_000 and "read the rest on its page" in response.content.decode()
    assert page_of(memory) in response.content.decode() and 'id="edit-content"' not in response.content.decode()
    press(boss, "approve", response)
    assert fresh(memory).status == "active" and len(fresh(memory).content) == 100_000


@pytest.mark.parametrize("sort", ["memory", "correction", "merge"])
def test_the_queue_asks_little(boss: Client, hub: Hub, sort: str) -> None:
    for number in range(30):
        waiting(hub, f"Owns canoe number {number}", source_message_ids=[hub.messages[0].pk, hub.messages[1].pk])
    correction(hub)
    proposed(hub)
    press(boss, "approve")
    press(boss, "skip")
    queue(boss, sort=sort)
    with CaptureQueriesContext(connection) as queries:
        response = queue(boss, sort=sort)
    assert len(queries) <= MOST_QUERIES, len(queries)
    assert len(response.content) < 400_000


@pytest.mark.parametrize("key", ["a", "r", "e", "l", "s", "w"])
def test_every_key_is_a_buttons(boss: Client, hub: Hub, key: str) -> None:
    waiting(hub, "Owns a canoe")
    assert queue(boss).content.decode().count(f'aria-keyshortcuts="{key}"') == 1


@pytest.mark.parametrize("key", ["m", "k", "1", "2", "w"])
def test_every_key_of_a_pair_is_a_buttons(boss: Client, hub: Hub, key: str) -> None:
    proposed(hub)
    assert queue(boss).content.decode().count(f'aria-keyshortcuts="{key}"') == 1


def test_a_filter_with_nothing_left_does_not_say_that_nothing_waits(boss: Client, hub: Hub) -> None:
    waiting(hub, "Owns a canoe")
    response = queue(boss, agent="nobody")
    text = response.content.decode()
    assert "Nothing is left under this filter" in text and "1 other item is pending." in text
    assert response.context["open"] == 1 and 'data-open="1"' in text


def test_after_an_undo_the_place_is_told_as_before(boss: Client, hub: Hub) -> None:
    first = waiting(hub, "Owns a canoe")
    waiting(hub, "Owns a raft")
    place = queue(boss).context["place"]
    assert place == 1 and queue(boss, at=f"memory:{first.pk}").context["place"] == 1
