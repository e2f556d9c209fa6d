"""The screens of strength over time, sleeps, merges, decisions and tasks: told truly, decided by one action each."""

import html
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from memoryhub.auth.access import actor_for_writing, tenant_for_reading
from memoryhub.auth.actions import create_agent
from memoryhub.auth.models import AuditEntry
from memoryhub.ids import new_id
from memoryhub.jobs.queue import enqueue
from strength.actions.curation import apply_transition, delete_memory, edit_memory
from strength.actions.memories import NewMemory, write_memory
from strength.actions.sleep import SleepRequest, sleep
from strength.actions.tasks import Completion, begin_task, complete_task, fail_task
from strength.actions.tombstones import count_blocked_write
from strength.actions.usage import impact_memory, use_memories, use_memory
from strength.admin.memory_detail import CHART_SLOTS, strength_chart
from strength.domain.sleep import ChangeKind, ChangeReason, Trigger
from strength.domain.strength import Impact, Point, PointKind
from strength.models import Memory, Merge, SleepRun, StrengthPoint, Task, Tombstone
from tests.conftest import run_jobs
from tests.integration.admin.conftest import BY, NOW, SCRIPT, SECRET_USER, Hub, list_of, logged_in, page_of
from tests.integration.strength.conftest import numbers, seen

DAY = timedelta(days=1)
SAME = ("The user likes green tea.", "The user actually likes green tea")
RTL = "\u202e\u05e9\u05dc\u05d5\u05dd"
MOST_QUERIES = 25
SCREENS = (SleepRun, Merge, Tombstone, Task)
BEGIN = "admin:strength_sleeprun_begin"


@dataclass
class Nights:
    """A hub whose memory has slept, with a proposal, a decision and tasks."""

    hub: Hub
    one: Memory
    other: Memory
    run: SleepRun
    proposal: Merge
    decision: Tombstone
    task: Task

    def rows(self) -> list[Any]:
        """Return one row of each screen."""
        return [self.run, self.proposal, self.decision, self.task]


def wake(hub: Hub, at: datetime, **options: Any) -> SleepRun:
    """Let the user's memory sleep."""
    return sleep(actor=hub.actor, request=SleepRequest(Trigger.SCHEDULE, BY, at), **options)


def use(memory: Memory, at: datetime, **options: Any) -> None:
    use_memories(memories=[memory], by=BY, now=at, **{"perspective": None, "task": None, **options})


@pytest.fixture
def nights(hub: Hub, boss: Client) -> Nights:
    """Return a hub with one of each of what these screens show; `boss` is there to decide."""
    gone = hub.remember("A rumour about Kyoto")
    one = hub.remember(SAME[0], strength=2.0, tags=["drinks"])
    other = hub.remember(SAME[1], strength=1.0, tags=["tea"])
    use(one, NOW, perspective="cook")
    delete_memory(memory=gone, expected_version=None, by=BY, reason="", now=NOW)
    tenant = tenant_for_reading(BY, "kana", SECRET_USER)
    task = begin_task(
        tenant=tenant, actor=hub.actor, query="What does the user drink?", perspective="cook", by=BY, now=NOW
    ).task
    complete_task(
        task=task, completion=Completion(result={"answer": "tea"}, used_memory_ids=[one.pk, uuid4()]), by=BY, now=NOW
    )
    run = wake(hub, NOW + DAY)
    return Nights(hub, one, other, run, Merge.objects.get(), Tombstone.objects.get(), Task.objects.get())


def told(response: Any) -> str:
    return " ".join(str(message) for message in response.context["messages"])


def levels(response: Any) -> list[str]:
    return [message.level_tag for message in response.context["messages"]]


def text_of(browser: Client, page: str) -> str:
    response = browser.get(page)
    assert response.status_code == 200
    return str(response.content.decode())


def press(browser: Client, row: Any, button: str, **values: Any) -> Any:
    """Press a button of a row's page and go where it leads."""
    return browser.post(page_of(row, button), values, follow=True)


# The chart


def point(at: datetime, strength: float, kind: PointKind = PointKind.SLEPT, times: int = 1) -> Point:
    return Point(at, kind, strength, strength, 0.0, 0, times)


def days(*strengths: float) -> list[Point]:
    return [point(NOW + number * DAY, strength) for number, strength in enumerate(strengths)]


def chart_of(points: list[Point], threshold: float = 0.1) -> dict[str, Any]:
    """Return the labels, and the values of each dataset by its label."""
    data = json.loads(strength_chart(points, threshold=threshold))
    return {"labels": data["labels"], **{each["label"]: each["data"] for each in data["datasets"]}}


def test_a_strength_holds_until_the_next_point() -> None:
    line = chart_of(days(1.0, 0.5, 0.25))["strength"]
    assert len(line) == CHART_SLOTS and sorted(set(line), reverse=True) == [1.0, 0.5, 0.25]
    assert line == sorted(line, reverse=True) and line.count(1.0) == line.count(0.5) + 1


def test_the_chart_of_one_moment() -> None:
    chart = chart_of([point(NOW, 1.0, PointKind.CREATED), point(NOW, 1.0, PointKind.NOW)])
    assert len(chart["labels"]) == 1 and chart["strength"] == chart["created"] == chart["now"] == [1.0]


def test_the_chart_of_a_single_day_shows_hours() -> None:
    hours = chart_of([point(NOW, 1.0), point(NOW + timedelta(hours=8), 2.0)])["labels"]
    years = chart_of([point(NOW, 1.0), point(NOW + 3000 * DAY, 1.0)])["labels"]
    assert ":" in hours[1] and ":" not in years[1] and years[0] != years[-1]


@pytest.mark.parametrize(("threshold", "label"), [(0.1, "0.1"), (900.0, "900"), (1e6, "1,000,000")])
def test_the_threshold_is_in_the_chart_however_high(threshold: float, label: str) -> None:
    chart = chart_of(days(0.1, 0.1), threshold)
    assert set(chart[f"archived at {label} or below"]) == {threshold}
    assert not any("archived" in each for each in chart_of(days(0.1, 0.1), 0.0))


def test_thousands_of_points_are_few_values_and_lose_no_event() -> None:
    points = days(*(1.0 for _ in range(5000)))
    points[2345] = point(points[2345].at, 9.0, PointKind.USED)
    points[3456] = point(points[3456].at, 0.25, PointKind.SET)
    chart = chart_of(points)
    assert all(len(values) == CHART_SLOTS for values in chart.values())
    assert max(filter(None, chart["used"])) == 9.0 and max(filter(None, chart["set"])) == 0.25


def test_the_legend_has_what_there_is() -> None:
    chart = chart_of([point(NOW, 1, PointKind.CREATED), point(NOW + DAY, 1), point(NOW + DAY, 2, PointKind.USED)])
    assert set(chart) == {"labels", "created", "slept", "used", "strength", "archived at 0.1 or below"}
    assert chart["slept"][-1] == 0.0 and chart["used"][-1] == 2


# A memory's page


def test_memory_page_draws_its_strength(boss: Client, nights: Nights) -> None:
    for number in range(2, 9):
        wake(nights.hub, NOW + number * DAY)
    text = text_of(boss, page_of(nights.one))
    response = boss.get(page_of(nights.one))
    assert len(set(json.loads(response.context["chart"])["datasets"][-2]["data"])) > 2
    assert 'role="img" aria-labelledby="strength-summary"' in text and 'data-type="line"' in text
    assert "archived at 0.1 or below" in text and "The points in numbers" in text
    assert "sleep runs" in text and "<summary" in text


def test_memory_page_bounds_a_long_history(boss: Client, nights: Nights) -> None:
    rows = [
        StrengthPoint(
            actor=nights.hub.actor, memory=nights.one, day=(NOW - number * DAY).date(), kind="used",
            at=NOW - number * DAY, before=1.0, strength=1e6, mark=-0.1, level=0, times=3,
        )
        for number in range(1, 3000)
    ]  # fmt: skip
    StrengthPoint.objects.bulk_create(rows)
    Memory.objects.filter(pk=nights.one.pk).update(created_at=NOW - 4000 * DAY)
    response = boss.get(page_of(nights.one))
    assert len(response.context["points"]) == 200 and "earlier points" in response.content.decode()
    assert len(json.loads(response.context["chart"])["labels"]) == CHART_SLOTS
    assert len(response.content) < 400_000


def test_use_is_reported_by_a_button(boss: Client, nights: Nights) -> None:
    before = numbers(nights.one)
    response = press(boss, nights.one, "use", perspective=" cook ")
    after = numbers(nights.one)
    assert levels(response) == ["success"] and after.access_count == before.access_count + 1
    assert after.strength == pytest.approx(before.strength + 0.1)
    perspective = nights.one.perspectives.get()
    assert perspective.perspective == "cook" and perspective.strength > 0.2
    press(boss, nights.one, "use")
    assert numbers(nights.one).access_count == after.access_count + 1
    assert nights.one.perspectives.count() == 1
    assert AuditEntry.objects.filter(verb="use", who_name="boss", object_id=str(nights.one.pk)).count() == 2


@pytest.mark.parametrize(("impact", "value"), [("user_positive", 2.0), ("task_success", 1.5), ("prevented_error", 2.0)])
def test_impact_is_reported_by_a_button(boss: Client, nights: Nights, impact: str, value: float) -> None:
    assert levels(press(boss, nights.one, "impact", impact=impact)) == ["success"]
    assert numbers(nights.one).impact_score == pytest.approx(value)
    noted = AuditEntry.objects.get(verb="impact", who_name="boss", object_id=str(nights.one.pk))
    assert noted.details == {"impact": impact}


def test_what_is_refused_or_reported_by_clients_leaves_no_line_in_the_trail(boss: Client, nights: Nights) -> None:
    press(boss, nights.hub.remember("waits", confidence=0.1), "use")
    use_memory(memory=nights.one, perspective=None, task=None, by=BY, now=NOW)
    impact_memory(memory=nights.one, impact=Impact.TASK_SUCCESS, by=BY, now=NOW)
    assert not AuditEntry.objects.filter(verb__in=["use", "impact"]).exists()


def test_what_cannot_be_used_is_refused_and_told(boss: Client, nights: Nights) -> None:
    waiting = nights.hub.remember("waits", confidence=0.1)
    for button, values in (("use", {}), ("impact", {"impact": "user_positive"})):
        assert "pending" in told(press(boss, waiting, button, **values))
    assert "at most 100" in told(press(boss, nights.one, "use", perspective="x" * 101))
    assert "Unknown action" in told(press(boss, nights.one, "impact", impact="explode"))
    assert numbers(waiting).access_count == 0 and numbers(nights.one).impact_score == 0
    text = text_of(boss, page_of(waiting))
    assert "use-form" not in text and "impact-form" not in text
    assert "use-form" in text_of(boss, page_of(nights.one))


def test_perspectives_are_shown_as_strong_as_they_are_now(boss: Client, nights: Nights) -> None:
    [(each, strength)] = boss.get(page_of(nights.one)).context["perspectives"]
    assert strength == pytest.approx(seen(each)) and strength < each.strength


def test_memory_page_tells_its_merges_and_what_stands_in_its_place(boss: Client, nights: Nights) -> None:
    press(boss, nights.proposal, "decide", verb="accept")
    absorbed, kept = text_of(boss, page_of(nights.other)), text_of(boss, page_of(nights.one))
    assert "Replaced by:" in absorbed and page_of(nights.one) in absorbed
    assert "the other is kept; it is" in absorbed
    assert "this one is kept; the other is" in kept and page_of(nights.other) in kept
    assert page_of(nights.proposal) in kept


# Sleeps


def test_sleep_page_tells_what_it_did_and_why(boss: Client, nights: Nights) -> None:
    weak = nights.hub.remember("Said in passing", strength=0.1)
    run = wake(nights.hub, NOW + 2 * DAY)
    response = boss.get(page_of(run))
    text = response.content.decode()
    first = response.context["changes"][0]
    assert (first["change"], first["memory_id"]) == (ChangeKind.ARCHIVE, str(weak.pk))
    assert "its strength is at the archive threshold or below" in text and page_of(weak) in text
    assert "Said in passing" in text and "unused memories decay" in text
    assert dict(response.context["figures"])["Archived"] == run.archived_count == 1
    story = text_of(boss, page_of(weak))
    told = "ts strength is at the archive threshold or below"
    assert story.count(told) == 2 and ChangeReason.WEAK not in story  # in its life and among its revisions
    proposed = text_of(boss, page_of(nights.run))
    assert page_of(nights.proposal) in proposed and "it has the same content as another" in proposed


def test_sleep_page_shows_the_first_of_each_kind(boss: Client, nights: Nights) -> None:
    nights.run.dry_run, nights.run.number = True, None
    nights.run.changes = [
        {"memory_id": str(new_id()), "change": "decay", "why": "faded", "before": 1.0, "after": 0.9} for _ in range(230)
    ]
    nights.run.errors = [f"{SCRIPT} {number}" for number in range(80)]
    nights.run.save()
    response = boss.get(page_of(nights.run))
    text = response.content.decode()
    assert len(response.context["changes"]) == 20
    assert "and 210 more" in text and "no longer exists" in text and SCRIPT not in text


def begin(browser: Client, **values: Any) -> Any:
    return browser.post(
        reverse(BEGIN),
        {"agent": "kana", "user_id": SECRET_USER, "verb": "preview", "confirmed": "1", **values},
        follow=True,
    )


def test_a_preview_changes_nothing_and_offers_the_sleep(boss: Client, nights: Nights) -> None:
    before = numbers(nights.one).strength
    response = begin(boss)
    preview = SleepRun.objects.get(dry_run=True)
    assert response.redirect_chain[-1][0] == page_of(preview) and "nothing was changed" in told(response)
    assert (preview.trigger, preview.who_name, numbers(nights.one).strength) == ("curator", "boss", before)
    assert "What it would do" in response.content.decode() and "sleep-form" in response.content.decode()

    response = press(boss, preview, "sleep")
    run = SleepRun.objects.filter(dry_run=False).first()
    assert run is not None and response.redirect_chain[-1][0] == page_of(run)
    assert (run.number, run.trigger) == (2, "curator") and numbers(nights.one).strength < before
    assert AuditEntry.objects.get(object_id=str(run.pk), verb="sleep").who_name == "boss"


def test_memory_sleeps_now_for_the_agent_itself_or_for_all(boss: Client, nights: Nights) -> None:
    write_memory(actor=actor_for_writing(BY, "kana", None, now=NOW), new=NewMemory(content="x"), by=BY, now=NOW)
    begin(boss, user_id="", verb="sleep")
    assert SleepRun.objects.filter(actor__user_id="", dry_run=False).count() == 1
    SleepRun.objects.update(processed_at=NOW)  # long ago
    response = begin(boss, user_id="nobody at all", verb="sleep", all_users="on")
    group = SleepRun.objects.exclude(group=None).values_list("group", flat=True).distinct().get()
    assert f"group={group}" in response.redirect_chain[-1][0]
    assert len(response.context["cl"].result_list) == 2 and "2 sleep runs" in told(response)
    run = SleepRun.objects.filter(group=group).first()
    assert f"group={group}" in text_of(boss, page_of(run))


def test_a_round_is_shown_though_the_first_had_just_slept(boss: Client, nights: Nights) -> None:
    for user in (None, "mio"):
        actor = actor_for_writing(BY, "kana", user, now=NOW)
        write_memory(actor=actor, new=NewMemory(content="x"), by=BY, now=NOW)
    SleepRun.objects.update(processed_at=NOW)
    begin(boss, user_id="", verb="sleep")
    just = SleepRun.objects.get(actor__user_id="")
    just.processed_at = timezone.now() + DAY
    just.save()
    response = begin(boss, verb="sleep", all_users="on")
    assert "3 sleep runs" in told(response) and len(response.context["cl"].result_list) == 3
    SleepRun.objects.update(processed_at=timezone.now() + DAY, group=None)
    again = begin(boss, verb="sleep", all_users="on")
    assert again.redirect_chain[-1][0].startswith(f"{list_of(SleepRun)}?group=")
    assert len(again.context["cl"].result_list) == 3


def test_beginning_is_refused_beside_the_form(boss: Client, nights: Nights) -> None:
    create_agent(agent_id="mute", values={}, by=BY, now=NOW)
    for values, problem in (
        ({"user_id": "nobody"}, "The agent has no such user yet"),
        ({"agent": "mute", "all_users": "on"}, "There is no memory yet"),
        ({"agent": "unknown"}, "valid choice"),
        ({"user_id": "a\x00b"}, "Null characters"),
    ):
        response = begin(boss, **values)
        assert response.status_code == 200 and problem in str(response.context["form"].errors), values
    assert SleepRun.objects.count() == 1


def test_a_sleep_is_undone_after_it_was_said_what_that_does(boss: Client, nights: Nights) -> None:
    weak = nights.hub.remember("Said in passing", strength=0.1)
    strength = numbers(nights.one).strength
    run = wake(nights.hub, NOW + 2 * DAY)
    page = text_of(boss, page_of(run, "undo"))
    assert "1 memory that it archived is active again" in page and "undo-form" in page
    assert SleepRun.objects.get(pk=run.pk).state == "done"

    response = press(boss, run, "undo", reason="too early")
    run.refresh_from_db()
    weak.refresh_from_db()
    assert "was undone" in told(response) and (run.state, run.undone_by) == ("undone", "boss")
    assert weak.status == "active" and numbers(nights.one).strength == pytest.approx(strength)
    assert AuditEntry.objects.get(object_id=str(run.pk), verb="undo").reason == "too early"


def test_undo_is_offered_where_it_can_work(boss: Client, nights: Nights) -> None:
    assert page_of(nights.run, "undo") in text_of(boss, page_of(nights.run))
    later = wake(nights.hub, NOW + 2 * DAY)
    begin(boss)
    preview = SleepRun.objects.get(dry_run=True)
    press(boss, later, "undo")
    for run in (nights.run, preview, later):
        assert page_of(run, "undo") not in text_of(boss, page_of(run))
        assert "cannot be undone" in told(boss.get(page_of(run, "undo"), follow=True))
        assert levels(press(boss, run, "undo")) == ["error"]
    assert SleepRun.objects.get(pk=nights.run.pk).state == "done"


def test_an_interrupted_sleep_is_told_and_gone_on_with(boss: Client, nights: Nights) -> None:
    SleepRun.objects.filter(pk=nights.run.pk).update(state="running", compares=False)
    assert "Continue" in text_of(boss, page_of(nights.run))
    response = press(boss, nights.run, "sleep")
    assert response.redirect_chain[-1][0] == page_of(nights.run)
    assert SleepRun.objects.get().state == "done"


# Merges


def test_merges_are_listed_that_wait(boss: Client, nights: Nights) -> None:
    def listed(**query: str) -> int:
        return len(boss.get(list_of(Merge), query).context["cl"].result_list)

    assert (listed(), listed(state="all"), listed(state="merged")) == (1, 1, 0)
    text = text_of(boss, list_of(Merge))
    assert SAME[0] in text and SAME[1] in text and f"{100 * nights.proposal.likeness:.0f}\N{NO-BREAK SPACE}%" in text
    press(boss, nights.proposal, "decide", verb="dismiss")
    assert (listed(), listed(state="all"), listed(state="dismissed"), listed(state="x")) == (0, 1, 1, 0)
    assert listed(state="all", q=str(nights.other.pk)) == 1


def test_merge_page_shows_both_side_by_side(boss: Client, nights: Nights) -> None:
    response = boss.get(page_of(nights.proposal))
    text = response.content.decode()
    assert [side["memory"].pk for side in response.context["sides"]] == [nights.one.pk, nights.other.pk]
    assert '<span class="review-own">actually </span>' in text and "drinks" in text
    assert page_of(nights.one) in text and page_of(nights.other) in text
    assert [verb for verb, _ in response.context["verbs"]] == ["accept", "dismiss"]


def test_a_merge_is_accepted_and_parted_again(boss: Client, nights: Nights) -> None:
    response = press(boss, nights.proposal, "decide", verb="accept", reason="the same")
    nights.proposal.refresh_from_db()
    nights.other.refresh_from_db()
    assert "were merged" in told(response) and response.redirect_chain[-1][0] == list_of(Merge)
    assert (nights.proposal.state, nights.proposal.decided_by, nights.proposal.reason) == ("merged", "boss", "the same")
    assert nights.other.superseded_by_id == nights.one.pk

    assert [verb for verb, _ in boss.get(page_of(nights.proposal)).context["verbs"]] == ["undo"]
    response = press(boss, nights.proposal, "decide", verb="undo")
    nights.other.refresh_from_db()
    assert nights.other.status == "active" and response.redirect_chain[-1][0] == page_of(nights.proposal)
    assert boss.get(page_of(nights.proposal)).context["verbs"] == []


def more_proposals(hub: Hub) -> list[Merge]:
    """Let the next sleep find two more pairs."""
    for thing in ("coffee in Kyoto", "walks at night"):
        hub.remember(f"The user likes {thing}.")
        hub.remember(f"The user actually likes {thing}")
    Memory.objects.update(updated_at=NOW + DAY)
    wake(hub, NOW + 2 * DAY)
    return list(Merge.objects.filter(state="proposed"))


def test_after_a_decision_comes_the_next_proposal(boss: Client, nights: Nights) -> None:
    proposals = more_proposals(nights.hub)
    assert len(proposals) == 3
    seen = [proposals[0]]
    for _ in range(2):
        where = press(boss, seen[-1], "decide", verb="dismiss").redirect_chain[-1][0]
        seen.append(next(each for each in proposals if page_of(each) == where))
    assert len({each.pk for each in seen}) == 3
    assert press(boss, seen[-1], "decide", verb="dismiss").redirect_chain[-1][0] == list_of(Merge)


def test_a_chain_that_was_merged_at_once_is_taken_back_whole(boss: Client, nights: Nights) -> None:
    memories = [nights.hub.remember(f"The user likes {tea} tea.") for tea in ("mint", "rose", "lime")]
    Merge.objects.all().delete()
    for at, (kept, absorbed) in enumerate((memories[:2], memories[1:])):
        Merge.objects.create(
            actor=nights.hub.actor,
            kept=kept,
            absorbed=absorbed,
            kept_version=kept.version,
            absorbed_version=absorbed.version,
            likeness=1.0,
            created_at=NOW + at * DAY,
        )
    for order in ("", "?o=-6", "?o=6"):
        chosen = {"action": "accept", "_selected_action": [each.pk for each in Merge.objects.all()], "confirmed": "1"}
        made = boss.post(list_of(Merge) + order, chosen, follow=True)
        states = set(Merge.objects.values_list("state", flat=True))
        undo = re.search(r'action="([^"]*undo-many[^"]*)"', made.content.decode())
        assert undo and "merged" in states, order
        boss.post(html.unescape(undo.group(1)))
        assert set(Merge.objects.values_list("state", flat=True)) == {"proposed"}, order
        assert set(Memory.objects.filter(pk__in=[each.pk for each in memories]).values_list("status", flat=True)) == {
            "active"
        }


def test_enter_in_the_reason_of_a_pair_decides_nothing(boss: Client, nights: Nights) -> None:
    form = boss.get(page_of(nights.proposal)).content.decode().partition('id="decide-form"')[2]
    first = re.search(r"<button[^>]*>", form)
    assert first and " disabled" in first.group() and "hidden" in first.group()


def reword(memory: Memory) -> None:
    text = {"content": f"{memory.content} Or so."}
    edit_memory(memory=memory, values=text, expected_version=None, by=BY, reason="", now=NOW)


def test_what_cannot_be_merged_any_more_is_not_led_to_nor_offered(boss: Client, nights: Nights) -> None:
    first, ended, edited = more_proposals(nights.hub)
    Memory.objects.filter(pk=ended.kept_id).update(valid_to=NOW)
    reword(edited.kept)
    assert press(boss, first, "decide", verb="dismiss").redirect_chain[-1][0] == list_of(Merge)
    for each in (ended, edited):
        assert [verb for verb, _ in boss.get(page_of(each)).context["verbs"]] == ["dismiss"]


@pytest.mark.parametrize(("verb", "state"), [("accept", "merged"), ("dismiss", "dismissed")])
def test_many_are_decided_in_the_list(boss: Client, nights: Nights, verb: str, state: str) -> None:
    proposals = more_proposals(nights.hub)
    reword(proposals[0].absorbed)
    chosen = {"action": verb, "_selected_action": [each.pk for each in proposals]}
    asked = boss.post(list_of(Merge), chosen).content.decode()
    assert ("1 was changed since the comparison" in asked) == (verb == "accept") and "can be undone" in asked
    assert Merge.objects.filter(state="proposed").count() == 3
    response = boss.post(list_of(Merge), {**chosen, "confirmed": "1"}, follow=True)
    expected = 2 if verb == "accept" else 3
    assert Merge.objects.filter(state=state).count() == expected
    assert f"{expected} pairs" in told(response)
    assert ("1 left unchanged" in told(response)) == (verb == "accept")
    undo = next(each.extra_tags for each in response.context["messages"] if each.extra_tags)
    response = boss.post(undo.removeprefix("undo:"), follow=True)
    assert f"{expected} pairs are proposed again" in told(response)
    assert Merge.objects.filter(state="proposed").count() == 3


def test_many_are_taken_back_by_what_was_decided_at_once(
    boss: Client, nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = timezone.now()
    monkeypatch.setattr("memoryhub.admin.object_actions.clock", lambda: moment)
    one, *others = more_proposals(nights.hub)
    undo = []
    for rows in ([one], others):
        chosen = {"action": "dismiss", "_selected_action": [each.pk for each in rows], "confirmed": "1"}
        response = boss.post(list_of(Merge), chosen, follow=True)
        undo += [each.extra_tags.removeprefix("undo:") for each in response.context["messages"] if each.extra_tags]
    assert Merge.objects.filter(state="dismissed", decided_at=moment, decided_by="boss").count() == 3
    assert "1 pair is proposed again" in told(boss.post(undo[0], follow=True))
    assert [each.pk for each in Merge.objects.filter(state="proposed")] == [one.pk]
    assert "0 pairs" in told(boss.post(undo[0], follow=True)), "once"
    assert "0 pairs" in told(boss.post(undo[0].split("?")[0], follow=True))
    assert "2 pairs are proposed again" in told(boss.post(undo[1], follow=True))


def test_too_many_pairs_at_once_are_told(boss: Client, nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strength.admin.merges.MAX_SELECTED", 0)
    chosen = {"action": "accept", "_selected_action": [nights.proposal.pk]}
    assert "at most 0 pairs" in told(boss.post(list_of(Merge), chosen, follow=True))
    assert Merge.objects.get().state == "proposed"


def test_a_pair_that_was_changed_since_is_told_and_not_merged(boss: Client, nights: Nights) -> None:
    edit_memory(memory=nights.other, values={"content": "black tea"}, expected_version=None, by=BY, reason="", now=NOW)
    response = boss.get(page_of(nights.proposal))
    assert "was changed since they were compared" in response.content.decode()
    assert "out of date" in boss.get(list_of(Merge)).content.decode(), "the list does not say that it is proposed"
    assert [verb for verb, _ in response.context["verbs"]] == ["dismiss"]
    for verb in ("accept", "undo", "explode", ""):
        response = press(boss, nights.proposal, "decide", verb=verb)
        assert levels(response) == ["error"]
        assert response.redirect_chain[-1][0] == page_of(nights.proposal)
    assert Merge.objects.get().state == "proposed"


def test_long_texts_are_cut_and_not_compared(boss: Client, nights: Nights) -> None:
    Memory.objects.filter(pk=nights.one.pk).update(content="word " * 19_000 + "THE-END")
    text = text_of(boss, page_of(nights.proposal))
    assert "too long to be compared" in text and "THE-END" not in text and len(text) < 200_000


# Decisions


def test_decision_is_told_without_its_text_and_lifted(boss: Client, nights: Nights) -> None:
    count_blocked_write(nights.decision, now=NOW + DAY)
    for page in (list_of(Tombstone), page_of(nights.decision)):
        text = text_of(boss, page)
        assert "deleted" in text and "rumour" not in text and "<bdi>test</bdi></span> (command)" in text
    text = text_of(boss, page_of(nights.decision))
    assert "the text is no longer stored" in text and "“Allow it again” lifts the block" in text
    assert f"again for {nights.decision.actor.agent_id} / {nights.decision.actor.user_id}; people can" in text
    response = press(boss, nights.decision, "lift", reason="it was true")
    assert "programs may store the text again" in told(response) and response.redirect_chain[-1][0] == list_of(
        Tombstone
    )
    assert not Tombstone.objects.exists()
    entry = AuditEntry.objects.get(verb="lift")
    assert (entry.who_name, entry.reason) == ("boss", "it was true")
    again = boss.post(page_of(nights.decision, "lift"), follow=True)
    assert again.status_code == 200 and levels(again) == ["warning"]


def test_a_lifted_decision_is_put_back_as_it_was_within_a_day(boss: Client, nights: Nights) -> None:
    before = Tombstone.objects.filter(pk=nights.decision.pk).values().get()
    undo = page_of(nights.decision, "block_again")
    assert undo in press(boss, nights.decision, "lift").content.decode()
    assert not Tombstone.objects.exists() and page_of(nights.decision) not in text_of(boss, list_of(Tombstone))
    assert boss.get(page_of(nights.decision), follow=True).redirect_chain, "a lifted one has no page"
    assert "blocked again" in told(boss.post(undo, follow=True))
    assert Tombstone.objects.filter(pk=nights.decision.pk).values().get() == before
    assert AuditEntry.objects.get(verb="undo").object_id == str(nights.decision.pk)
    assert levels(boss.post(undo, follow=True)) == ["error"]
    press(boss, nights.decision, "lift")
    Tombstone.with_lifted.update(lifted_at=timezone.now() - timedelta(days=2))
    enqueue("forget_old_uses")
    run_jobs()
    assert not Tombstone.with_lifted.exists()


def test_decision_links_to_what_stands_in_its_place(boss: Client, nights: Nights) -> None:
    edit_memory(
        memory=nights.one, values={"content": "No tea at all"}, expected_version=None, by=BY, reason="", now=NOW
    )
    edited = Tombstone.objects.get(decision="edited")
    assert page_of(nights.one) in text_of(boss, list_of(Tombstone))
    assert "No tea at all" in text_of(boss, page_of(edited))
    delete_memory(memory=nights.one, expected_version=None, by=BY, reason="", now=NOW)
    assert "no longer exists" in text_of(boss, page_of(edited))


# Tasks


def test_task_page_tells_what_it_was_given_and_used(boss: Client, nights: Nights) -> None:
    text = text_of(boss, page_of(nights.task))
    assert "What does the user drink?" in text and "&quot;answer&quot;: &quot;tea&quot;" in text
    assert page_of(nights.one) in text and "There is no memory" in text
    assert [each["was_used"] for each in boss.get(page_of(nights.task)).context["offered"]].count(True) == 1
    listed = text_of(boss, list_of(Task))
    assert "What does the user drink?" in listed and "completed" in listed


def test_tasks_are_read_only(boss: Client, nights: Nights) -> None:
    assert boss.post(page_of(nights.task), {"query": "other"}).status_code == 403
    assert boss.post(page_of(nights.task, "delete"), {"post": "yes"}).status_code == 403
    assert boss.get(list_of(Task, "add")).status_code == 403


def test_a_task_that_failed_says_why(boss: Client, nights: Nights) -> None:
    tenant = tenant_for_reading(BY, "kana", SECRET_USER)
    task = begin_task(tenant=tenant, actor=nights.hub.actor, query=SCRIPT, perspective=None, by=BY, now=NOW).task
    fail_task(task=task, reason=f"It raised {SCRIPT}", now=NOW)
    text = text_of(boss, page_of(task))
    assert "failed" in text and "It raised" in text and SCRIPT not in text


# The first page


def test_first_page_counts_what_waits_and_who_slept(boss: Client, nights: Nights) -> None:
    def tiles_now() -> dict[str, Any]:
        return {str(tile.title): tile for tile in boss.get(reverse("admin:index")).context["tiles"]}

    tiles = tiles_now()
    assert str(tiles["Merge proposals"].figure) == "1"
    wake(nights.hub, timezone.now())  # both memories have faded by now, and their proposal with them
    begin(boss)
    tiles = tiles_now()
    assert str(tiles["Merge proposals"].figure) == "0"
    assert boss.get(tiles["Merge proposals"].href).status_code == 200
    [(sentence, may_undo)] = boss.get(reverse("admin:index")).context["sentences"]
    assert may_undo and boss.get(sentence.href).status_code == boss.get(sentence.undo_href).status_code == 200


# What holds for every screen


BUTTONS: list[tuple[str, str, dict[str, str]]] = [
    ("one", "use", {"perspective": "cook"}),
    ("one", "impact", {"impact": "user_positive"}),
    ("run", "undo", {}),
    ("run", "sleep", {}),
    ("proposal", "decide", {"verb": "accept"}),
    ("decision", "lift", {}),
    ("decision", "block_again", {}),
]


def stored(*tables: str) -> str:
    """Return every row of these tables as text."""
    with connection.cursor() as cursor:
        rows = []
        for table in tables:
            cursor.execute(f'SELECT row_to_json(t)::text FROM "{table}" t ORDER BY 1')
            rows += [text for (text,) in cursor.fetchall()]
    return "\n".join(rows)


def everything() -> str:
    tables = [name for name in connection.introspection.table_names() if name.startswith(("strength", "memoryhub"))]
    return stored(*tables)


def test_get_changes_nothing(boss: Client, nights: Nights) -> None:
    before = everything()
    for name, button, values in BUTTONS:
        answer = boss.get(page_of(getattr(nights, name), button), values)
        assert answer.status_code == (200 if button == "undo" else 405)
    assert boss.get(reverse(BEGIN), {"agent": "kana", "verb": "sleep"}).status_code == 200
    for model in SCREENS:
        for action in ("accept", "dismiss", "lift", "undo", "delete_selected"):
            row = model._default_manager.first()
            boss.get(list_of(model), {"action": action, "_selected_action": row.pk, "post": "yes"})
            boss.get(page_of(row), {"verb": "accept", "action": action})
    assert everything() == before and not LogEntry.objects.exists()


def test_posts_need_a_csrf_token(boss: Client, nights: Nights) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(username="boss"))
    before = everything()
    for name, button, values in BUTTONS:
        assert strict.post(page_of(getattr(nights, name), button), values).status_code == 403
    assert strict.post(reverse(BEGIN), {"agent": "kana", "verb": "sleep"}).status_code == 403
    chosen = {"action": "accept", "_selected_action": [nights.proposal.pk]}
    assert strict.post(list_of(Merge), chosen).status_code == 403
    assert everything() == before


def test_every_form_carries_its_token(boss: Client, nights: Nights) -> None:
    for page in (*map(page_of, nights.rows()), page_of(nights.one), page_of(nights.run, "undo"), reverse(BEGIN)):
        forms = re.findall(r"<form[^>]*method=\"post\".*?</form>", text_of(boss, page), re.DOTALL)
        assert forms and all("csrfmiddlewaretoken" in form for form in forms)


def test_who_may_only_look_sees_no_buttons_and_can_press_none(staff: Callable[..., Client], nights: Nights) -> None:
    browser = staff("view_memory", *(f"view_{model._meta.model_name}" for model in SCREENS))
    before = everything()
    for row in (*nights.rows(), nights.one):
        text = text_of(browser, page_of(row))
        assert not re.search(r'id="(use|impact|sleep|decide|lift|curate)-form"', text)
        assert page_of(nights.run, "undo") not in text
    for model in SCREENS:
        text = text_of(browser, list_of(model))
        assert 'value="accept"' not in text and reverse(BEGIN) not in text
    for name, button, values in BUTTONS:
        assert browser.post(page_of(getattr(nights, name), button), values).status_code == 403
    assert browser.get(page_of(nights.run, "undo")).status_code == 403
    assert browser.get(reverse(BEGIN)).status_code == 403
    assert browser.post(reverse(BEGIN), {"agent": "kana", "verb": "sleep"}).status_code == 403
    chosen = {"action": "accept", "_selected_action": [nights.proposal.pk]}
    browser.post(list_of(Merge), chosen)
    assert everything() == before


def test_strangers_see_and_press_nothing(staff: Callable[..., Client], nights: Nights) -> None:
    before = everything()
    for browser, status in ((Client(), 302), (staff(), 403)):
        for row in nights.rows():
            assert browser.get(page_of(row)).status_code == status
            assert browser.get(list_of(row)).status_code == status
        for name, button, values in BUTTONS:
            assert browser.post(page_of(getattr(nights, name), button), values).status_code == status
        assert browser.get(reverse(BEGIN)).status_code == status
    assert everything() == before


@pytest.mark.parametrize(
    ("name", "button", "values", "model"),
    [
        ("proposal", "decide", {"verb": "dismiss"}, "merge"),
        ("decision", "lift", {}, "tombstone"),
        ("run", "undo", {}, "sleeprun"),
        ("run", "sleep", {}, "sleeprun"),
    ],
)
def test_who_may_change_the_model_presses_its_buttons(
    staff: Callable[..., Client], nights: Nights, name: str, button: str, values: dict[str, str], model: str
) -> None:
    response = press(staff(f"change_{model}"), getattr(nights, name), button, **values)
    assert response.status_code == 200 and levels(response) == ["success"]
    assert LogEntry.objects.get().user.username == "kei"


def test_texts_of_memories_are_for_those_who_may_read_them(staff: Callable[..., Client], nights: Nights) -> None:
    browser = staff(*(f"change_{model._meta.model_name}" for model in SCREENS))
    for page in (*map(page_of, nights.rows()), *map(list_of, SCREENS)):
        text = text_of(browser, page)
        assert "green tea" not in text and page_of(nights.one) not in text
    assert "You may not read memories" in text_of(browser, page_of(nights.proposal))
    assert browser.get(list_of(Merge), {"q": "green"}).status_code == 200


def test_rows_that_cannot_exist_are_told_and_never_an_error_page(boss: Client, nights: Nights) -> None:
    nowhere = ("nothing", "00000000-0000-0000-0000-000000000000", "%00", "a/b", str(nights.one.pk))
    for key in nowhere:
        for model in SCREENS:
            assert boss.get(f"{list_of(model)}{key}/change/").status_code in (302, 400)
        for name, button, values in BUTTONS:
            if name != "one":
                where = f"{list_of(getattr(nights, name))}{key}/{button}/"
                assert boss.post(where, values).status_code in (302, 400)
        assert boss.get(f"{list_of(SleepRun)}{key}/undo/").status_code in (302, 400)
        response = boss.post(list_of(Merge), {"action": "accept", "_selected_action": [key]})
        assert response.status_code == 302
        assert boss.get(list_of(SleepRun), {"group": key}).status_code in (200, 302)


@pytest.mark.parametrize("model", SCREENS)
def test_search_and_every_filter_answer(boss: Client, nights: Nights, model: Any) -> None:
    for word in ("Kyoto", "抹茶", str(nights.one.pk), "'\"%_\\"):
        assert boss.get(list_of(model), {"q": word}).status_code == 200
    for spec in boss.get(list_of(model)).context["cl"].filter_specs:
        for name in spec.expected_parameters():
            assert boss.get(list_of(model), {name: "1"}, follow=True).status_code == 200, name


def test_hostile_texts_are_escaped_and_cut(boss: Client, nights: Nights) -> None:
    hostile = f"{SCRIPT} {RTL} green tea"
    Memory.objects.filter(pk__in=[nights.one.pk, nights.other.pk]).update(content=hostile, tags=[SCRIPT])
    Task.objects.update(query=hostile, result=hostile, errors=[hostile], perspective=SCRIPT)
    SleepRun.objects.update(errors=[hostile], who_name=SCRIPT)
    Merge.objects.update(reason=hostile, decided_by=SCRIPT)
    Tombstone.objects.update(who_name=SCRIPT, memory_id=nights.one.pk)
    nights.one.perspectives.update(perspective=SCRIPT)
    memory_pages = [page_of(nights.one), page_of(nights.run, "undo")]
    for page in (*map(page_of, nights.rows()), *map(list_of, SCREENS), *memory_pages):
        text = text_of(boss, page)
        assert SCRIPT not in text and len(text) < 200_000, page
    assert f">{hostile.replace('<', '&lt;').replace('>', '&gt;')}</bdi>" in text_of(boss, list_of(Merge))
    assert 'dir="auto"' in text_of(boss, page_of(nights.proposal))


def test_pages_ask_little_and_as_much_for_many_as_for_few(boss: Client, nights: Nights) -> None:
    pages = [*map(page_of, nights.rows()), page_of(nights.one), *map(list_of, SCREENS)]

    def queries() -> list[int]:
        counts = []
        for page in pages:
            with CaptureQueriesContext(connection) as captured:
                assert boss.get(page).status_code == 200
            counts.append(len(captured))
        return counts

    queries()
    few = queries()
    more_proposals(nights.hub)
    for number in range(6):
        memory = nights.hub.remember(f"memory {number}")
        use(nights.one, NOW + number * DAY, perspective=f"view {number}")
        delete_memory(memory=memory, expected_version=None, by=BY, reason="", now=NOW)
        wake(nights.hub, NOW + (3 + number) * DAY)
        tenant = tenant_for_reading(BY, "kana", SECRET_USER)
        begin_task(tenant=tenant, actor=nights.hub.actor, query="tea?", perspective=None, by=BY, now=NOW)
    boss.get(pages[0])
    assert queries() == few and max(few) <= MOST_QUERIES


def test_pages_open_in_japanese_and_load_nothing_from_elsewhere(boss: Client, nights: Nights) -> None:
    for page in (*map(page_of, nights.rows()), page_of(nights.one), *map(list_of, SCREENS), reverse(BEGIN)):
        response = boss.get(page, headers={"accept-language": "ja"})
        assert response.status_code == 200
        assert re.findall(r'(?:src|href)="((?:https?:)?//[^"]+)"', response.content.decode()) == []


def test_no_row_shows_a_user_or_a_text_in_the_admins_log(boss: Client, nights: Nights) -> None:
    press(boss, nights.one, "use", perspective="a secret text")
    press(boss, nights.proposal, "decide", verb="dismiss", reason="a secret text")
    press(boss, nights.decision, "lift", reason="a secret text")
    begin(boss, verb="sleep")
    press(boss, SleepRun.objects.first(), "undo", reason="a secret text")
    log = [f"{entry.object_repr} {entry.change_message}" for entry in LogEntry.objects.all()]
    assert len(log) == 5
    assert not [line for line in log if "secret" in line or SECRET_USER in line or "tea" in line]


def test_the_archived_come_back_by_their_own_page(boss: Client, nights: Nights) -> None:
    apply_transition(memory=nights.other, verb="archive", by=BY, reason="", now=NOW)
    assert "use-form" in text_of(boss, page_of(nights.other))
    assert levels(press(boss, nights.other, "use")) == ["success"]


def test_one_browsers_permissions_are_not_anothers(hub: Hub) -> None:
    plain = logged_in(User.objects.create_user("reader", password="a long password"))
    assert "/admin/login/" in plain.get(list_of(Merge))["Location"]
    assert "/admin/login/" in plain.post(reverse(BEGIN), {"agent": "kana"})["Location"]
