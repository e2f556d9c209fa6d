"""News: what became of each memory since a person last read, one line each, and nothing is lost by a reload (SPEC W14)."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.actions import create_agent
from memoryhub.auth.erasure import erase_user
from memoryhub.auth.principals import Principal, PrincipalKind
from memoryhub.tenancy.models import Actor
from strength.actions import news
from strength.actions.curation import apply_transition, delete_memory, edit_memory
from strength.actions.memories import NewMemory, supersede_memory, write_memory
from strength.actions.news import last_committed_change, place_of
from strength.actions.sleep import SleepRequest, sleep
from strength.domain.memories import Status
from strength.domain.sleep import Trigger
from strength.models import Memory, MemoryChange, MemoryRevision, NewsPlace
from tests.integration.admin.conftest import BY, NOW, SCRIPT, Hub, logged_in, page_of
from tests.integration.admin.test_review import STRANGER, told

# The feed is written by triggers when a transaction commits.
pytestmark = pytest.mark.django_db(transaction=True)

PEER = Principal(kind=PrincipalKind.CURATOR, id="77", name="aya")


@pytest.fixture
def start(boss: Client, hub: Hub) -> None:
    """Mark everything that is there as read."""
    NewsPlace.objects.create(person=boss_account(), place=last_committed_change(), read_at=timezone.now())


def boss_account() -> User:
    return User.objects.get(username="boss")


def page(browser: Client, **values: Any) -> Any:
    answer = browser.get(reverse("news"), values)
    assert answer.status_code == 200
    return answer


def rows(answer: Any) -> list[Any]:
    return [row for group in answer.context["groups"] for row in group["rows"]]


def kinds(answer: Any) -> dict[Any, str]:
    return {row["memory"].pk: row["kind_name"] for row in rows(answer)}


def text_of(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def change(**values: Any) -> dict[str, Any]:
    return {"by": BY, "reason": "", "now": timezone.now(), **values}


def curate(memory: Memory, verb: str, by: Principal = BY) -> Memory:
    memory.refresh_from_db()
    return apply_transition(memory=memory, verb=verb, expected_version=memory.version, **change(by=by))


def write(actor: Actor, content: str, by: Principal = BY, **options: Any) -> Memory:
    return write_memory(actor=actor, new=NewMemory(content=content, **options), by=by, now=timezone.now())[0]


@pytest.mark.usefixtures("start")
def test_each_kind_of_change_is_one_line(boss: Client, hub: Hub) -> None:
    old = {
        name: write(hub.actor, f"{name.title()} text before.") for name in ("edited", "ended", "archived", "rejected")
    }
    fading = write(hub.actor, "A text that fades.", strength=0.001)
    mark(boss)
    new = write(hub.actor, "Ken rides a red bicycle.")
    edit_memory(memory=old["edited"], values={"content": "Edited text after."}, expected_version=None, **change())
    successor = supersede_memory(
        memory=old["ended"], new=NewMemory(content="Ended text after."), at=timezone.now(), **change()
    )
    curate(old["archived"], "archive")
    curate(old["rejected"], "reject")
    sleep(actor=hub.actor, request=SleepRequest(Trigger.SCHEDULE, BY, timezone.now() + timedelta(days=1)))
    answer = page(boss)
    found = kinds(answer)
    assert found[new.pk] == found[successor.pk] == "learnt" and found[old["edited"].pk] == "changed"
    assert found[old["ended"].pk] == "contradicted" and found[fading.pk] == "faded"
    assert found[old["archived"].pk] == "archived" and found[old["rejected"].pk] == "rejected"
    assert len(rows(answer)) == len(found), "one line for each memory"
    shown = text_of(answer)
    assert '<del class="hub-gone">before</del>' in shown and '<ins class="hub-new">after</ins>' in shown
    assert page_of(successor) in shown
    only = page(boss, kind="faded")
    assert set(kinds(only).values()) == {"faded"} and only.context["total"] == answer.context["total"]


def mark(browser: Client) -> Any:
    return browser.post(reverse("news"), {"verb": "read", "place": page(browser).context["params"].until}, follow=True)


@pytest.mark.usefixtures("start")
def test_a_memory_that_changed_often_shows_its_first_and_last_state(boss: Client, hub: Hub) -> None:
    memory = write(hub.actor, "Maya drinks coffee.")
    mark(boss)
    for drink in ("tea", "water", "juice", "matcha"):
        edit_memory(memory=memory, values={"content": f"Maya drinks {drink}."}, expected_version=None, **change())
    [row] = rows(page(boss))
    assert row["changes"] == 4 and [(run.kind, run.text) for run in row["runs"] if run.kind != "same"] == [
        ("gone", "coffee"),
        ("new", "matcha"),
    ]
    edit_memory(memory=memory, values={"content": "Maya drinks coffee."}, expected_version=None, **change())
    assert "Changed, and changed back." in text_of(page(boss))


@pytest.mark.usefixtures("start")
def test_a_field_that_older_snapshots_lack_is_no_difference(boss: Client, hub: Hub) -> None:
    memory = write(hub.actor, "Maya drinks coffee.")
    first = MemoryRevision.objects.get(memory_id=memory.pk)
    MemoryRevision.objects.filter(pk=first.pk).update(after={k: v for k, v in first.after.items() if k != "metadata"})
    curate(memory, "pin")
    [row] = rows(page(boss))
    assert row["others"] == []


@pytest.mark.usefixtures("start")
def test_nothing_to_do_is_one_sentence(boss: Client, hub: Hub) -> None:
    assert "Nothing to do: nothing has changed since" in text_of(page(boss))
    write(hub.actor, "A text that waits.", STRANGER)
    waits = page(boss)
    assert "Nothing to do" not in text_of(waits) and "Pending: 1" in text_of(waits)
    mark(boss)
    assert "Nothing has changed since" in text_of(page(boss)) and "Pending: 1" in text_of(page(boss))


@pytest.mark.usefixtures("start")
def test_the_sentence_says_that_ones_own_changes_are_left_out(boss: Client, hub: Hub) -> None:
    assert "What you alone changed is left out." in text_of(page(boss)), "also where nothing else has changed"
    write(hub.actor, "A new text.")
    assert "What you alone changed is left out." in text_of(page(boss))
    assert "What you alone changed is left out." not in text_of(page(boss, own="1"))


@pytest.mark.usefixtures("start")
def test_only_the_button_marks_as_read_and_it_is_undone(boss: Client, hub: Hub) -> None:
    memory = write(hub.actor, "A new text.")
    for _visit in range(2):
        shown = page(boss)
        assert kinds(shown) == {memory.pk: "learnt"}, "a reload loses nothing"
    late = write(hub.actor, "Written after the page was shown.")
    form = re.search(r'id="read-form">.*?name="place" value="(\d+)"', shown.content.decode(), re.S)
    assert form is not None
    answer = boss.post(reverse("news"), {"verb": "read", "place": form[1]}, follow=True)
    assert kinds(answer) == {late.pk: "learnt"}, "what the page did not show is still new"
    undo = re.search(r'action="([^"]*verb=unread[^"]*)"', answer.content.decode())
    assert undo is not None and "Marked as read." in told(answer)
    boss.post(undo[1].replace("&amp;", "&"))
    assert set(kinds(page(boss))) == {memory.pk, late.pk}


def test_who_never_read_sees_the_last_days(boss: Client, hub: Hub) -> None:
    new = write(hub.actor, "A new text.")
    answer = page(boss)
    assert new.pk in kinds(answer) and hub.memory.pk not in kinds(answer), "hub's rows are months old"
    assert "You have not marked anything as read yet" in text_of(answer)
    answer = mark(boss)
    undo = re.search(r'action="([^"]*verb=unread[^"]*)"', answer.content.decode())
    assert undo is not None and not rows(answer)
    boss.post(undo[1].replace("&amp;", "&"))
    assert place_of(boss_account()).place is None and new.pk in kinds(page(boss))


@pytest.mark.usefixtures("start")
def test_a_period_or_a_day_shows_what_was_read_before(boss: Client, hub: Hub) -> None:
    new = write(hub.actor, "A new text.")
    mark(boss)
    assert not rows(page(boss))
    assert set(kinds(page(boss, since="1"))) == {new.pk}
    assert set(kinds(page(boss, day="2026-01-01"))) >= {new.pk, hub.memory.pk}
    assert not rows(page(boss, day="2999-01-01")) and page(boss, day="nonsense").status_code == 200


@pytest.mark.usefixtures("start")
def test_what_a_person_alone_changed_is_no_news(boss: Client, hub: Hub) -> None:
    me = Principal(kind=PrincipalKind.CURATOR, id=str(boss_account().pk), name="boss")
    own, other = write(hub.actor, "Mine.", me), write(hub.actor, "Written by a program.", STRANGER)
    curate(other, "approve", me)
    assert set(kinds(page(boss))) == {other.pk}
    assert set(kinds(page(boss, own="1"))) == {own.pk, other.pk}
    curate(own, "archive", PEER)
    assert set(kinds(page(boss))) == {own.pk, other.pk}


@pytest.mark.usefixtures("start")
def test_deleted_memories_are_counted_without_texts(boss: Client, hub: Hub) -> None:
    gone, second = write(hub.actor, "The secret garden."), write(hub.actor, "Another.")
    delete_memory(memory=gone, expected_version=None, **change())
    answer = page(boss)
    assert set(kinds(answer)) == {second.pk} and "secret garden" not in text_of(answer)
    assert [count for _owner, count in answer.context["forgotten"]] == ["1"]
    erase_user(agent_id=hub.agent.pk, user_id=hub.actor.user_id, by=BY, now=timezone.now())
    answer = page(boss)
    assert not rows(answer) and hub.actor.user_id not in text_of(answer).replace(hub.agent.pk, "")
    assert sum(int(count) for _owner, count in answer.context["forgotten"]) >= 2


@pytest.mark.usefixtures("start")
def test_lines_are_grouped_and_filtered_by_agent_and_user(boss: Client, hub: Hub) -> None:
    create_agent(agent_id="aaa", values={}, by=BY, now=NOW)
    first = write(actor_for_writing(BY, "aaa", "u", now=NOW), "Of another agent.")
    mine = write(hub.actor, "Of kana.")
    answer = page(boss)
    assert [[row["memory"].pk for row in group["rows"]] for group in answer.context["groups"]] == [
        [first.pk],
        [mine.pk],
    ]
    assert set(kinds(page(boss, agent="aaa"))) == {first.pk}
    assert set(kinds(page(boss, user=hub.actor.user_id))) == {mine.pk}
    filtered = page(boss, agent="aaa")
    assert 'id="read-form"' not in filtered.content.decode(), "else what is filtered out would be lost"


@pytest.mark.usefixtures("start")
def test_pages_show_each_line_once(boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strength.admin.news.PAGE_SIZE", 3)
    second = actor_for_writing(BY, hub.agent.pk, "zoe", now=NOW)
    written = {write(actor, f"Text {number}.").pk for actor in (hub.actor, second) for number in range(4)}
    seen: list[Any] = []
    address = reverse("news")
    while address:
        answer = boss.get(address)
        seen += [row["memory"].pk for row in rows(answer)]
        write(hub.actor, f"Meanwhile {address}.")  # does not shift the pages
        address = answer.context["following"]
    assert len(seen) == len(written) and set(seen) == written


@pytest.mark.usefixtures("start")
def test_buttons_of_a_line_decide_and_return_to_it(boss: Client, hub: Hub) -> None:
    waiting = write(hub.actor, "A text that waits.", STRANGER)
    shown = page(boss)
    button = re.search(r'formaction="([^"]+)" name="verb" value="approve"[^>]*data-key="a"', shown.content.decode())
    back = re.search(r'id="row-form">.*?name="next" value="([^"]+)"', shown.content.decode(), re.S)
    assert button and back and 'value="reject"' in shown.content.decode()
    answer = boss.post(
        button[1].replace("&amp;", "&"), {"verb": "approve", "next": back[1].replace("&amp;", "&"), "row": "1"}
    )
    assert answer["Location"].endswith(f"#row-{waiting.pk}") and "until=" in answer["Location"]
    waiting.refresh_from_db()
    assert waiting.status == Status.ACTIVE
    after = boss.get(answer["Location"])
    assert kinds(after) == {waiting.pk: "learnt"} and 'value="archive"' in after.content.decode(), "the line stays"


@pytest.mark.usefixtures("start")
def test_texts_are_shown_as_texts_and_without_buttons_to_who_may_only_look(
    boss: Client, hub: Hub, staff: Callable[..., Client]
) -> None:
    write(hub.actor, SCRIPT)
    viewer = staff("view_memory")
    shown = page(viewer, since="1").content.decode()
    assert SCRIPT not in shown and "&lt;script&gt;" in shown and "row-button" not in shown
    User.objects.filter(username="kei").delete()
    assert staff("view_session").get(reverse("news")).status_code == 403


@pytest.mark.usefixtures("start")
def test_a_page_asks_few_statements_for_any_number_of_lines(boss: Client, hub: Hub) -> None:
    counts = []
    for number in (2, 40):
        for each in range(number):
            write(hub.actor, f"Text {number}-{each}.")
        with CaptureQueriesContext(connection) as statements:
            page(boss)
        counts.append(len(statements))
    assert counts[0] == counts[1] <= 30


def test_a_long_absence_compares_the_latest_changes_only(
    boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    NewsPlace.objects.create(person=boss_account(), place=0, read_at=NOW)
    written = [write(hub.actor, f"Text {number}.") for number in range(4)]
    monkeypatch.setattr(news, "MAX_CHANGES", 2)
    answer = page(boss)
    assert set(kinds(answer)) == {memory.pk for memory in written[-2:]} and "Only the latest" in text_of(answer)


@pytest.mark.parametrize(
    "values",
    [
        {"until": "x"},
        {"until": "9" * 30},
        {"after": "1"},
        {"after": "-1"},
        {"kind": "nothing"},
        {"since": "99"},
        {"agent": "nobody"},
    ],
    ids=str,
)
def test_odd_addresses_show_the_page(boss: Client, hub: Hub, values: dict[str, str]) -> None:
    write(hub.actor, "A new text.")
    page(boss, **values)


def test_wishes_for_mail_are_kept_apart_from_the_place(boss: Client, hub: Hub) -> None:
    User.objects.filter(username="boss").update(email="boss@example.org")
    boss.post(reverse("news"), {"verb": "mail", "wants_mail": "1"})
    mark(boss)
    place = place_of(boss_account())
    assert place.wants_mail and place.place == MemoryChange.objects.order_by("-pk").values_list("pk", flat=True)[0]
    assert "boss@example.org" in text_of(page(boss))
    boss.post(reverse("news"), {"verb": "mail"})
    assert not place_of(boss_account()).wants_mail and place_of(boss_account()).place == place.place
    assert logged_in(boss_account()).post(reverse("news"), {"verb": "what"}, follow=True).status_code == 200
