"""One's own sessions: ended everywhere else by a button, and by a new password, which says so."""

from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from memoryhub.auth.models import AuditEntry
from memoryhub.auth.roles import CURATOR
from tests.integration.admin.conftest import logged_in
from tests.integration.admin.test_base_roles import person


def is_in(browser: Client) -> bool:
    return bool(browser.get(reverse("admin:index")).status_code == 200)


def test_a_person_ends_the_own_sessions_elsewhere_and_nobody_elses(boss: Client) -> None:
    me = person(CURATOR)
    here, there, away = logged_in(me), logged_in(me), logged_in(me)
    assert reverse("own_sessions") in here.get(reverse("admin:index")).content.decode()
    page = here.post(reverse("own_sessions"), follow=True).content.decode()
    assert "2 other sessions were ended." in page
    assert is_in(here) and is_in(boss) and not is_in(there) and not is_in(away)
    (told,) = AuditEntry.objects.filter(object_kind="person", object_id=str(me.pk), verb="update")
    assert told.details["ended"] == 2
    assert "You have no other sessions." in here.post(reverse("own_sessions"), follow=True).content.decode()


def test_looking_ends_nothing(boss: Client) -> None:
    me = person(CURATOR)
    here, there = logged_in(me), logged_in(me)
    assert "Changing your password does the same." in here.get(reverse("own_sessions")).content.decode()
    assert is_in(there)


def test_the_form_of_a_new_password_says_what_it_ends(boss: Client) -> None:
    assert "signs you out everywhere else" in boss.get(reverse("admin:password_change")).content.decode()


def test_an_account_shows_its_role_before_what_experts_need(boss: Client) -> None:
    me = person(CURATOR)
    page = boss.get(reverse("admin:auth_user_change", args=[me.pk])).content.decode()
    role, folded = page.index('name="groups"'), page.index("For experts: password and single permissions")
    assert role < folded < page.index('name="user_permissions"')
    assert User.objects.get(pk=me.pk).groups.get().name == CURATOR
