"""Invitations: a link for one person, once, for a while; never a way to more rights than its maker has."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memoryhub.auth.config import SignInConfig
from memoryhub.auth.models import AuditEntry, Invitation
from tests.fakes.oidc_server import OidcServer
from tests.integration.admin.test_sign_in import KEI, provider_of, roles_of, sign_in, who

pytestmark = pytest.mark.django_db
PASSWORD = "a long password"
ADD = "admin:memoryhub_invitation_add"


@pytest.fixture
def ann(db: None) -> User:
    """Return an administrator."""
    made = User.objects.create_user("ann", password=PASSWORD, is_staff=True)
    made.groups.add(Group.objects.get(name="administrator"))
    return made


@pytest.fixture
def server(settings: Any) -> Iterator[OidcServer]:
    cache.clear()
    with OidcServer() as server:
        settings.SIGN_IN = SignInConfig(provider_of(server))
        server.person = {**KEI, "groups": []}
        yield server


def browser_of(person: User) -> Client:
    browser = Client()
    browser.force_login(person)
    return browser


def invited(by: User, *, role: str = "curator", valid_for: str = "7") -> str:
    """Make an invitation in the admin; return the link's address."""
    form = {"email": "rin@example.org", "role": role, "valid_for": valid_for}
    page = browser_of(by).post(reverse(ADD), form)
    found = re.search(r'value="http://testserver(/admin/invitation/[^"]+)"', page.content.decode())
    assert found is not None and "no-store" in page["Cache-Control"]
    return found[1]


def accept(browser: Client, link: str, **values: str) -> Any:
    form = {"username": "rin", "password1": PASSWORD, "password2": PASSWORD, **values}
    return browser.post(link, form)


def test_an_invited_person_chooses_a_password_and_is_in(ann: User) -> None:
    link, browser = invited(ann), Client()
    page = browser.get(link).content.decode()
    assert "rin@example.org" in page and 'value="rin"' in page
    assert accept(browser, link)["Location"] == reverse("admin:index") and who(browser) == "rin"
    rin = User.objects.get(username="rin")
    assert (rin.email, rin.is_staff, rin.is_superuser) == ("rin@example.org", True, False)
    assert roles_of("rin") == {"curator"}
    entries = AuditEntry.objects.filter(object_kind="invitation").order_by("id")
    assert [(each.verb, each.who_name, each.details) for each in entries] == [
        ("issue", "ann", {"role": "curator"}),
        ("accept", "rin", {"role": "curator"}),
    ]
    token = link.rstrip("/").rsplit("/", 1)[-1]
    assert token not in str(Invitation.objects.values())


def test_a_link_works_once(ann: User) -> None:
    link = invited(ann)
    accept(Client(), link)
    for answer in (Client().get(link), accept(Client(), link, username="second")):
        assert answer.status_code == 410
    assert not User.objects.filter(username="second").exists()


@pytest.mark.parametrize(
    ("username", "first", "second"),
    [
        ("ann", PASSWORD, PASSWORD),
        ("rin", "short", "short"),
        ("rin", PASSWORD, "different one"),
        ("r in", PASSWORD, PASSWORD),
    ],
)
def test_a_wrong_form_leaves_the_link_good(ann: User, username: str, first: str, second: str) -> None:
    link, browser = invited(ann), Client()
    assert accept(browser, link, username=username, password1=first, password2=second).status_code == 200
    assert accept(browser, link).status_code == 302


def spoil_by_time(ann: User) -> None:
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


def spoil_by_withdrawal(ann: User) -> None:
    row = Invitation.objects.get()
    browser_of(ann).post(reverse("admin:memoryhub_invitation_delete", args=[row.pk]), {"post": "yes"})
    assert AuditEntry.objects.filter(verb="delete", object_kind="invitation").count() == 1


def spoil_by_closing_the_inviter(ann: User) -> None:
    User.objects.filter(pk=ann.pk).update(is_active=False)


def spoil_by_taking_the_inviter_s_role(ann: User) -> None:
    ann.groups.set([Group.objects.get(name="curator")])


def spoil_by_deleting_the_inviter(ann: User) -> None:
    ann.delete()


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_by_time,
        spoil_by_withdrawal,
        spoil_by_closing_the_inviter,
        spoil_by_taking_the_inviter_s_role,
        spoil_by_deleting_the_inviter,
    ],
)
def test_a_link_that_is_not_good_any_more_opens_nothing(ann: User, spoil: Any) -> None:
    link = invited(ann)
    spoil(ann)
    for answer in (Client().get(link), accept(Client(), link)):
        assert answer.status_code == 410 and "expired" in answer.content.decode()
    assert not User.objects.filter(username="rin").exists()


def test_nobody_invites_to_more_than_the_own_rights(ann: User) -> None:
    mika = User.objects.create_user("mika", password=PASSWORD, is_staff=True)
    mika.groups.add(Group.objects.get(name="curator"))
    browser = browser_of(mika)
    assert browser.get(reverse(ADD)).status_code == 403
    mika.user_permissions.add(Permission.objects.get(codename="add_invitation"))
    page = browser.get(reverse(ADD)).content.decode()
    assert 'value="curator"' in page and 'value="administrator"' not in page
    form = {"email": "x@example.org", "role": "administrator", "valid_for": "7"}
    assert browser.post(reverse(ADD), form).status_code == 200 and not Invitation.objects.exists()
    form["role"] = "curator"
    assert browser.post(reverse(ADD), form).status_code == 200 and Invitation.objects.exists()
    mika.user_permissions.add(Permission.objects.get(codename="view_invitation"))
    listed = reverse("admin:memoryhub_invitation_changelist")
    page = browser.get(listed, headers={"accept-language": "ja"}).content.decode()
    assert "担当者" in page and "未使用" in page and "curator" not in page


def test_where_a_second_factor_is_required_the_invited_set_one_up_first(ann: User, settings: Any) -> None:
    link, browser = invited(ann), Client()
    settings.SIGN_IN = SignInConfig(needs_second_factor=True)
    assert accept(browser, link)["Location"] == reverse("second_step") and who(browser) == ""


def test_an_invited_person_signs_in_by_the_provider(ann: User, server: OidcServer) -> None:
    link, browser = invited(ann), Client()
    page = browser.get(link).content.decode()
    begin = re.search(r'href="(/admin/login/oidc/\?invited=[^"]+)"', page)
    assert begin is not None
    assert sign_in(browser, begin[1]).status_code == 302
    assert who(browser) == "kei" and roles_of("kei") == {"curator"}
    assert Client().get(link).status_code == 410
    again = Client()
    assert sign_in(again).status_code == 302 and who(again) == "kei", "without any group of the provider's"
    other = Client()
    server.person["sub"] = "another"
    assert sign_in(other, begin[1]).status_code == 410 and who(other) == ""


def test_a_guess_opens_nothing(db: None) -> None:
    for token in ("x", "0" * 43, "あ"):
        assert Client().get(f"/admin/invitation/{token}/").status_code == 410
