"""Behaviour that all screens share: a list's action on a row that cannot exist, and one that breaks."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client, RequestFactory
from django.urls import reverse

from conversations.models import Session
from memoryhub.admin.base import HubAdmin
from memoryhub.api.middleware import TIME_ZONE_COOKIE
from memoryhub.auth.models import ApiKey
from summaries.actions.projects import create_project
from tests.integration.admin.conftest import BY, NOW, Hub, list_of, page_of


class Breaking(HubAdmin):
    """A screen whose action breaks on rows that are there."""

    actions = ("clash", "misjudge")

    @admin.action(description="Clash")
    def clash(self, request: Any, queryset: Any) -> None:
        """Fail as Python does."""
        raise ValueError("a fault of ours")

    @admin.action(description="Misjudge")
    def misjudge(self, request: Any, queryset: Any) -> None:
        """Fail as Django's models do."""
        raise ValidationError("a fault of ours")


@pytest.mark.parametrize("key", ["no-id", "", "5", "0" * 40])
def test_a_row_that_cannot_exist_is_told(boss: Client, hub: Hub, key: str) -> None:
    values = {"action": "revoke", ACTION_CHECKBOX_NAME: [str(hub.key.pk), key]}
    page = boss.post(list_of(ApiKey), values, follow=True)
    assert page.status_code == 200 and "One of the selected rows does not exist." in page.content.decode()
    hub.key.refresh_from_db()
    assert hub.key.revoked_at is None


def test_a_page_of_a_row_that_is_gone_redirects(boss: Client) -> None:
    page = boss.post(reverse("admin:memoryhub_job_cancel", args=[uuid4()]), follow=True)
    assert page.redirect_chain == [(reverse("admin:index"), 302)] and "Perhaps it was deleted" in page.content.decode()


@pytest.mark.parametrize(("action", "fault"), [("clash", ValueError), ("misjudge", ValidationError)])
def test_a_fault_of_an_action_is_not_told_as_a_missing_row(hub: Hub, action: str, fault: type[Exception]) -> None:
    screen = Breaking(ApiKey, admin.site)
    request = RequestFactory().post("/", {"action": action, ACTION_CHECKBOX_NAME: [str(hub.key.pk)]})
    request.user = User.objects.create_superuser("boss")
    with pytest.raises(fault, match="a fault of ours"):
        screen.response_action(request, ApiKey.objects.all())


@pytest.mark.parametrize(
    ("period", "found"),
    [
        ({"started_at_to_0": "2026-03-01"}, 1),
        ({"started_at_to_0": "2026-02-28"}, 0),
        ({"started_at_from_0": "2026-03-01"}, 1),
        ({"started_at_from_0": "2026-03-02"}, 0),
        ({"started_at_from_0": "2026-03-01", "started_at_from_1": "12:00:01"}, 0),
        ({"started_at_from_0": "2026-03-01", "started_at_from_1": "12:00:01+00:00"}, 1),
        ({"started_at_to_0": "2026-02-30"}, 1),
    ],
    ids=[
        "to-its-day",
        "to-the-day-before",
        "from-its-day",
        "from-the-day-after",
        "from-a-second-after",
        "a-time-with-a-zone-is-ignored",
        "a-day-that-does-not-exist-is-ignored",
    ],
)
def test_a_list_is_narrowed_to_days_with_or_without_times(
    boss: Client, hub: Hub, period: dict[str, str], found: int
) -> None:
    assert boss.get(list_of(Session), period).context["cl"].result_count == found


def test_a_filter_by_a_day_means_the_day_of_the_person(boss: Client, hub: Hub) -> None:
    boss.cookies[TIME_ZONE_COOKIE] = "Pacific/Auckland"  # 13 hours ahead: the session began on 2 March there
    listed = boss.get(list_of(Session), {"started_at_from_0": "2026-03-02"})
    assert listed.context["cl"].result_count == 1


@pytest.mark.parametrize(
    "name",
    ["strength_memory_curate", "summaries_document_count", "summaries_document_preview", "summaries_project_export"],
)
def test_what_is_only_posted_to_refuses_who_may_not_see_it_whatever_the_method(
    staff: Callable[..., Client], boss: Client, hub: Hub, name: str
) -> None:
    project = create_project(actor=hub.actor, name="garden", description="", by=BY, now=NOW)
    rows = {"memory": hub.memory, "project": project, "document": project.documents.get(name="MEMORY.md")}
    address = page_of(rows[name.split("_")[1]], name.split("_")[2])
    assert [staff().get(address).status_code, boss.get(address).status_code] == [403, 405]
