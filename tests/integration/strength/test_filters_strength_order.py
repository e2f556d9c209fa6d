"""Lists in the order of strengths are read from the numbers first, and hold what a list of all would."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Q
from django.test import Client
from rest_framework.test import APIClient

from memoryhub.tenancy.models import Actor
from strength.actions import filters
from strength.actions.curation import apply_transition
from strength.actions.filters import ALL, page_by_strength, strengths_of
from strength.models import Memory
from tests.integration.strength.conftest import BY, NOW, Sleep, Write

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
MOST = 4


@pytest.fixture
def many(write: Write, sleep_at: Sleep) -> None:
    """Write memories of all states and levels, between nights; some are equally strong."""
    for place in range(8):
        write(f"old {place}", kind="fact", strength=0.12 + 0.2 * (place // 2))
    for place in range(3):
        apply_transition(memory=write(f"pinned {place}", strength=1.0), verb="pin", by=BY, reason="", now=NOW)
    write("ends", valid_to=NOW + DAY / 2, strength=0.7)
    write("comes", valid_from=NOW + 30 * DAY, strength=0.8)
    for day in (1, 2, 4):
        sleep_at(NOW + day * DAY)
    for place in range(4):
        write(f"ahead {place}", at=NOW + 4.5 * DAY, strength=0.9)
    apply_transition(memory=write("archived", strength=3.0), verb="archive", by=BY, reason="", now=NOW)


@pytest.mark.parametrize("status", ["active", "archived", ALL])
@pytest.mark.parametrize("way", ["", "-"])
@pytest.mark.parametrize("kind", ["fact", "note"])
def test_pages_hold_what_the_whole_list_does(
    many: None, actor: Actor, status: str, way: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "STRENGTH_LOOKAHEAD", 2)
    rows = Memory.objects.of([actor.pk]).with_numbers().filter(kind=kind)
    rows = (rows if status == ALL else rows.filter(status=status)).order_by(f"{way}strength", f"{way}id")
    strengths = strengths_of(Q(actor=actor), status).order_by(f"{way}strength_now", f"{way}memory_id")
    whole = list(rows)
    assert whole or (status, kind) == ("archived", "fact")
    for skipped in range(len(whole) + 1):
        page = page_by_strength(rows, strengths, limit=MOST, offset=skipped)
        assert list(page) == whole[skipped : skipped + MOST]


def test_numbers_of_active_memories_are_those_of_all_of_them(many: None, actor: Actor) -> None:
    keys = strengths_of(Q(actor=actor), "active").values_list("memory_id", flat=True)
    assert {"ends", "archived"} == set(Memory.objects.exclude(pk__in=keys).values_list("content", flat=True)) - {
        "old 0",
        "old 1",
    }
    assert set(keys) == set(Memory.objects.active().values_list("pk", flat=True))


@pytest.mark.parametrize("ordering", ["strength", "-strength"])
def test_api_pages_follow_each_other(many: None, client: APIClient, ordering: str) -> None:
    asked: Any = {"agent_id": "kana", "user_id": "hiroki", "ordering": ordering, "status": "all", "ended": True}
    whole = client.get("/api/v1/memories", {**asked, "limit": 100}).json()["results"]
    page = client.get("/api/v1/memories", {**asked, "limit": MOST}).json()
    paged = page["results"]
    while page["next"]:
        page = client.get(page["next"]).json()
        paged += page["results"]
    assert paged == whole and len(paged) == Memory.objects.count()
    values = [row["strength"] for row in whole]
    assert values == sorted(values, reverse=ordering.startswith("-"))


def test_admin_list_is_in_the_order_of_strengths(
    many: None, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strength.admin.memories import MemoryAdmin

    monkeypatch.setattr(MemoryAdmin, "list_per_page", MOST)
    for way, place in (("-", 1), ("", 1), ("-", 2)):
        asked: Any = {"o": f"{way}5", "p": place, "actor__agent__agent_id__exact": "kana"}
        shown = admin_client.get("/admin/strength/memory/", asked).context["cl"]
        rows = list(Memory.objects.with_numbers().order_by(f"{way}strength", "-id"))
        assert [row.pk for row in shown.result_list] == [row.pk for row in rows[(place - 1) * MOST : place * MOST]]
        assert shown.queryset.query.order_by[1] == "-id"
