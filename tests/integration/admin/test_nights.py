"""The calendar of nights: sums by day of the person, in words; a night is undone as far as it can be."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memoryhub.tenancy.models import Actor
from strength.actions.sleep import SleepRequest, sleep
from strength.actions.sleep_runs import preview_sleep
from strength.domain.sleep import Trigger
from strength.models import Memory, SleepRun
from tests.integration.admin.conftest import BY, NOW, Hub

pytestmark = pytest.mark.usefixtures("one_day")
LATER = NOW + timedelta(days=1)


def slept(actor: Actor, at: Any = LATER) -> SleepRun:
    return sleep(actor=actor, request=SleepRequest(Trigger.SCHEDULE, BY, at))


def month(browser: Client, at: Any = LATER) -> Any:
    return browser.get(reverse("sleep"), {"month": f"{at:%Y-%m}"})


def test_a_month_tells_what_each_night_did_in_words_and_bars(boss: Client, hub: Hub) -> None:
    hub.remember("Said in passing", strength=0.05)
    slept(hub.actor)
    preview_sleep(actor=hub.actor, request=SleepRequest(Trigger.CURATOR, BY, LATER + timedelta(days=1)))
    shown = month(boss)
    [night] = shown.context["nights"]
    assert (night.day, night.runs, night.archived_count) == (LATER.date(), 1, 1)
    assert night.sentence == "1 memory was archived, 2 memories faded."
    text = shown.content.decode()
    assert night.sentence in text and "hub-part-archived_count" in text
    assert [row.pk for row in boss.get(night.href).context["cl"].result_list] == [
        SleepRun.objects.get(dry_run=False).pk
    ]
    assert "sleep runs in this month" in month(boss, NOW - timedelta(days=70)).content.decode()
    for odd in ("2026-13", "x", "9999-12", "0001-01"):
        assert boss.get(reverse("sleep"), {"month": odd}).status_code == 200


def test_a_night_is_undone_after_a_question(boss: Client, hub: Hub) -> None:
    weak = hub.remember("Said in passing", strength=0.05)
    run = slept(hub.actor)
    address = reverse("sleep_undo", args=[LATER.date().isoformat()])
    assert address in month(boss).content.decode()
    assert "1 memory that it archived" in boss.get(address).content.decode()
    assert Memory.objects.get(pk=weak.pk).status == "archived", "a question changes nothing"
    boss.post(address, {"reason": "too early"})
    assert Memory.objects.get(pk=weak.pk).status == "active"
    assert LogEntry.objects.get(object_id=str(run.pk)).change_message == "undo"
    assert month(boss).context["nights"][0].sentence == "Undone."
    assert address not in month(boss).content.decode()
    again = boss.post(address, follow=True)
    assert "cannot be undone" in again.content.decode()
    assert boss.get(reverse("sleep_undo", args=["2026-02-30"])).status_code == 404


def test_an_older_night_than_the_latest_is_not_offered(boss: Client, hub: Hub) -> None:
    slept(hub.actor)
    slept(hub.actor, LATER + timedelta(days=1))
    text = month(boss).content.decode()
    assert reverse("sleep_undo", args=[(LATER + timedelta(days=1)).date().isoformat()]) in text
    assert reverse("sleep_undo", args=[LATER.date().isoformat()]) not in text


def test_a_night_from_an_import_is_not_offered_for_undo(boss: Client, hub: Hub) -> None:
    run = slept(hub.actor, timezone.now())
    address = reverse("sleep_undo", args=[timezone.localdate().isoformat()])
    pages = [reverse("admin:index"), reverse("sleep"), reverse("admin:strength_sleeprun_change", args=[run.pk])]
    own = reverse("admin:strength_sleeprun_undo", args=[run.pk])
    assert [address in text or own in text for text in map(text_of(boss), pages)] == [True, True, True]
    SleepRun.objects.update(before={})  # exports leave it out
    assert [address in text or own in text for text in map(text_of(boss), pages)] == [False, False, False]
    assert "cannot be undone" in boss.post(address, follow=True).content.decode()
    assert "cannot be undone" in boss.get(own, follow=True).content.decode()


def text_of(browser: Client) -> Callable[[str], str]:
    return lambda address: browser.get(address).content.decode()


def test_who_may_only_look_cannot_undo_a_night(staff: Callable[..., Client], hub: Hub) -> None:
    slept(hub.actor)
    kei, address = staff("view_sleeprun"), reverse("sleep_undo", args=[LATER.date().isoformat()])
    assert address not in month(kei).content.decode()
    assert kei.get(address).status_code == kei.post(address).status_code == 403
