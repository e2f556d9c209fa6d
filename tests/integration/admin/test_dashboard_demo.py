"""With the demo no screen is empty."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Sum
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from conversations.models import ChatTurn
from memoryhub.admin.dashboard import Count
from memoryhub.auth.actions import issue_key
from memoryhub.auth.principals import Scope, command
from memoryhub.importexport.demo import load_demo
from memoryhub.jobs.models import Job
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.llm.usage.spending import today_start
from memoryhub.tenancy.models import Actor
from memoryhub.unfold import PAGES
from strength.actions.sleep import SleepRequest, sleep
from strength.admin.review import review_badge
from strength.domain.sleep import Trigger
from strength.models import Memory, MemoryRevision, Merge, SleepRun
from summaries.models import Project
from tests.integration.admin.conftest import BY, list_of, logged_in

EMPTY = {
    "memoryhub.FailedLogin": "nobody has failed to log in",
    "memoryhub.IdempotencyRecord": "no client has sent a key that makes a request repeatable",
    "memoryhub.Invitation": "nobody is invited yet",
    "memoryhub.OAuthGrant": "a person connects a client",
    "memoryhub.ScheduleState": "written by a running worker",
    "memoryhub.TokenFactors": "fitted to a hundred real calls",
    "memoryhub.Worker": "written by a running worker",
    "strength.Expectation": "a person keeps one",
    "strength.ReviewRule": "a person makes one in the review",
    "webhooks.Endpoint": "an operator adds one",
}
"""Lists that a new installation cannot fill, and why."""

pytestmark = pytest.mark.django_db(transaction=False)


@pytest.fixture
def browser() -> Client:
    """Return the browser of the first user of a new installation with the demo, made as `first_run` makes it."""
    by, now = command("demo"), timezone.now()
    load_demo(by=by, now=now)
    issue_key(name="first", scopes=list(Scope), by=by, now=now)
    return logged_in(User.objects.create_superuser("boss", password="a long password"))


def context(browser: Client, name: str, **query: str) -> Any:
    answer = browser.get(reverse(name), query)
    assert answer.status_code == 200, name
    return answer.context


def test_no_list_is_empty(browser: Client) -> None:
    counts = {
        model._meta.label: browser.get(list_of(model)).context["cl"].result_count for model in admin.site._registry
    }
    assert {label for label, count in counts.items() if not count} == set(EMPTY)


def test_the_first_page_says_what_waits_what_was_done_and_what_was_spent(browser: Client) -> None:
    shown = context(browser, "admin:index")
    curves = {str(curve["title"]): curve["highest"] for curve in shown["curves"]}
    assert len(curves) == 4 and "0" not in curves.values(), curves
    assert shown["sentences"] and shown["waiting"] and shown["to_review"].number >= 7


def test_each_number_of_rows_opens_a_list_of_as_many_rows(browser: Client) -> None:
    ChatTurn.objects.filter(pk__in=ChatTurn.objects.values("pk")[:3]).update(state="failed", created_at=timezone.now())
    Project.objects.filter(name="tidepool").update(archived_at=timezone.now())
    Job.objects.create(kind="extract", state="done", due_at=timezone.now())
    shown, counts = context(browser, "admin:index"), {}
    for tile in [*shown["waiting"], *shown["contents"], *shown["background"]]:
        opened = browser.get(tile.href).context
        rows = opened["cl"].result_count if "cl" in opened else opened.get("total")
        if isinstance(tile.figure, Count) and tile.title != "Extraction":  # which counts messages
            counts[str(tile.title)] = (tile.figure.number, rows)
    assert counts["Memories"][0] == 72 and counts["Unanswered"][0] == 3, counts
    assert {title: pair for title, pair in counts.items() if pair[0] != pair[1]} == {}


def test_review_calendar_spending_and_playground_have_something_to_show(browser: Client) -> None:
    assert context(browser, "review")["item"]
    month = timezone.localdate() - timedelta(days=1)
    assert context(browser, "sleep", month=f"{month:%Y-%m}")["nights"]
    assert len(context(browser, "spending")["rows"]) > 0
    assert Merge.objects.filter(state="proposed").count() == 3


def test_calls_of_the_demo_are_called_so_and_none_is_of_today(browser: Client) -> None:
    for page in (reverse("spending"), list_of(LedgerEntry)):
        assert "Calls of the demo data are included" in browser.get(page).content.decode(), page
    assert "demo (claude" in browser.get(list_of(LedgerEntry)).content.decode()
    assert "no calls yet; the curve is demo data" in browser.get(reverse("admin:index")).content.decode()
    now = timezone.now()
    assert not LedgerEntry.objects.filter(created_at__gte=today_start(now, timezone.get_default_timezone())).exists()

    LedgerEntry.objects.all().update(provider="anthropic")
    assert "Calls of the demo data" not in browser.get(reverse("spending")).content.decode()


def test_the_badge_counts_memories_and_proposals(browser: Client, rf: Any) -> None:
    request = rf.get("/")
    request.user = User.objects.get(username="boss")
    assert review_badge(request) == "7"


def test_every_page_opens(browser: Client) -> None:
    opened = [page.name for page in PAGES if "<" not in page.address]
    wrong = {name: browser.get(reverse(name)).status_code for name in opened}
    assert {name: status for name, status in wrong.items() if status not in (200, 405)} == {}


def test_nights_of_the_demo_are_not_offered_for_undo(browser: Client) -> None:
    run = SleepRun.objects.order_by("-now")[0]
    pages = [
        reverse("admin:index"),
        f"{reverse('sleep')}?month={timezone.localdate(run.now):%Y-%m}",
        reverse("admin:strength_sleeprun_change", args=[run.pk]),
    ]
    assert ["/undo/" in browser.get(page).content.decode() for page in pages] == [False] * 3
    assert "was imported" in browser.get(pages[-1]).content.decode()
    assert "Imported, such as" in browser.get(pages[1]).content.decode()


def test_numbers_of_the_demo_fit_its_nights(browser: Client) -> None:
    """A first sleep of one's own goes on from last night, and nights archived what stands archived by a sleep."""
    archived = MemoryRevision.objects.filter(verb="sleep", changed_after__status="archived").count()
    assert SleepRun.objects.aggregate(sum=Sum("archived_count"))["sum"] == archived
    actor = Actor.objects.get(agent_id="release-assistant", user_id="maya")
    before = {each.pk: each.strength for each in Memory.objects.of([actor.pk]).with_numbers()}
    sleep(actor=actor, request=SleepRequest(Trigger.CURATOR, BY, timezone.now()))
    after = {each.pk: each.strength for each in Memory.objects.of([actor.pk]).with_numbers()}
    assert max(before.values()) == pytest.approx(2.2)
    assert all(after[key] > 0.9 * strength for key, strength in before.items())
