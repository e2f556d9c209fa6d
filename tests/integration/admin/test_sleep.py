"""Sleeps in the admin: previewed by kind, kept from, begun for whole agents step by step, compared and undone."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memoryhub.auth.access import actor_for_writing
from memoryhub.ids import new_id
from strength.actions.memories import NewMemory, write_memory
from strength.actions.sleep import SleepRequest, sleep
from strength.actions.sleep_runs import preview_sleep
from strength.domain.sleep import Trigger
from strength.models import Memory, Merge, SleepRun
from tests.integration.admin.conftest import BY, NOW, SECRET_USER, Hub, list_of, page_of

DAY = timedelta(days=1)
SOON = NOW + DAY + timedelta(minutes=1)
BEGIN = "admin:strength_sleeprun_begin"
MOST_QUERIES = 25


def begin(browser: Client, **values: Any) -> Any:
    sent = {"agent": "kana", "user_id": "", "all_users": "on", "verb": "preview", "confirmed": "1", **values}
    return browser.post(reverse(BEGIN), sent)


def told(response: Any) -> str:
    return " ".join(str(message) for message in response.context["messages"])


def undo_of(response: Any) -> str:
    """Return the address that the message's button posts to."""
    [address] = [each.extra_tags for each in response.context["messages"] if each.extra_tags]
    return str(address).removeprefix("undo:")


def preview(hub: Hub) -> SleepRun:
    return preview_sleep(actor=hub.actor, request=SleepRequest(Trigger.CURATOR, BY, NOW + DAY))


def slept(hub: Hub) -> SleepRun:
    return sleep(actor=hub.actor, request=SleepRequest(Trigger.CURATOR, BY, SOON))


def actors(count: int) -> None:
    """Give users of the agent something to remember."""
    for number in range(count):
        actor = actor_for_writing(BY, "kana", f"user-{number}", now=NOW)
        write_memory(actor=actor, new=NewMemory(content="x"), by=BY, now=NOW)


def test_preview_sleep_undo_are_three_clicks(boss: Client, hub: Hub) -> None:
    weak = hub.remember("Said in passing", strength=0.05)
    who = {"user_id": hub.actor.user_id, "verb": "preview"}
    first = boss.post(reverse(BEGIN), {"agent": "kana", **who}, follow=True)
    second = boss.post(page_of(first.context["original"], "sleep"), follow=True)
    assert Memory.objects.get(pk=weak.pk).status == "archived" and "run is done" in told(second)
    third = boss.post(undo_of(second), follow=True)
    assert "was undone" in told(third) and Memory.objects.get(pk=weak.pk).status == "active"


def test_an_undone_run_still_lists_what_it_did(boss: Client, hub: Hub) -> None:
    hub.remember("Said in passing", strength=0.05)
    run = slept(hub)
    before = boss.get(page_of(run)).context["changes"]
    undone = boss.post(page_of(run, "undo"), follow=True)
    assert {each["change"] for each in before} == {"archive", "decay"}
    keys = ("memory_id", "change", "before", "after")
    assert [[each[key] for key in keys] for each in undone.context["changes"]] == [
        [each[key] for key in keys] for each in before
    ]
    text = undone.content.decode()
    assert "What it did, undone since" in text and 'id="undone"' in text
    curves = {str(each["title"]): each["total"] for each in boss.get(reverse("admin:index")).context["curves"]}
    assert curves["Archived"] == "0", "what was undone is not counted"


def test_a_preview_tells_by_kind_with_strengths_before_and_after(boss: Client, hub: Hub) -> None:
    weak = hub.remember("Said in passing", strength=0.05)
    response = boss.get(page_of(preview(hub)))
    kinds = {group["kind"]: group for group in response.context["groups"]}
    assert list(kinds) == ["archive", "decay"] and kinds["archive"]["count"] == 1
    [change] = kinds["archive"]["changes"]
    assert change["memory_id"] == str(weak.pk) and page_of(weak) in response.content.decode()
    assert 0 < change["after"] < change["before"] and "0.050 →" in response.content.decode()


def test_a_sleep_tells_how_strong_was_what_it_archived(boss: Client, hub: Hub) -> None:
    weak, other = hub.remember("Said in passing", strength=0.05), hub.remember("A cold day", strength=0.05)
    foreseen = {each["memory_id"]: each for each in preview(hub).changes}
    run = slept(hub)
    changes = {each["memory_id"]: each for each in boss.get(page_of(run)).context["changes"]}
    for memory in (weak, other):
        change = changes[str(memory.pk)]
        assert change["change"] == "archive"
        for name in ("before", "after"):
            assert change[name] == pytest.approx(foreseen[str(memory.pk)][name], rel=0.01)
    assert "0.050 →" in boss.get(page_of(run)).content.decode()
    boss.post(page_of(weak, "curate"), {"verb": "reactivate"})
    changes = {each["memory_id"]: each for each in boss.get(page_of(run)).context["changes"]}
    assert "before" not in changes[str(weak.pk)] and "before" in changes[str(other.pk)], "it has another by now"


def test_a_memory_is_kept_from_the_preview(boss: Client, hub: Hub) -> None:
    weak = hub.remember("Said in passing", strength=0.05)
    page = page_of(preview(hub))
    assert "pinned: left unchanged" not in boss.get(page).content.decode()
    kept = boss.post(page_of(weak, "curate"), {"verb": "pin", "next": page}, follow=True)
    assert kept.redirect_chain[-1][0] == page and "pinned: left unchanged" in kept.content.decode()
    slept(hub)
    assert Memory.objects.get(pk=weak.pk).status == "active"


def test_who_may_not_change_memories_keeps_none(hub: Hub, staff: Callable[..., Client]) -> None:
    hub.remember("Said in passing", strength=0.05)
    text = staff("view_sleeprun", "view_memory").get(page_of(preview(hub))).content.decode()
    assert "Keep it" not in text and "sleep-form" not in text


def test_a_sleep_is_compared_with_its_preview(boss: Client, hub: Hub) -> None:
    pinned, other = (hub.remember(text, strength=0.05) for text in ("Said in passing", "A cold day"))
    shown = preview(hub)
    boss.post(page_of(pinned, "curate"), {"verb": "pin"})
    late = hub.remember("Heard on the radio", strength=0.05)
    context = boss.get(page_of(slept(hub))).context
    assert context["preview"] == page_of(shown) and not context["matches_preview"]
    assert [each["memory_id"] for each in context["missed"]] == [str(pinned.pk)]
    assert [each["memory_id"] for each in context["unexpected"]] == [str(late.pk)]
    assert Memory.objects.get(pk=other.pk).status == "archived"


def test_a_sleep_as_foreseen_says_so(boss: Client, hub: Hub) -> None:
    hub.remember("Said in passing", strength=0.05)
    preview(hub)
    assert "did what the preview showed" in boss.get(page_of(slept(hub))).content.decode()
    later = sleep(actor=hub.actor, request=SleepRequest(Trigger.CURATOR, BY, NOW + 2 * DAY))
    assert boss.get(page_of(later)).context["preview"] is None


def test_thousands_of_changes_are_paged(boss: Client, hub: Hub) -> None:
    run = preview(hub)
    run.changes = [
        {"memory_id": str(new_id()), "change": kind, "why": "faded", "before": 1.0, "after": 0.9}
        for kind in ("decay", "archive")
        for _ in range(2500)
    ]
    run.save()
    asked = [
        ({}, 40),
        ({"kind": "decay"}, 100),
        ({"kind": "decay", "page": "25"}, 100),
        ({"kind": "decay", "page": "99"}, 0),
        ({"kind": "x"}, 40),
    ]
    for query, count in asked:
        with CaptureQueriesContext(connection) as queries:
            response = boss.get(page_of(run), query)
        assert len(response.context["changes"]) == count and len(response.content) < 400_000
        assert len(queries) <= MOST_QUERIES
    text = boss.get(page_of(run), {"kind": "decay", "page": "2"}).content.decode()
    assert "page 2 of 25" in text and "page=1" in text and "page=3" in text


def test_a_whole_agent_sleeps_step_by_step_and_tells_how_far_it_is(
    boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strength.admin.sleep.ACTORS_PER_REQUEST", 2)
    actors(4)
    response = begin(boss, verb="sleep")
    seen = []
    while "/round/" in response["Location"]:
        page = boss.get(response["Location"])
        assert page.context["continues"]
        seen.append((page.context["done"], page.context["total"]))
        response = boss.post(page.context["form_url"])
    assert seen == [(2, 5), (4, 5)]
    runs = SleepRun.objects.filter(dry_run=False)
    assert runs.count() == 5 and runs.values("group").distinct().count() == 1
    response = boss.get(response["Location"])
    assert "5 sleep runs are done" in told(response)
    response = boss.post(undo_of(response), follow=True)
    assert "5 sleep runs were undone" in told(response)
    assert set(SleepRun.objects.values_list("state", flat=True)) == {"undone"}
    again = reverse("admin:strength_sleeprun_undo_round", args=[runs[0].group])
    assert "0 sleep runs" in told(boss.post(again, follow=True))


def test_a_whole_agent_is_previewed_step_by_step(boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strength.admin.sleep.ACTORS_PER_REQUEST", 1)
    actors(1)
    page = boss.get(begin(boss)["Location"])
    assert "Preview of" in page.content.decode() and 'id="go-on-form"' in page.content.decode()
    assert "2 sleep runs were previewed" in told(boss.post(page.context["form_url"], follow=True))
    assert not SleepRun.objects.filter(dry_run=False).exists()


def test_rounds_are_for_who_may_decide(hub: Hub, staff: Callable[..., Client]) -> None:
    reader = staff("view_sleeprun")
    addresses = [reverse(f"admin:strength_sleeprun_{name}", args=[new_id()]) for name in ("round", "undo_round")]
    assert [reader.post(address).status_code for address in addresses] == [403, 403]
    assert reader.get(addresses[0]).status_code == 403


def test_a_round_of_nobody_ends(boss: Client, hub: Hub) -> None:
    address = reverse("admin:strength_sleeprun_round", args=[new_id()])
    page = boss.get(address, {"agent": "kana", "dry": "0"})
    assert not page.context["continues"] and "data-goes-on" not in page.content.decode()
    assert boss.post(address, {"agent": "nobody", "after": "x"})["Location"].startswith(list_of(SleepRun))
    assert boss.get(reverse("admin:strength_sleeprun_undo_round", args=[new_id()])).status_code == 405


def test_a_sleep_asks_before_it_acts_and_a_page_has_one_undo(boss: Client, hub: Hub) -> None:
    sent = {"agent": "kana", "user_id": SECRET_USER, "verb": "sleep"}
    asked = boss.post(reverse(BEGIN), sent)
    assert "Start a sleep run now?" in asked.content.decode() and not SleepRun.objects.exists()
    done = boss.post(reverse(BEGIN), {**sent, "confirmed": "1"}, follow=True)
    assert done.content.decode().count(page_of(SleepRun.objects.get(), "undo")) == 1
    again = boss.get(page_of(SleepRun.objects.get()))
    assert again.content.decode().count(page_of(SleepRun.objects.get(), "undo")) == 1


def test_what_a_person_merged_since_is_no_merge_of_the_run(boss: Client, hub: Hub) -> None:
    other = hub.remember("Likes matcha icecream")
    run = slept(hub)
    proposal = Merge.objects.create(
        actor=hub.actor,
        run=run,
        kept=hub.memory,
        kept_version=hub.memory.version,
        absorbed=other,
        absorbed_version=other.version,
        likeness=0.9,
    )
    boss.post(page_of(proposal, "decide"), {"verb": "accept"})
    response = boss.get(page_of(run))
    [group] = [each for each in response.context["groups"] if each["kind"] == "propose_merge"]
    assert "merge" not in [each["kind"] for each in response.context["groups"]]
    assert str(group["changes"][0]["decided"]) == "merged"


def test_a_run_says_why_it_cannot_be_undone(boss: Client, hub: Hub) -> None:
    first = slept(hub)
    sleep(actor=hub.actor, request=SleepRequest(Trigger.CURATOR, BY, SOON + DAY))
    assert "there is a later one" in boss.get(page_of(first)).content.decode()


def test_losses_that_no_figure_shows_are_not_listed(boss: Client, hub: Hub) -> None:
    run = preview_sleep(actor=hub.actor, request=SleepRequest(Trigger.CURATOR, BY, NOW + DAY / 10_000))
    assert run.decayed_count and run.changes
    assert boss.get(page_of(run)).context["groups"] == []


def test_a_preview_ahead_does_not_promise_a_sleep_then(boss: Client, hub: Hub) -> None:
    begin(boss, all_users="", user_id=SECRET_USER, ahead_days="30")
    assert "Sleep now (not as of " in boss.get(page_of(SleepRun.objects.get())).content.decode()
