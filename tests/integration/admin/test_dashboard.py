"""The first page: what is to be decided comes first, each sees what he may, and all of it is cheap."""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from memoryhub.admin import dashboard
from memoryhub.admin.dashboard import MAX_ACTIONS
from memoryhub.admin.labels import VERBS, model_of
from memoryhub.api.middleware import TIME_ZONE_COOKIE
from memoryhub.auth import audit
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.roles import CURATOR
from memoryhub.jobs.models import Job, Worker
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.runtime.postgres import disk_space
from memoryhub.search.models import EmbeddingSpace
from strength.actions.bulk_jobs import OBJECT_KIND
from strength.actions.sleep import SleepRequest, sleep
from strength.domain.memories import Source
from strength.domain.sleep import Trigger
from strength.models import Memory, MemoryIndex, Merge
from summaries.models import RoutingDecision
from tests.integration.admin.conftest import BY, Hub, list_of, logged_in, page_of
from tests.integration.admin.test_base_roles import person
from tests.integration.admin.test_memories import ask
from tests.integration.admin.verbs import APPS, ROOT

pytestmark = pytest.mark.usefixtures("one_day")
MOST_QUERIES = 26


def page(browser: Client) -> Any:
    response = browser.get(reverse("admin:index"))
    assert response.status_code == 200
    return response


def tile(browser: Client, title: str) -> Any:
    return next(each for each in page(browser).context["tiles"] if str(each.title) == title)


def unsure(hub: Hub, **values: Any) -> RoutingDecision:
    defaults = {"confidence": "low", "action": "ask", "created_at": timezone.now(), "channel": "slack"}
    return RoutingDecision.objects.create(actor=hub.actor, message="which one?", **{**defaults, **values})


def call(**values: Any) -> LedgerEntry:
    defaults = {"created_at": timezone.now(), "operation": "chat", "provider": "none", "model": "claude-x",
                "estimated_tokens": 5, "input_tokens": 5, "latency_ms": 1.0}  # fmt: skip
    return LedgerEntry.objects.create(**{**defaults, **values})


def test_nothing_to_decide_is_said_in_words(boss: Client, hub: Hub) -> None:
    assert "Nothing needs a decision." in page(boss).content.decode()


def test_what_waits_for_a_person_stands_first_and_leads_to_the_queue(boss: Client, hub: Hub) -> None:
    Memory.objects.filter(pk=hub.memory.pk).update(status="pending")
    text = page(boss).content.decode()
    assert "Nothing needs a decision." not in text
    assert "Start review, 1" in text
    assert text.index("Start review") < text.index("Contents") < text.index("In the background")
    pending = tile(boss, "Pending")
    assert str(pending.figure) == "1" and pending.is_waiting and pending.href == reverse("review") + "?sort=memory"


def test_unsure_routings_are_counted_until_they_are_put_right(boss: Client, hub: Hub) -> None:
    decision = unsure(hub)
    unsure(hub, confidence="high")
    unsure(hub, created_at=timezone.now() - timedelta(days=31))
    assert tile(boss, "Uncertain routings").figure.number == 1
    RoutingDecision.objects.filter(pk=decision.pk).update(corrected_at=timezone.now())
    assert tile(boss, "Uncertain routings").figure.number == 0


def test_every_tile_and_curve_leads_to_a_page_that_opens(boss: Client, hub: Hub) -> None:
    context = page(boss).context
    for href in [*(each.href for each in context["tiles"]), *(each["href"] for each in context["curves"])]:
        assert boss.get(href).status_code == 200, href


def test_thirty_days_are_added_up_by_the_day_of_the_person(boss: Client, hub: Hub) -> None:
    boss.cookies[TIME_ZONE_COOKIE] = "Asia/Tokyo"
    Memory.objects.update(created_at=timezone.now() - timedelta(days=40))
    memory, noon = hub.remember("Drinks sencha"), timezone.now().replace(hour=3, minute=0)
    # Three in the morning of Tokyo is the evening before in UTC.
    Memory.objects.filter(pk=memory.pk).update(created_at=noon.replace(hour=18) - timedelta(days=2))
    call(cost="0.25")
    call(cost="0.50")
    curves = {str(each["title"]): each for each in page(boss).context["curves"]}
    assert (curves["Written"]["total"], curves["Spent"]["total"]) == ("1", "0.7500 USD")
    data = json.loads(curves["Written"]["data"])
    [day] = [label for label, count in zip(data["labels"], data["datasets"][0]["data"], strict=True) if count]
    local = (noon - timedelta(days=1)).astimezone(ZoneInfo("Asia/Tokyo"))
    assert day == f"{local:%B} {local.day}"


def test_growth_is_told_beside_what_there_is(boss: Client, hub: Hub) -> None:
    assert tile(boss, "Messages").recent.number == 0
    hub.messages[0].__class__.objects.filter(pk=hub.messages[0].pk).update(created_at=timezone.now())
    assert tile(boss, "Messages").recent.number == 1
    assert "1 new in 7 days" in page(boss).content.decode()


def test_what_was_done_lately_tells_who_and_leads_to_the_row(boss: Client, hub: Hub) -> None:
    boss.post(page_of(hub.memory, "curate"), {"verb": "pin"})
    events = {str(each.text): each for each in page(boss).context["events"]}
    assert events["Memory pinned"].words == hub.memory.content
    assert events["Memory pinned"].who == "boss" and events["Memory pinned"].href == page_of(hub.memory)


def test_last_night_is_a_sentence_with_its_undo_for_those_who_may(
    boss: Client, hub: Hub, staff: Callable[..., Client]
) -> None:
    assert page(boss).context["sentences"] == []
    weak = hub.remember("Said in passing", strength=0.05)
    sleep(actor=hub.actor, request=SleepRequest(Trigger.SCHEDULE, BY, timezone.now()))
    assert Memory.objects.get(pk=weak.pk).status == "archived"
    [(sentence, may_undo)] = page(boss).context["sentences"]
    assert "archived" in sentence.text and may_undo
    text = page(boss).content.decode()
    assert sentence.text in text and f'href="{sentence.undo_href}"' in text
    assert f'href="{sentence.undo_href}"' not in page(staff("view_sleeprun")).content.decode()


def test_extraction_leads_to_the_memories_that_were_extracted(boss: Client, hub: Hub) -> None:
    drawn = hub.remember("Drinks sencha in the morning", source=Source.EXTRACTION)
    listed = boss.get(tile(boss, "Extraction").href).context["cl"].result_list
    assert [each.pk for each in listed] == [drawn.pk]


def test_what_was_done_lately_is_cut_and_leaves_out_what_one_may_not_see(hub: Hub) -> None:
    for kind in ("memory", "api_key"):
        for _ in range(MAX_ACTIONS + 3):
            AuditEntry.objects.create(
                at=timezone.now(),
                who_kind="curator",
                who_id="1",
                who_name="aya",
                verb="update",
                object_kind=kind,
                object_id=str(uuid4()),
            )
    events = page(logged_in(person(CURATOR))).context["events"]
    assert len(events) == MAX_ACTIONS
    assert {each.model for each in events} == {Memory}


def kinds_of_events() -> set[str]:
    """Return every kind of row that the trail can name: those of our tables, and those that the code writes out."""
    tables = {str(model._meta.model_name) for app in APPS for model in apps.get_app_config(app).get_models()}
    kinds = {audit.KINDS.get(name, name) for name in (*tables, "user", "group")}
    files = [path for app in APPS for path in (ROOT / app).rglob("*.py")]
    written = {kind for path in files for kind in re.findall(r'object_kind="(\w+)"', path.read_text())}
    return kinds | written | {OBJECT_KIND}


def test_home_opens_whatever_was_done_last(boss: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every verb of every kind: an event of a row, of a row that is gone, or of none or of many, in turn."""
    monkeypatch.setattr(dashboard, "AUDIT_ENTRIES_READ", 100_000)
    monkeypatch.setattr(dashboard, "MAX_ACTIONS", 100_000)
    AuditEntry.objects.all().delete()
    gone = ["", "no key", str(uuid4()), str(10**40)]
    shown: Counter[Any] = Counter()
    of_a_row: Counter[Any] = Counter()
    for kind in sorted(kinds_of_events()):
        model = model_of(kind)
        row = None if model is None or model is AuditEntry else model._default_manager.first()
        targets = [*gone, *([str(row.pk)] if row is not None else [])]
        events = list(zip(VERBS, cycle(targets)))
        AuditEntry.objects.bulk_create(
            AuditEntry(
                at=timezone.now(),
                who_kind="curator",
                who_id="1",
                who_name="aya",
                verb=verb,
                object_kind=kind,
                object_id=target,
            )
            for verb, target in events
        )
        if model is not None:
            shown[model] += len(events)
            of_a_row[model] += sum(target not in gone for _verb, target in events)
    events = page(boss).context["events"]
    assert Counter(each.model for each in events) == shown
    with_words = [each for each in events if each.words]
    assert with_words == [each for each in events if each.href]
    assert Counter(each.model for each in with_words) == +of_a_row


def test_an_export_and_a_changed_password_leave_home_open(boss: Client, hub: Hub) -> None:
    exported = ask(boss, "export", hub.memory, post="yes", format="csv")
    assert exported.headers["Content-Disposition"].endswith('.csv"') and b"".join(exported)
    old, new = "a long password", "another long password"
    boss.post(reverse("own_password"), {"old_password": old, "new_password1": new, "new_password2": new})
    events = {str(each.text): each for each in page(boss).context["events"]}
    assert events["Memory exported"].href == ""
    assert events["User changed"].words == "boss"


def test_every_screen_has_words_for_its_rows() -> None:
    assert [screen for screen in admin.site._registry.values() if not hasattr(screen, "label_of")] == []


def test_curators_see_no_figure_of_what_is_not_theirs(hub: Hub) -> None:
    call(outcome="overloaded", input_tokens=None)
    response = page(logged_in(person(CURATOR)))
    titles = {str(each.title) for each in response.context["tiles"]}
    assert {"Pending", "Memories", "Agents", "Conversations"} <= titles
    assert not titles & {"Jobs", "API keys", "Spent today", "Tokens today"}
    assert response.context["alarms"] == []
    assert "overloaded" not in response.content.decode() and "No worker is running" not in response.content.decode()


def test_people_who_see_one_thing_see_its_figure_alone(staff: Callable[..., Client], hub: Hub) -> None:
    titles = [str(each.title) for each in page(staff("view_agent")).context["tiles"]]
    assert titles == ["Agents"]


def test_workers_that_are_away_are_told_with_what_to_do(boss: Client, hub: Hub) -> None:
    Worker.objects.all().delete()
    text = page(boss).content.decode()
    assert "may be down" in text and "manage.py serve" in text
    Worker.objects.create(id=uuid4(), host="here", pid=1, seen_at=timezone.now())
    assert "may be down" not in page(boss).content.decode()


def test_providers_tell_their_last_answer_or_error(boss: Client, hub: Hub) -> None:
    LedgerEntry.objects.all().delete()
    call()
    assert "claude-x answered" in page(boss).content.decode()
    failed = call(outcome="overloaded", input_tokens=None)
    text = page(boss).content.decode()
    assert "claude-x failed (overloaded)" in text and page_of(failed) in text


def test_a_space_that_is_filled_and_texts_without_a_vector_are_told(boss: Client, hub: Hub) -> None:
    EmbeddingSpace.objects.create(
        provider="openai", model="small", dimension=8, cosine_low=0, cosine_high=1, vector_weight=1
    )
    MemoryIndex.objects.filter(memory=hub.memory).update(vector=None)
    text = page(boss).content.decode()
    assert "being filled: openai:small (8)" in text and "1 texts wait for a vector" in text


def test_the_first_page_is_cheap_however_much_there_is(boss: Client, hub: Hub) -> None:
    boss.post(page_of(hub.memory, "curate"), {"verb": "pin"})
    page(boss)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(boss)
        return len(captured)

    few = queries()
    for number in range(30):
        memory = hub.remember(f"memory {number}")
        Merge.objects.create(
            actor=hub.actor, kept=hub.memory, kept_version=1, absorbed=memory, absorbed_version=1, likeness=0.9
        )
        boss.post(page_of(memory, "curate"), {"verb": "pin"})
        Job.objects.create(kind="embed", due_at=timezone.now())
        unsure(hub)
    assert queries() == few <= MOST_QUERIES
    assert len(page(boss).content) < 400_000


def test_the_first_page_shows_names_as_text(boss: Client, hub: Hub) -> None:
    AuditEntry.objects.create(
        at=timezone.now(),
        who_kind="curator",
        who_id="1",
        who_name="<script>alert(1)</script>\u202e",
        verb="pin",
        object_kind="memory",
        object_id=str(hub.memory.pk),
    )
    assert "<script>alert" not in page(boss).content.decode()
    assert "<script>alert" not in boss.get(list_of(AuditEntry)).content.decode()


def test_a_disk_that_fills_up_is_said_above_all_and_a_full_one_too(
    boss: Client, hub: Hub, settings: Any, tmp_path: Path
) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, database_url=None, data_dir=tmp_path, min_free_mb=1)
    (tmp_path / "postgres").mkdir()
    assert "disk" not in "".join(alarm.sentence for alarm in page(boss).context["alarms"])
    space = disk_space(settings.ENVIRONMENT)
    assert space is not None
    for least, said in ((space.free_mb // 2, "The disk is almost full"), (10_000_000, "The disk is full")):
        settings.ENVIRONMENT = replace(settings.ENVIRONMENT, min_free_mb=least)
        assert said in page(boss).content.decode()
