"""The review for a team: put off until a day, assigned, commented on; each with its undo (SPEC W16)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.actions import create_agent
from memoryhub.auth.erasure import erase_user
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import Forbidden
from strength.actions.curation import delete_memory, edit_memory
from strength.actions.review import QueueFilter, count_pending
from strength.actions.review_team import MAX_COMMENTS, assign, reviewers, snooze, write_comment
from strength.actions.second_review import NEEDS
from strength.domain.memories import MemoryRefused, Status, WrongState
from strength.domain.review import Item, Sort
from strength.models import Memory, ReviewComment, ReviewPlan
from strength.models.plan import MAX_COMMENT_LENGTH
from tests.integration.admin.conftest import BY, Hub, list_of, logged_in, page_of
from tests.integration.admin.test_review import STRANGER, fresh, press, proposed, queue, told, undo, waiting

SECRET = "sk-proj-" + "a1B2" * 12


def person(name: str, *, may: bool = True) -> User:
    """Return an account, of a curator unless it may nothing."""
    user = User.objects.create_user(name, password="a long password", is_staff=True)
    codes = [code.partition(".")[2] for code in NEEDS] if may else []
    user.user_permissions.set(Permission.objects.filter(codename__in=[*codes, "view_memory"]))
    return user


def tomorrow(days: int = 1) -> str:
    return (timezone.localdate() + timedelta(days=days)).isoformat()


def item(row: Any) -> Item:
    return Item(Sort.MEMORY if isinstance(row, Memory) else Sort.MERGE, row.pk)


def on_dashboard(browser: Client) -> int:
    kinds = [tile for tile in browser.get(reverse("admin:index")).context["waiting"] if tile.page == "review"]
    return sum(tile.figure.number for tile in kinds)


def shown_memory(response: Any) -> Any:
    return response.context.get("memory")


# Put off


def test_an_item_is_put_off_until_a_day_and_comes_back(boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = waiting(hub, "Likes tea"), waiting(hub, "Plays the cello")
    answer = press(boss, "snooze", day=tomorrow())
    assert shown_memory(answer) == second and "1 of 1" in answer.content.decode()
    assert "Put off" in str(answer.context["done"]["words"]) and answer.context["count"] == 0
    assert fresh(first).status == Status.PENDING, "it is not decided"
    assert count_pending(QueueFilter(), now=timezone.now()) == on_dashboard(boss) == 1
    only = queue(boss, when="snoozed")
    assert shown_memory(only) == first and "Put off until" in only.content.decode()
    monkeypatch.setattr("strength.admin.review.clock", lambda: timezone.now() + timedelta(days=1))
    assert shown_memory(queue(boss)) == first
    assert count_pending(QueueFilter(), now=timezone.now() + timedelta(days=1)) == 2


def test_putting_off_is_undone_and_taken_back_by_a_button(boss: Client, hub: Hub) -> None:
    memory = waiting(hub, "Likes tea")
    ended = press(boss, "snooze", day=tomorrow())
    assert ended.context["item"] is None and ended.context["snoozed_count"] == 1
    assert '?when=snoozed">Put off: 1</a>' in ended.content.decode()
    assert shown_memory(undo(boss, ended)) == memory
    press(boss, "snooze", day=tomorrow(7))
    assert queue(boss).context["item"] is None
    woken = press(boss, "wake", queue(boss, when="snoozed"))
    assert shown_memory(queue(boss)) == memory
    undo(boss, woken)
    assert queue(boss).context["item"] is None, "the day of before is back"
    verbs = AuditEntry.objects.filter(object_id=str(memory.pk), verb="snooze").count()
    assert verbs == 5


def test_a_proposal_is_put_off(boss: Client, hub: Hub) -> None:
    merge = proposed(hub)
    ended = press(boss, "snooze", queue(boss, sort="merge"), day=tomorrow())
    assert ended.context["item"] is None and on_dashboard(boss) == 0
    assert fresh(merge).state == "proposed"
    assert undo(boss, ended).context["proposal"] == merge and on_dashboard(boss) == 1


def test_each_item_that_is_put_off_is_listed_and_brought_back(boss: Client, hub: Hub) -> None:
    texts = ["Likes tea", "Plays the cello", "Walks"]
    for days, memory in enumerate([waiting(hub, text) for text in texts]):
        snooze(item=item(memory), until=timezone.now() + timedelta(days=9 - days), by=BY, now=timezone.now())
    merge = proposed(hub)
    snooze(item=Item(Sort.MERGE, merge.pk), until=timezone.now() + timedelta(days=20), by=BY, now=timezone.now())
    listed = queue(boss, when="snoozed")
    kept = Memory.objects.get(pk=merge.kept_id).content
    assert [strip_tags(each["words"]) for each in listed.context["put_off"]] == [*reversed(texts), kept]
    woken = boss.post(
        f"{reverse('review')}?when=snoozed", {"item": listed.context["put_off"][1]["item"], "verb": "wake"}, follow=True
    )
    assert [strip_tags(each["words"]) for each in woken.context["put_off"]] == ["Walks", "Likes tea", kept]
    assert str(woken.context["done"]["words"]) == "Back in the queue"
    assert len(undo(boss, woken).context["put_off"]) == 4


def test_a_memory_that_changes_is_back_at_once(boss: Client, hub: Hub) -> None:
    memory = waiting(hub, "Likes tea")
    press(boss, "snooze", day=tomorrow())
    now = timezone.now()
    edit_memory(memory=fresh(memory), values={"tags": ["new"]}, expected_version=None, by=BY, reason="", now=now)
    assert shown_memory(queue(boss)) == memory


@pytest.mark.parametrize("day", ["", "yesterday", "2020-01-01", "2026-02-31", "9999-12-31", tomorrow(0)])
def test_a_day_that_is_not_ahead_is_refused(boss: Client, hub: Hub, day: str) -> None:
    memory = waiting(hub, "Likes tea")
    assert "after today" in told(press(boss, "snooze", day=day))
    assert shown_memory(queue(boss)) == memory and not ReviewPlan.objects.exists()


def test_what_another_changed_since_is_not_undone(boss: Client, hub: Hub) -> None:
    memory = waiting(hub, "Likes tea")
    ended, now = press(boss, "snooze", day=tomorrow()), timezone.now()
    snooze(item=item(memory), until=now + timedelta(days=9), by=BY, now=now)
    assert "changed the day since" in told(undo(boss, ended))
    assert queue(boss).context["item"] is None


# Assigned


def test_one_person_alone_sees_nothing_of_assigning(boss: Client, hub: Hub) -> None:
    waiting(hub, "Likes tea")
    page = queue(boss).content.decode()
    assert "Take it" not in page and 'name="assigned"' not in page and "Put off until tomorrow" in page


def test_an_item_is_taken_and_filtered(boss: Client, hub: Hub) -> None:
    aya = person("aya")
    first, second = waiting(hub, "Likes tea"), waiting(hub, "Plays the cello")
    me = User.objects.get(username="boss")
    taken = press(boss, "assign", assigned="", person=me.pk)
    assert shown_memory(taken) == first and "Assigned to you" in taken.content.decode()
    assert shown_memory(queue(boss, assigned="mine")) == first
    assert shown_memory(queue(boss, assigned="no_one")) == second
    assert queue(logged_in(aya)).context["total"] == 2, "all see all unless they ask for less"
    assert queue(logged_in(aya), assigned="mine").context["item"] is None
    assert taken.context["done"]["words"] == "Assigned to boss"
    again = undo(boss, taken)
    assert "Undone" in told(again) and "Assigned to you" not in again.content.decode()
    assert ReviewPlan.objects.get().assigned_to is None
    given = press(boss, "assign", assigned="", person=aya.pk)
    assert "Assigned to aya" in given.content.decode() and given.context["done"]["words"] == "Assigned to aya"
    for page in (page_of(first), list_of(Memory) + "?status__exact=pending"):
        assert "Assigned to aya" in boss.get(page).content.decode(), page
    entry = AuditEntry.objects.filter(verb="assign", object_id=str(first.pk)).latest("at")
    assert entry.details == {"person": aya.pk}


def test_the_items_of_a_closed_account_are_free(boss: Client, hub: Hub) -> None:
    aya, memory = person("aya"), waiting(hub, "Likes tea")
    assign(item=item(memory), person_id=aya.pk, expected_id=None, by=BY, now=timezone.now())
    assert queue(boss, assigned="no_one").context["item"] is None
    aya.is_active = False
    aya.save()
    free = queue(boss, assigned="no_one")
    assert shown_memory(free) == memory and free.context["assigned_id"] is None
    aya.delete()
    assert ReviewPlan.objects.get().assigned_to is None


def test_only_people_who_may_review_are_assigned(boss: Client, hub: Hub) -> None:
    kei, memory = person("kei", may=False), waiting(hub, "Likes tea")
    assert kei not in reviewers()
    assert "may not review" in told(press(boss, "assign", assigned="", person=kei.pk))
    with pytest.raises(Forbidden):
        assign(item=item(memory), person_id=None, expected_id=None, by=STRANGER, now=timezone.now())
    with pytest.raises(Forbidden):
        snooze(item=item(memory), until=timezone.now() + timedelta(days=1), by=STRANGER, now=timezone.now())


def test_what_no_longer_waits_is_not_planned(boss: Client, hub: Hub) -> None:
    memory = hub.memory
    for act in (
        lambda: snooze(item=item(memory), until=None, by=BY, now=timezone.now()),
        lambda: assign(item=item(memory), person_id=None, expected_id=None, by=BY, now=timezone.now()),
    ):
        with pytest.raises(WrongState):
            act()
    assert not ReviewPlan.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_people_who_take_an_item_at_once_one_has_it(hub: Hub) -> None:
    people, memory = [person("aya"), person("ken")], waiting(hub, "Likes tea")

    def take(who: User) -> str:
        try:
            assign(item=item(memory), person_id=who.pk, expected_id=None, by=BY, now=timezone.now())
        except WrongState:
            return "late"
        finally:
            connection.close()
        return "taken"

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(take, people)) == ["late", "taken"]
    assert ReviewPlan.objects.get().assigned_to in people


# Comments


def test_a_comment_is_shown_edited_undone_and_deleted(boss: Client, hub: Hub) -> None:
    memory = waiting(hub, "Likes tea")
    shown = press(boss, "comment", comment="Ask Maya first.\r\n<b>She knows.</b>")
    comment = ReviewComment.objects.get()
    assert (comment.text, comment.author_name) == ("Ask Maya first.\n<b>She knows.</b>", "boss")
    page = shown.content.decode()
    assert shown_memory(shown) == memory and "Ask Maya first." in page and "<b>She knows" not in page
    assert "Ask Maya first." in boss.get(page_of(memory)).content.decode()
    assert not AuditEntry.objects.filter(reason__contains="Maya").exists()
    undo(boss, shown)
    assert not ReviewComment.objects.exists()

    address = page_of(memory, "comment")
    boss.post(address, {"verb": "comment", "comment": "Ask Ken."})
    key = ReviewComment.objects.get().pk
    press(boss, "edit-comment", key=key, comment="Ask Ken, or Aya.")
    assert ReviewComment.objects.get().text == "Ask Ken, or Aya." and ReviewComment.objects.get().edited_at
    boss.post(address, {"verb": "delete-comment", "key": key})
    assert not ReviewComment.objects.exists()
    verbs = AuditEntry.objects.filter(object_kind="reviewcomment").values_list("verb", flat=True)
    assert sorted(verbs) == ["create", "create", "delete", "delete", "update"]


def test_only_the_author_changes_a_comment(boss: Client, hub: Hub) -> None:
    memory = waiting(hub, "Likes tea")
    aya = person("aya")
    comment = write_comment(row=memory, text="Ask Ken.", author=aya, by=BY, now=timezone.now())
    for verb in ("edit-comment", "delete-comment"):
        answer = press(boss, verb, key=comment.pk, comment="Approve it.")
        assert "no such comment of yours" in told(answer) and "Ask Ken." in answer.content.decode()
    assert fresh(comment).text == "Ask Ken."
    assert "Edit or delete" not in queue(boss).content.decode()
    aya.delete()
    assert fresh(comment).author is None and "aya" in queue(boss).content.decode()


def test_secrets_are_removed_from_comments(boss: Client, hub: Hub) -> None:
    waiting(hub, "Likes tea")
    press(boss, "comment", comment=f"The key is {SECRET}")
    assert SECRET not in ReviewComment.objects.get().text and "[secret removed" in ReviewComment.objects.get().text
    assert AuditEntry.objects.filter(verb="redact", object_kind="reviewcomment").exists()


@pytest.mark.parametrize("text", ["", "  \n", "a" * (MAX_COMMENT_LENGTH + 1)])
def test_a_comment_without_words_or_too_long_is_refused(hub: Hub, text: str) -> None:
    with pytest.raises(MemoryRefused):
        write_comment(row=hub.memory, text=text, author=person("aya"), by=BY, now=timezone.now())
    assert not ReviewComment.objects.exists()


def test_a_memory_has_a_limit_of_comments(hub: Hub) -> None:
    aya = person("aya")
    values = {"actor": hub.actor, "memory": hub.memory, "author": aya, "author_name": "aya", "text": "yes"}
    ReviewComment.objects.bulk_create([ReviewComment(**values) for _number in range(MAX_COMMENTS)])
    with pytest.raises(WrongState):
        write_comment(row=hub.memory, text="And", author=aya, by=BY, now=timezone.now())


def test_who_may_only_read_memories_reads_comments(staff: Callable[..., Client], hub: Hub) -> None:
    comment = write_comment(row=hub.memory, text="Ask Ken.", author=person("aya"), by=BY, now=timezone.now())
    reader = staff("view_memory")
    page = reader.get(page_of(hub.memory)).content.decode()
    assert "Ask Ken." in page and "comment-text" not in page
    for verb in ("comment", "edit-comment", "delete-comment"):
        values = {"verb": verb, "key": comment.pk, "comment": "No."}
        assert reader.post(page_of(hub.memory, "comment"), values).status_code == 403
    assert fresh(comment).text == "Ask Ken."


def test_a_pair_is_commented_on_in_the_review_and_on_its_page(boss: Client, hub: Hub) -> None:
    proposal = proposed(hub)
    shown = press(boss, "comment", comment="Both are from <Maya>.")
    comment = ReviewComment.objects.get()
    assert (comment.merge, comment.memory_id, comment.author_name) == (proposal, proposal.kept_id, "boss")
    assert shown.context["proposal"] == proposal and "Both are from &lt;Maya&gt;." in shown.content.decode()
    assert "Both are from" in boss.get(page_of(proposal)).content.decode()
    assert "Both are from" not in boss.get(page_of(proposal.kept)).content.decode(), "it is about the pair"
    undo(boss, shown)
    assert not ReviewComment.objects.exists()

    address = page_of(proposal, "comment")
    boss.post(address, {"verb": "comment", "comment": f"Ask Ken, {SECRET}"})
    comment = ReviewComment.objects.get()
    assert "[secret removed" in comment.text
    aya = logged_in(person("aya"))
    answer = aya.post(address, {"verb": "edit-comment", "key": comment.pk, "comment": "No."}, follow=True)
    assert "no such comment of yours" in told(answer)
    boss.post(address, {"verb": "edit-comment", "key": comment.pk, "comment": "Ask Aya."})
    assert fresh(comment).text == "Ask Aya." and fresh(comment).edited_at
    boss.post(address, {"verb": "delete-comment", "key": comment.pk})
    assert not ReviewComment.objects.exists()


def test_comments_on_a_pair_need_its_permission_and_end_with_it(staff: Callable[..., Client], hub: Hub) -> None:
    proposal, aya = proposed(hub), person("aya")
    write_comment(row=proposal, text="Ask Ken.", author=aya, by=BY, now=timezone.now())
    reader = staff("view_merge", "view_memory", "change_memory")
    assert "Ask Ken." in reader.get(page_of(proposal)).content.decode()
    assert reader.post(page_of(proposal, "comment"), {"verb": "comment", "comment": "No."}).status_code == 403
    with pytest.raises(Forbidden):
        write_comment(row=proposal, text="No.", author=person("ren", may=False), by=BY, now=timezone.now())
    delete_memory(memory=proposal.absorbed, expected_version=None, by=BY, reason="", now=timezone.now())
    assert not ReviewComment.objects.exists()


# Deletion, erasure, other tenants


def test_plans_and_comments_end_with_the_memory(hub: Hub) -> None:
    now, aya = timezone.now(), person("aya")
    other = create_agent(agent_id="other", values={}, by=BY, now=now)
    theirs = actor_for_writing(BY, other.pk, hub.actor.user_id, now=now)
    kept = Memory.objects.create(
        actor=theirs, kind="fact", namespace="/", content="Theirs", status="pending", source="manual"
    )
    memories = [waiting(hub, "Likes tea"), waiting(hub, "Plays the cello"), kept]
    for memory in memories:
        snooze(item=item(memory), until=now + timedelta(days=1), by=BY, now=now)
        write_comment(row=memory, text="Ask Ken.", author=aya, by=BY, now=now)
    delete_memory(memory=memories[0], expected_version=None, by=BY, reason="", now=now)
    assert ReviewPlan.objects.count() == ReviewComment.objects.count() == 2
    erase_user(agent_id="kana", user_id=hub.actor.user_id, by=BY, now=now)
    assert ReviewPlan.objects.get().actor == ReviewComment.objects.get().actor == theirs
