"""Personal keys end with their person's account or rights; a service account's key stays (SPEC O11)."""

from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from memoryhub.auth.actions import issue_key
from memoryhub.auth.authentication import RECENT_KEYS
from memoryhub.auth.leaving import deactivate
from memoryhub.auth.models import ApiKey, AuditEntry
from memoryhub.auth.orders import OrderLapsed, caller_of, order_of
from memoryhub.auth.principals import Scope, command
from memoryhub.auth.roles import ADMINISTRATOR
from tests.integration.admin.conftest import list_of, logged_in, page_of

pytestmark = pytest.mark.django_db
BY = command("test")


def administrator(name: str = "rin") -> User:
    person = User.objects.create_user(name, password="a long password", is_staff=True)
    person.groups.add(Group.objects.get(name=ADMINISTRATOR))
    return person


def superuser() -> Client:
    return logged_in(User.objects.create_superuser("boss", password="a long password"))


def key_of(person: User | None, *, is_personal: bool = True, **values: Any) -> tuple[ApiKey, APIClient]:
    now = datetime.now(UTC)
    options = {"name": "laptop", "scopes": [Scope.READ, Scope.WRITE], **values}
    key, new = issue_key(**options, person=person, is_personal=is_personal, by=BY, now=now)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {new.text}")
    return key, client


def status(client: APIClient) -> int:
    return client.get("/api/v1/memories", {"agent_id": "kana", "user_id": "hiroki"}).status_code


def leave_inactive(person: User) -> None:
    User.objects.filter(pk=person.pk).update(is_active=False)


def leave_without_staff(person: User) -> None:
    User.objects.filter(pk=person.pk).update(is_staff=False)


def lose_the_role(person: User) -> None:
    person.groups.clear()


def be_deleted(person: User) -> None:
    person.delete()


@pytest.mark.parametrize("leave", [leave_inactive, leave_without_staff, lose_the_role, be_deleted])
def test_a_personal_key_stops_however_the_person_leaves(leave: Callable[[User], None]) -> None:
    person = administrator()
    (personal, own), (_row, service) = key_of(person), key_of(person, is_personal=False, name="deploy")
    assert status(own) == status(service) == 200
    order = order_of(personal.principal())
    job = type("Job", (), {"order": order, "kind": "sleep", "payload": {}, "actor_id": None})()
    assert caller_of(job) is not None
    leave(person)
    assert (status(own), status(service)) == (401, 200)
    with pytest.raises(OrderLapsed):
        caller_of(job)


def test_a_personal_key_needs_the_rights_of_each_of_its_scopes() -> None:
    person = User.objects.create_user("mika", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    _key, client = key_of(person, scopes=[Scope.READ, Scope.ADMIN], is_trusted=False)
    assert status(client) == 401


def test_a_superuser_who_is_one_no_more_keeps_no_key() -> None:
    person = User.objects.create_superuser("boss")
    _key, client = key_of(person)
    assert status(client) == 200
    User.objects.update(is_superuser=False)
    assert status(client) == 401


def test_while_the_database_is_away_no_personal_key_is_remembered() -> None:
    (_personal, own), (_service, other) = key_of(administrator()), key_of(None, is_personal=False)
    texts = [client._credentials["HTTP_AUTHORIZATION"].partition(" ")[2] for client in (own, other)]
    assert status(own) == status(other) == 200
    assert RECENT_KEYS.get(texts[0]) is None and RECENT_KEYS.get(texts[1]) is not None


def test_what_a_personal_key_does_is_recorded_with_the_person() -> None:
    _key, client = key_of(administrator())
    body = {"agent_id": "kana", "user_id": "hiroki", "content": "The user likes tea."}
    assert client.post("/api/v1/memories", body, format="json").status_code == 201
    assert set(AuditEntry.objects.filter(who_kind="key").values_list("who_name", flat=True)) == {"laptop (rin)"}


def test_unchecking_active_ends_sessions_and_personal_keys_for_good() -> None:
    person, boss = administrator(), superuser()
    browser, (key, client), (service, other) = logged_in(person), key_of(person), key_of(person, is_personal=False)
    values = {"username": "rin", "groups": [person.groups.get().pk], "is_staff": "on"}
    assert boss.post(page_of(person), values).status_code == 302
    assert browser.get(reverse("admin:index")).status_code == 302
    key.refresh_from_db(), service.refresh_from_db()
    assert key.revoked_at is not None and service.revoked_at is None
    entry = AuditEntry.objects.get(verb="revoke", object_id=str(key.pk))
    assert (entry.who_name, entry.reason) == ("boss", "The account was closed.")
    assert boss.post(page_of(person), {**values, "is_active": "on"}).status_code == 302
    assert browser.get(reverse("admin:index")).status_code == 302, "the old session stays ended"
    assert (status(client), status(other)) == (401, 200)


def test_deleting_accounts_from_the_list_revokes_their_keys() -> None:
    person, boss = administrator(), superuser()
    key, client = key_of(person)
    chosen = {"action": "delete_selected", "_selected_action": [str(person.pk)], "post": "yes"}
    assert boss.post(list_of(User), chosen).status_code == 302
    key.refresh_from_db()
    assert key.revoked_at is not None and key.person is None and status(client) == 401


def test_the_command_deactivates_and_says_what_ended() -> None:
    person = administrator()
    logged_in(person), key_of(person), key_of(person, is_personal=False)
    out = StringIO()
    call_command("deactivate", "rin", "--reason", "left the company", stdout=out)
    assert "1 sessions, 1 personal keys, 0 connected clients" in out.getvalue()
    assert not User.objects.get(pk=person.pk).is_active
    entries = AuditEntry.objects.filter(who_name="deactivate", reason="left the company")
    assert set(entries.values_list("verb", "object_kind")) == {("update", "person"), ("revoke", "api_key")}
    with pytest.raises(CommandError, match="no account 'nobody'"):
        call_command("deactivate", "nobody")


def test_a_second_deactivation_records_nothing_more() -> None:
    person, now = administrator(), datetime.now(UTC)
    key_of(person)
    deactivate(person, reason="left", by=BY, now=now)
    before = AuditEntry.objects.count()
    ended = deactivate(person, reason="left", by=BY, now=now)
    assert (ended.sessions, ended.keys, ended.clients) == (0, 0, 0) and AuditEntry.objects.count() == before
