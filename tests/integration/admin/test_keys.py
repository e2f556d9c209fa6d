"""API keys: shown once with programs to copy, revoked with a reason, and in nothing that lasts."""

import ast
import json
import logging
import re
import shlex
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memoryhub.api.middleware import TIME_ZONE_COOKIE
from memoryhub.auth.models import ApiKey, AuditEntry
from memoryhub.auth.principals import Scope
from memoryhub.auth.roles import ADMINISTRATOR, CURATOR, SCOPE_NEEDS, TRUST_NEEDS
from tests.integration.admin.conftest import Hub, list_of, logged_in, page_of

KEY = re.compile(r"mh_[0-9a-f]{10}_[\w-]{40,}")
ODD_USER = 'O\'Neill "X" </script> $(id) 日本\u202e'


def issue(browser: Client, **values: Any) -> Any:
    response = browser.post(
        list_of(ApiKey, "add"),
        {"name": "phone", "scopes": ["read", "write"], **values},
        headers={"host": "localhost:8123"},
    )
    assert response.status_code == 200 and "key_text" in response.context, response.context["errors"]
    return response


def revoke(browser: Client, *keys: ApiKey, **values: str) -> Any:
    chosen = [str(key.pk) for key in keys]
    return browser.post(list_of(ApiKey), {"action": "revoke", "_selected_action": chosen, **values}, follow=True)


def snippet(response: Any, name: str) -> str:
    return str(next(each["text"] for each in response.context["snippets"] if each["name"] == name))


def test_the_form_explains_scopes(boss: Client, hub: Hub) -> None:
    page = boss.get(list_of(ApiKey, "add")).content.decode()
    assert "read: search, read and assemble contexts" in page and "needs both" in page
    japanese = boss.get(list_of(ApiKey, "add"), headers={"accept-language": "ja"}).content.decode()
    assert "読み取り（read）：" in japanese and "管理（admin）：" in japanese


def test_trust_of_a_key_that_only_reads_is_not_left_open(boss: Client, hub: Hub) -> None:
    ApiKey.objects.filter(pk=hub.key.pk).update(scopes=["read"])
    assert "writes nothing" in boss.get(page_of(hub.key)).content.decode()


def test_programs_carry_the_key_the_address_and_the_binding(boss: Client, hub: Hub) -> None:
    response = issue(boss, agent_ids=["kana"], user_id="hiroki")
    secret = KEY.search(response.content.decode())
    assert secret is not None
    for each in response.context["snippets"]:
        assert secret.group() in each["text"] and "http://localhost:8123/api/v1/context" in each["text"]
        assert '"kana"' in each["text"] and '"hiroki"' in each["text"]


def test_a_users_id_breaks_out_of_no_program(boss: Client, hub: Hub) -> None:
    response = issue(boss, user_id=ODD_USER)
    words = shlex.split(snippet(response, "curl").replace("\\\n", " "))
    assert json.loads(words[-1])["user_id"] == ODD_USER.strip()
    for name in ("urllib", "requests"):
        texts = [node.value for node in ast.walk(ast.parse(snippet(response, name))) if isinstance(node, ast.Constant)]
        assert ODD_USER in texts
    assert "</script> $(id)" not in response.content.decode()


def test_the_page_needs_no_inline_script(boss: Client, hub: Hub) -> None:
    page = issue(boss).content.decode()
    assert "memoryhub/copy.js" in page and 'data-copy="issued-key"' in page and "onfocus" not in page


def test_the_key_is_in_no_message_and_no_log(boss: Client, hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    response = issue(boss)
    secret = response.context["key_text"]
    assert not [message for message in get_messages(response.wsgi_request) if secret in str(message)]
    assert secret not in caplog.text and secret not in json.dumps(dict(boss.session))


# Nobody issues a key that can do more than the issuer may.


def issuer(role: str, *codenames: str) -> Client:
    """Return a browser of somebody with a role who may issue keys, and may do these things besides."""
    person = User.objects.create_user("mika", password="a long password", is_staff=True)
    person.groups.add(Group.objects.get(name=role))
    person.user_permissions.set(Permission.objects.filter(codename__in=["add_apikey", *codenames]))
    return logged_in(person)


def offered(browser: Client) -> list[str]:
    form = browser.get(list_of(ApiKey, "add")).context["adminform"].form
    return [value for value, _ in form.fields["scopes"].choices]


def refused(browser: Client, **values: Any) -> dict[str, Any]:
    """Try to issue a key; return what the form has against it."""
    response = browser.post(list_of(ApiKey, "add"), {"name": "phone", "scopes": ["read"], **values})
    assert response.status_code == 200 and "key_text" not in response.context
    assert not ApiKey.objects.filter(name="phone").exists()
    return dict(response.context["adminform"].form.errors)


@pytest.mark.django_db
def test_what_a_scope_needs_are_permissions_that_exist() -> None:
    every = {f"{app}.{code}" for app, code in Permission.objects.values_list("content_type__app_label", "codename")}
    assert set(SCOPE_NEEDS) == set(Scope)
    assert frozenset.union(TRUST_NEEDS, *SCOPE_NEEDS.values()) <= every


def test_an_administrator_issues_every_key(hub: Hub) -> None:
    browser = issuer(ADMINISTRATOR)
    assert offered(browser) == ["read", "write", "curate", "admin"]
    issue(browser, scopes=["read", "write", "curate", "admin"], is_trusted="on")
    key = ApiKey.objects.get(name="phone")
    assert (key.scopes, key.is_trusted) == (["read", "write", "curate", "admin"], True)


@pytest.mark.parametrize("scope", ["write", "admin"])
def test_a_curator_who_issues_keys_gives_what_a_curator_may(hub: Hub, scope: str) -> None:
    browser = issuer(CURATOR, "view_job")
    assert offered(browser) == ["read", "curate"]
    assert "is not offered" in browser.get(list_of(ApiKey, "add")).content.decode()
    assert set(refused(browser, scopes=["read", scope])) == {"scopes"}
    issue(browser, scopes=["read"], is_trusted="on")
    assert ApiKey.objects.get(name="phone").is_trusted, "who may approve pending memories may trust a key"


def test_a_key_cannot_outlive_the_calendar(boss: Client, hub: Hub) -> None:
    boss.cookies[TIME_ZONE_COOKIE] = "America/New_York"
    assert set(refused(boss, expires_at_0="9999-12-31", expires_at_1="23:59:00")) == {"expires_at"}


def test_who_may_only_issue_keys_issues_none(hub: Hub, staff: Callable[..., Client]) -> None:
    browser, form = staff("add_apikey"), list_of(ApiKey, "add")
    assert browser.get(form).status_code == 403
    assert browser.post(form, {"name": "phone", "scopes": ["read"]}).status_code == 403
    assert not ApiKey.objects.filter(name="phone").exists()


def test_who_may_approve_nothing_issues_no_trusted_key(hub: Hub, staff: Callable[..., Client]) -> None:
    browser = staff("add_apikey", *(name.partition(".")[2] for name in SCOPE_NEEDS[Scope.READ]))
    form = browser.get(list_of(ApiKey, "add")).context["adminform"].form
    assert form["is_trusted"].value() is False and "disabled" in str(form["is_trusted"])
    assert set(refused(browser, is_trusted="on")) == {"is_trusted"}
    issue(browser, scopes=["read"])
    assert not ApiKey.objects.get(name="phone").is_trusted


def test_revoking_asks_first_and_counts(boss: Client, hub: Hub) -> None:
    ApiKey.objects.create(name="old", prefix="x", digest="x", scopes=["read"], revoked_at=hub.key.created_at)
    page = revoke(boss, *ApiKey.objects.all()).content.decode()
    assert "1 key will be revoked permanently" in page and "1 is revoked already" in page and "never used" in page
    hub.key.refresh_from_db()
    assert hub.key.revoked_at is None


def test_revoking_wants_a_reason(boss: Client, hub: Hub) -> None:
    page = revoke(boss, hub.key, confirmed="1", reason="  ").content.decode()
    assert "Give a reason" in page and "aria-invalid" in page and 'title="required">*' in page
    assert ApiKey.objects.get(pk=hub.key.pk).revoked_at is None
    page = revoke(boss, hub.key, confirmed="1", reason="laptop stolen").content.decode()
    assert "1 key was revoked." in page
    assert ApiKey.objects.get(pk=hub.key.pk).revoked_at is not None
    assert AuditEntry.objects.get(verb="revoke").reason == "laptop stolen"


def test_a_keys_page_shows_its_use_and_no_digest(boss: Client, hub: Hub) -> None:
    page = boss.get(page_of(hub.key)).content.decode()
    assert "Last used at" in page and hub.key.digest not in page and "Revoke this key…" in page


def test_a_new_key_may_only_read_unless_a_person_ticks_more(boss: Client) -> None:
    form = boss.get(reverse("admin:memoryhub_apikey_add")).context["adminform"].form
    assert form.fields["scopes"].initial == ["read"]


def test_a_key_is_the_makers_or_a_service_accounts(boss: Client, hub: Hub) -> None:
    issue(boss, name="mine", is_personal="on")
    issue(boss, name="deploy")
    mine, deploy = ApiKey.objects.get(name="mine"), ApiKey.objects.get(name="deploy")
    assert mine.is_personal and not deploy.is_personal and mine.person == deploy.person == User.objects.get()
    issued = AuditEntry.objects.get(verb="issue", object_id=str(mine.pk))
    assert issued.details["person"] == str(mine.person_id)
    page = boss.get(list_of(ApiKey)).content.decode()
    assert "service account (made by boss)" in page and hub.key.name in page
    assert "boss (personal)" in page and "boss (personal)" in boss.get(page_of(mine)).content.decode()
    assert "boss (personal)" not in boss.get(page_of(deploy)).content.decode()


def test_days_of_expiry_are_offered_for_a_new_key_only_and_scopes_are_named_alike(boss: Client, hub: Hub) -> None:
    page = boss.get(list_of(ApiKey, "add")).content.decode()
    for title, days in (("in 30 days", 30), ("in 90 days", 90), ("in 1 year", 365)):
        day = timezone.localdate() + timedelta(days=days)
        assert f'data-day="{day.isoformat()}" data-time="23:59">{title}<' in page
    assert "admin: agents" in page and 'data-fills="id_expires_at" hidden' in page
    ApiKey.objects.filter(pk=hub.key.pk).update(scopes=["admin"])
    shown = boss.get(page_of(hub.key)).content.decode()
    assert "in 30 days" not in shown and "administer" not in shown


def test_the_list_is_filtered_by_owner(boss: Client, hub: Hub) -> None:
    issue(boss, name="mine", is_personal="on")
    issue(boss, name="deploy")
    other = User.objects.create_user("rin")
    boss_id = User.objects.get(username="boss").pk

    def listed(owner: object) -> set[str]:
        rows = boss.get(list_of(ApiKey), {"owner": str(owner)}).context["cl"].queryset
        return {row.name for row in rows}

    assert listed(boss_id) == {"mine"} and listed(other.pk) == set()
    assert listed("service") == {"deploy", hub.key.name}
    assert listed("²") == listed("") == {"mine", "deploy", hub.key.name}


def test_a_personal_key_of_an_account_without_access_is_shown_as_refused(boss: Client, hub: Hub) -> None:
    issue(boss, name="mine", is_personal="on")
    rin = User.objects.create_user("rin", is_active=False)
    ApiKey.objects.filter(name="mine").update(person=rin)
    assert "refused: the account has no access" in boss.get(list_of(ApiKey)).content.decode()
    rin.delete()
    assert "a deleted account" in boss.get(list_of(ApiKey)).content.decode()
