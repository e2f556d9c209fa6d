"""Times on pages: relative in lists, with a full time that names its zone, in the zone that a person has chosen."""

from datetime import datetime, timedelta

import pytest
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone, translation

from conversations.models import Message, Receipt, Session
from memoryhub.admin.columns import relative_time
from memoryhub.api.middleware import BROWSER_ZONE_COOKIE, TIME_ZONE_COOKIE
from strength.models import Memory
from tests.integration.admin.conftest import NOW, Hub, list_of, page_of


@pytest.mark.parametrize(
    ("ago", "english", "japanese"),
    [
        (timedelta(seconds=59), "just now", "たった今"),
        (timedelta(minutes=59), "59 min", "59分前"),
        (timedelta(hours=23), "23 h", "23時間前"),
        (timedelta(days=3), "3 d", "3日前"),
        (timedelta(days=90), "2 mo", "2か月前"),
        (timedelta(days=900), "2 y", "2年前"),
        (-timedelta(days=3), "in 3 d", "3日後"),
    ],
)
def test_a_time_is_relative_and_its_hint_is_full(ago: timedelta, english: str, japanese: str) -> None:
    shown = relative_time(NOW, NOW + ago)
    assert f">{english}</time>" in shown
    assert 'title="1 Mar 2026, 12:00 UTC"' in shown and f'datetime="{NOW.isoformat()}"' in shown
    with translation.override("ja"):
        shown = relative_time(NOW, NOW + ago)
    assert f">{japanese}</time>" in shown and 'title="2026年3月1日 12:00 UTC"' in shown


def test_lists_show_relative_times_and_sort_by_them(boss: Client, hub: Hub) -> None:
    page = boss.get(list_of(Memory), {"o": "8"})
    assert 'title="1 Mar 2026, 12:00 UTC" class="hub-when">' in page.content.decode()
    assert page.context["cl"].get_ordering_field_columns(), "the column sorts as its field does"


def test_a_person_chooses_a_zone_for_all_pages(boss: Client, hub: Hub) -> None:
    address = reverse("time_zone")
    assert "UTC" in boss.get(address).content.decode()
    chosen = boss.post(address, {"time_zone": "Asia/Tokyo"}, follow=True)
    assert "JST" in chosen.content.decode() and 'value="Asia/Tokyo" selected' in chosen.content.decode()
    cookie = boss.cookies[TIME_ZONE_COOKIE]
    assert cookie["httponly"] and cookie["samesite"] == "Lax"
    assert "1 Mar 2026, 21:00 JST" in boss.get(list_of(Memory)).content.decode()
    assert "1 Mar 2026, 21:00 JST" in boss.get(page_of(hub.memory)).content.decode()
    boss.post(address, {"time_zone": ""})
    assert "1 Mar 2026, 12:00 UTC" in boss.get(list_of(Memory)).content.decode()


def test_times_are_the_browsers_unless_somebody_chose_a_zone(boss: Client, hub: Hub) -> None:
    boss.cookies[BROWSER_ZONE_COOKIE] = "Asia/Tokyo"
    assert "1 Mar 2026, 21:00 JST" in boss.get(list_of(Memory)).content.decode()
    assert "the zone of this browser (Asia/Tokyo)" in boss.get(reverse("time_zone")).content.decode()
    boss.post(reverse("time_zone"), {"time_zone": "UTC"})
    assert "1 Mar 2026, 12:00 UTC" in boss.get(list_of(Memory)).content.decode()


@pytest.mark.parametrize("cookie", [TIME_ZONE_COOKIE, BROWSER_ZONE_COOKIE])
@pytest.mark.parametrize("zone", ["", "Nowhere/Atlantis", "../../etc/passwd", "localtime", "x" * 4000])
def test_an_unknown_zone_is_the_installations(boss: Client, hub: Hub, zone: str, cookie: str) -> None:
    boss.cookies[cookie] = zone
    with override_settings(TIME_ZONE="Asia/Kolkata"):
        assert "1 Mar 2026, 17:30 IST" in boss.get(list_of(Memory)).content.decode()
        boss.post(reverse("time_zone"), {"time_zone": zone})
        assert "1 Mar 2026, 17:30 IST" in boss.get(list_of(Memory)).content.decode()


def test_a_zone_that_somebody_chose_does_not_stay_for_the_next_request(boss: Client, hub: Hub, client: Client) -> None:
    boss.post(reverse("time_zone"), {"time_zone": "Asia/Tokyo"})
    boss.get(list_of(Memory))
    client.get("/api/v1/health")
    assert timezone.get_current_timezone_name() == "UTC"


@pytest.mark.parametrize(
    ("zone", "moment"), [("Pacific/Kiritimati", "9999-12-31T23:59:59Z"), ("America/New_York", "0001-01-01T00:00:00Z")]
)
def test_pages_show_the_ends_of_the_calendar_in_every_zone(boss: Client, hub: Hub, zone: str, moment: str) -> None:
    at = datetime.fromisoformat(moment)
    memory = hub.remember("Tea")
    Memory.objects.filter(pk=memory.pk).update(valid_to=at)
    hub.session.messages.update(created_at=at)
    boss.cookies[TIME_ZONE_COOKIE] = zone
    for page in (page_of(memory), page_of(hub.session), list_of(Memory), list_of(Session), list_of(Message)):
        assert boss.get(page).status_code == 200, page


@pytest.mark.parametrize("name", ["valid_from", "valid_to"])
def test_a_time_beyond_the_calendar_is_refused_at_its_field(boss: Client, hub: Hub, name: str) -> None:
    boss.cookies[TIME_ZONE_COOKIE] = "America/New_York"
    memory = hub.remember("Tea")
    form = boss.get(page_of(memory)).context["adminform"].form
    values = {field.html_name: field.value() for field in form if field.value() is not None}
    values |= {f"{name}_0": "9999-12-31", f"{name}_1": "23:59:59"}
    answer = boss.post(
        page_of(memory), {key: value for key, value in values.items() if not isinstance(value, list | dict)}
    )
    assert "outside the calendar" in str(answer.context["adminform"].form.errors[name])


def test_numbers_in_lists_are_grouped(boss: Client, hub: Hub) -> None:
    Receipt.objects.update(token_limit=80_000)
    assert ">80,000<" in boss.get(list_of(Receipt)).content.decode()
