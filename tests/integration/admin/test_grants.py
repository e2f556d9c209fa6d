"""Connected clients: one's own or all, disconnected with a reason, and what ends them besides."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from memoryhub.auth import grants
from memoryhub.auth.config import SignInConfig
from memoryhub.auth.consent import ConsentRequest, consent_address
from memoryhub.auth.erasure import erase_user
from memoryhub.auth.models import ApiKey, AuditEntry, OAuthClient, OAuthGrant, OAuthToken
from memoryhub.auth.orders import OrderLapsed, caller_of, order_of
from memoryhub.auth.principals import Forbidden, Scope, command, curator
from memoryhub.auth.roles import SCOPE_NEEDS
from memoryhub.jobs.queue import enqueue
from tests.conftest import run_jobs
from tests.integration.admin.conftest import Hub, list_of, logged_in, page_of

URI = "https://client.example/callback"


def client_named(name: str = "Claude") -> OAuthClient:
    now = datetime.now(UTC)
    return grants.register_client(client_id=uuid4(), name=name, redirect_uris=[URI], secret="", metadata={}, now=now)


def granted(hub: Hub, person: User, **changes: Any) -> OAuthGrant:
    client, values = client_named(changes.pop("name", "Claude")), {
        "agent_id": hub.agent.pk, "user_id": hub.actor.user_id, "scopes": [Scope.READ], "is_trusted": False,
        "redirect_uri": URI, "code_challenge": "c" * 43, "by": curator(person.pk, person.username),
        "now": datetime.now(UTC),
    }  # fmt: skip
    grants.grant_access(client=client, person=person, **{**values, **changes})
    return client.grants.get()


def may_connect(name: str, *codenames: str) -> User:
    """Make an account that may connect clients which read."""
    user = User.objects.create_user(name, is_staff=True)
    needs = {need.partition(".")[2] for need in SCOPE_NEEDS[Scope.READ]}
    names = {*needs, "add_oauthgrant", "view_oauthgrant", "change_oauthgrant", *codenames}
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    return user


def disconnect(browser: Client, *rows: OAuthGrant, **values: str) -> Any:
    chosen = [str(row.pk) for row in rows]
    return browser.post(list_of(OAuthGrant), {"action": "revoke", "_selected_action": chosen, **values}, follow=True)


def test_people_see_their_own_clients_and_key_keepers_all(boss: Client, hub: Hub) -> None:
    kei, rin = may_connect("kei"), may_connect("rin")
    granted(hub, kei, name="Kei's client"), granted(hub, rin, name="Rin's client")
    page = boss.get(list_of(OAuthGrant)).content.decode()
    assert "Kei&#x27;s client" in page and "Rin&#x27;s client" in page and "client.example" in page
    own = logged_in(kei).get(list_of(OAuthGrant)).content.decode()
    assert "Kei&#x27;s client" in own and "Rin&#x27;s client" not in own


def test_another_persons_client_cannot_be_opened_or_disconnected(hub: Hub) -> None:
    kei, grant = logged_in(may_connect("kei")), granted(hub, may_connect("rin"))
    assert kei.get(page_of(grant)).status_code == 302
    disconnect(kei, grant, reason="gone", confirmed="1")
    grant.key.refresh_from_db()
    assert grant.key.revoked_at is None


def test_disconnecting_needs_a_reason_and_is_audited(hub: Hub) -> None:
    kei = may_connect("kei")
    grant, browser = granted(hub, kei), logged_in(kei)
    assert "Disconnect this client" in browser.get(page_of(grant)).content.decode()
    assert "Give a reason" in disconnect(browser, grant, confirmed="1").content.decode()
    assert "disconnected" in disconnect(browser, grant, confirmed="1", reason="lost phone").content.decode()
    grant.key.refresh_from_db()
    assert grant.key.revoked_at is not None
    entries = AuditEntry.objects.filter(verb="revoke", reason="lost phone", who_name="kei")
    assert set(entries.values_list("object_kind", flat=True)) == {"api_key", "oauth_grant"}
    assert "Disconnect this client" not in browser.get(page_of(grant)).content.decode()


def test_registration_and_consent_are_audited_without_texts_of_the_client(hub: Hub) -> None:
    granted(hub, may_connect("kei"), name="Surprising name")
    entries = list(AuditEntry.objects.filter(object_kind__in=["oauth_client", "oauth_grant"]).order_by("at"))
    assert [(entry.verb, entry.who_name) for entry in entries] == [("create", "oauth"), ("create", "kei")]
    assert "Surprising" not in str([entry.details for entry in entries])


@pytest.mark.parametrize(
    "changes", [{"scopes": [Scope.WRITE]}, {"scopes": [Scope.ADMIN]}, {"scopes": []}, {"is_trusted": True}], ids=str
)
def test_no_more_is_granted_than_the_persons_rights(hub: Hub, changes: dict[str, Any]) -> None:
    with pytest.raises(Forbidden):
        granted(hub, may_connect("kei"), **changes)
    assert not OAuthGrant.objects.exists()


def test_the_page_offers_no_more_than_the_persons_rights(hub: Hub) -> None:
    client = client_named()
    asked = ConsentRequest(str(client.pk), URI, "c" * 43, ("read", "write"), None)
    form = logged_in(may_connect("kei")).get(consent_address(asked)).context["form"]
    assert [value for value, _label in form.fields["scopes"].choices] == ["read"]
    assert form.fields["is_trusted"].disabled and form.fields["agent_id"].initial == hub.agent.pk


def test_a_person_without_the_permission_gets_403(staff: Callable[..., Client], hub: Hub) -> None:
    asked = ConsentRequest(str(client_named().pk), URI, "c" * 43, ("read",), None)
    assert staff("view_oauthgrant").get(consent_address(asked)).status_code == 403


def test_a_required_second_factor_comes_before_the_page(boss: Client, hub: Hub, settings: Any) -> None:
    asked = ConsentRequest(str(client_named().pk), URI, "c" * 43, ("read",), None)
    assert boss.get(consent_address(asked)).status_code == 200
    settings.SIGN_IN = SignInConfig(needs_second_factor=True)
    assert boss.get(consent_address(asked)).status_code == 302


def test_a_request_outlives_its_half_hour_nowhere(boss: Client, hub: Hub, monkeypatch: Any) -> None:
    asked = ConsentRequest(str(client_named().pk), URI, "c" * 43, ("read",), None)
    address = consent_address(asked)
    monkeypatch.setattr("memoryhub.auth.consent.MAX_AGE_SECONDS", -1)
    assert boss.get(address).status_code == 400


def test_a_deleted_account_leaves_a_revoked_client(boss: Client, hub: Hub) -> None:
    kei = may_connect("kei")
    grant = granted(hub, kei)
    answer = boss.post(reverse("admin:auth_user_delete", args=[kei.pk]), {"post": "yes"})
    assert answer.status_code == 302 and not User.objects.filter(pk=kei.pk).exists()
    grant = OAuthGrant.objects.select_related("key", "person").get(pk=grant.pk)
    assert grant.person is None and not grants.is_upheld(grant)
    assert grant.key.revoked_at is not None and "The account was closed." in reasons_of(grant.key)


def reasons_of(key: ApiKey) -> list[str]:
    return list(AuditEntry.objects.filter(object_id=str(key.pk), verb="revoke").values_list("reason", flat=True))


def test_jobs_that_a_client_ordered_lapse_with_the_persons_rights(hub: Hub) -> None:
    kei = may_connect("kei")
    grant = granted(hub, kei)
    order = order_of(grant.key.principal())
    job = type("Job", (), {"order": order, "kind": "sleep", "payload": {}, "actor_id": hub.actor.pk})()
    assert caller_of(job).id == str(grant.key.pk)
    kei.user_permissions.clear()
    with pytest.raises(OrderLapsed):
        caller_of(job)


def test_erasing_the_user_deletes_the_grant_and_its_tokens(hub: Hub) -> None:
    granted(hub, may_connect("kei"))
    erase_user(agent_id=hub.agent.pk, user_id=hub.actor.user_id, by=command("test"), now=datetime.now(UTC))
    assert not OAuthGrant.objects.exists() and not OAuthToken.objects.exists()
    assert not ApiKey.objects.filter(user_id=hub.actor.user_id).exists()


def test_the_nightly_job_deletes_what_has_expired(hub: Hub) -> None:
    grant, unused = granted(hub, may_connect("kei")), client_named()
    past = datetime.now(UTC) - timedelta(days=2)
    OAuthClient.objects.update(created_at=past)
    OAuthToken.objects.update(expires_at=past)
    fresh = client_named()
    enqueue("forget_old_sessions")
    run_jobs()
    assert not OAuthToken.objects.exists() and not OAuthClient.objects.filter(pk=unused.pk).exists()
    assert set(OAuthClient.objects.values_list("pk", flat=True)) == {grant.client_id, fresh.pk}


def test_a_client_is_shown_with_its_addresses(boss: Client, hub: Hub) -> None:
    name = "<b>Claude</b>"
    grant = granted(hub, may_connect("kei"), name=name)
    page = boss.get(page_of(grant)).content.decode()
    assert name not in page and "client.example" in page and str(UUID(str(grant.key_id))) in page
