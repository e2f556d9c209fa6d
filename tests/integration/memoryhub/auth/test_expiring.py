"""Keys that expire soon are named by the doctor, a metric and the admin; other keys are not (SPEC A10)."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from memoryhub.auth.actions import issue_key, revoke_key
from memoryhub.auth.expiring import expiring_keys
from memoryhub.auth.models import ApiKey, OAuthClient, OAuthGrant
from memoryhub.auth.principals import Scope, command

pytestmark = pytest.mark.django_db
BY = command("test")


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(autouse=True)
def keys(now: datetime) -> dict[str, ApiKey]:
    """Keys of each sort; only that named `soon` is to be seen to."""
    days = {"soon": 13, "later": 15, "revoked": 5, "expired": -1, "connected": 5, "for ever": None}
    made = {}
    for name, number in days.items():
        made[name], _new = issue_key(name=name, scopes=[Scope.READ], by=BY, now=now)
        expires_at = None if number is None else now + timedelta(days=number)
        ApiKey.objects.filter(pk=made[name].pk).update(expires_at=expires_at)
        made[name].refresh_from_db()
    revoke_key(key=made["revoked"], by=BY, reason="", now=now)
    OAuthGrant.objects.create(client=OAuthClient.objects.create(name="x", redirect_uris=[]), key=made["connected"])
    return made


def test_only_a_key_that_someone_must_replace_expires_soon(keys: dict[str, ApiKey], now: datetime) -> None:
    assert list(expiring_keys(now)) == [keys["soon"]]


def test_doctor_and_metric_report_it(keys: dict[str, ApiKey]) -> None:
    out = StringIO()
    call_command("doctor", "--json", stdout=out)
    warnings = [
        each for each in json.loads(out.getvalue()) if each["subject"] == "API keys" and "expires" in each["detail"]
    ]
    assert [each["level"] for each in warnings] == ["warning"]
    assert f"soon (mh_{keys['soon'].prefix}_…) expires at " in warnings[0]["detail"]
    assert "\nmemoryhub_keys_expiring 1.0\n" in Client().get("/metrics").content.decode()


def test_admin_shows_it(keys: dict[str, ApiKey]) -> None:
    boss = Client()
    boss.force_login(User.objects.create_superuser("boss"))
    listed = boss.get(reverse("admin:memoryhub_apikey_changelist"), {"state": "expiring"}).content.decode()
    assert f"mh_{keys['soon'].prefix}_" in listed and "expires soon" in listed
    assert f"mh_{keys['later'].prefix}_" not in listed
    page = boss.get(reverse("admin:index")).content.decode()
    assert "expire within 14 days" in page and "?state=expiring" in page
