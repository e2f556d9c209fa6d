"""The second factor: set up, asked for, lost; and a lock for who guesses codes."""

import re
from io import StringIO
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from memoryhub.auth.config import SignInConfig
from memoryhub.auth.models import AuditEntry, FailedLogin
from memoryhub.auth.principals import command
from memoryhub.auth.second_factor import codes_left, has_second_factor, set_up
from tests.integration.admin.conftest import NOW

pytestmark = pytest.mark.django_db
PASSWORD = "a long password"
SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
OWN = "own_sign_in"


def code(secret: str = SECRET, *, step: int = 1) -> str:
    """Return what an app shows: now, or a step before (0) or after (2)."""
    return format_hotp_value(hotp_value(secret, list(yield_hotp_counters_from_time())[step]))


@pytest.fixture
def kei(db: None) -> User:
    cache.clear()  # where codes that were used are remembered
    return User.objects.create_superuser("kei", password=PASSWORD)


@pytest.fixture
def guarded(kei: User) -> list[str]:
    """Give kei a second factor; return the recovery codes."""
    codes = set_up(kei, secret=SECRET, code=code(), session_key=None, by=command("test"), now=NOW)
    assert len(codes) == 10
    return codes


def by_password(browser: Client, **values: str) -> Any:
    form = {"username": "kei", "password": PASSWORD, **values}
    return browser.post(reverse("admin:login"), form)


def step(browser: Client, value: str) -> Any:
    return browser.post(reverse("second_step"), {"code": value})


def is_in(browser: Client) -> bool:
    return bool(browser.get(reverse("admin:memoryhub_apikey_changelist")).status_code == 200)


def test_the_password_alone_does_not_let_in(guarded: list[str]) -> None:
    browser = Client()
    answer = by_password(browser, next="/admin/review/")
    assert answer["Location"] == reverse("second_step") and not is_in(browser)
    assert "code that your app shows" in browser.get(reverse("second_step")).content.decode()
    wrong = step(browser, "000000")
    assert wrong.status_code == 200 and "is wrong" in wrong.content.decode() and not is_in(browser)
    assert step(browser, code())["Location"] == "/admin/review/" and is_in(browser)


def test_a_code_counts_once(guarded: list[str]) -> None:
    first, second = Client(), Client()
    by_password(first)
    by_password(second)
    value = code()
    assert step(first, value).status_code == 302
    assert step(second, value).status_code == 200 and not is_in(second)


def test_a_recovery_code_opens_once(guarded: list[str], kei: User) -> None:
    for expected in (302, 200):
        browser = Client()
        by_password(browser)
        assert step(browser, guarded[3]).status_code == expected
    assert codes_left(kei) == 9


def test_without_a_password_before_there_is_no_second_step(guarded: list[str]) -> None:
    browser = Client()
    for answer in (browser.get(reverse("second_step")), step(browser, code())):
        assert answer["Location"] == reverse("admin:login")
    assert not is_in(browser)


def test_wrong_codes_lock_as_wrong_passwords_do(guarded: list[str]) -> None:
    browser = Client()
    by_password(browser)
    assert [step(browser, "000000").status_code for _ in range(6)] == [200] * 4 + [429] * 2
    assert step(browser, code()).status_code == 429, "locked, even for the right one"
    assert by_password(Client()).status_code == 429
    assert FailedLogin.objects.get().failures_since_start == 5
    assert AuditEntry.objects.filter(verb="lock").count() == 1
    call_command("unlock", "kei", stdout=StringIO())
    assert step(browser, code()).status_code == 302


def test_passwords_and_codes_count_together(guarded: list[str]) -> None:
    browser = Client()
    for _ in range(3):
        by_password(Client(), password="wrong")
    by_password(browser)
    assert [step(browser, "000000").status_code for _ in range(2)] == [200, 429]


def secret_on(page: Any) -> str:
    found = re.search(r"<code[^>]*>(\w+)</code>", page.content.decode())
    assert found is not None
    return found[1]


def test_a_person_sets_one_up_and_other_sessions_end(kei: User) -> None:
    browser, other = Client(), Client()
    by_password(browser)
    by_password(other)
    page = browser.get(reverse(OWN))
    assert "<svg" in page.content.decode() and "fill=" in page.content.decode()
    secret = secret_on(page)
    for values, said in (
        ({"code": code(secret), "password": "wrong"}, "not your password"),
        ({"code": "000000", "password": PASSWORD}, "is wrong"),
        ({"code": "", "password": PASSWORD}, "required"),
    ):
        assert said in browser.post(reverse(OWN), {"what": "on", **values}).content.decode()
        assert not has_second_factor(kei)
    done = browser.post(reverse(OWN), {"what": "on", "code": code(secret), "password": PASSWORD})
    assert len(re.findall(r"(?:^|>)(\d{8})$", done.content.decode(), re.MULTILINE)) == 10
    assert "no-store" in done["Cache-Control"] and has_second_factor(kei)
    assert is_in(browser) and not is_in(other)
    assert secret not in str(Authenticator.objects.values_list("data", flat=True)), "kept encrypted"
    entry = AuditEntry.objects.filter(verb="update").latest("id")
    assert entry.details == {"fields": ["Second factor"], "on": True} and entry.who_name == "kei"


def test_codes_are_renewed_and_all_is_turned_off_by_a_code_alone(guarded: list[str], kei: User) -> None:
    browser = Client()
    by_password(browser)
    step(browser, guarded[0])
    assert "9 recovery codes are left" in browser.get(reverse(OWN)).content.decode()
    for what in ("renew", "off"):
        refused = browser.post(reverse(OWN), {"what": what, "code": "000000"})
        assert "is wrong" in refused.content.decode()
    call_command("unlock", "kei", stdout=StringIO())
    renewed = browser.post(reverse(OWN), {"what": "renew", "code": guarded[1]}).content.decode()
    assert guarded[2] not in renewed and codes_left(kei) == 10
    cache.clear()
    assert browser.post(reverse(OWN), {"what": "off", "code": code()}).status_code == 302
    assert not Authenticator.objects.exists() and by_password(Client())["Location"] == reverse("admin:index")


def test_where_one_is_required_it_is_set_up_before_anything_is_seen(kei: User, settings: Any) -> None:
    early = Client()
    by_password(early)
    assert is_in(early)
    settings.SIGN_IN = SignInConfig(needs_second_factor=True)
    assert not is_in(early), "who was in before"
    browser = Client()
    assert by_password(browser)["Location"] == reverse("second_step")
    page = browser.get(reverse("second_step"))
    assert "requires a second factor" in page.content.decode() and not is_in(browser)
    assert step(browser, "000000").status_code == 200 and not is_in(browser)
    done = step(browser, code(secret_on(page)))
    assert "recovery codes" in done.content.decode().lower() and is_in(browser)
    assert by_password(early)["Location"] == reverse("second_step"), "over the session of before"
    cache.clear()
    assert step(early, code(secret_on(page))).status_code == 302 and is_in(early)


def test_a_login_over_the_session_of_another_keeps_what_was_proved(guarded: list[str], settings: Any) -> None:
    settings.SIGN_IN = SignInConfig(needs_second_factor=True)
    browser = Client()
    browser.force_login(User.objects.create_user("ann", is_staff=True))
    by_password(browser)
    assert step(browser, guarded[0]).status_code == 302 and is_in(browser)


def test_an_administrator_and_the_server_s_operator_turn_it_off_for_who_lost_the_phone(
    guarded: list[str], kei: User
) -> None:
    ann = User.objects.create_user("ann", password=PASSWORD, is_staff=True)
    ann.groups.add(Group.objects.get(name="administrator"))
    rin = User.objects.create_user("rin", password=PASSWORD, is_staff=True)
    set_up(rin, secret=SECRET, code=code(step=2), session_key=None, by=command("test"), now=NOW)
    browser = Client()
    browser.force_login(ann)
    form = {"action": "turn_off_second_factor", "_selected_action": [kei.pk, rin.pk]}
    asked = browser.post(reverse("admin:auth_user_changelist"), form).content.decode()
    assert "rin" in asked and has_second_factor(rin)
    browser.post(reverse("admin:auth_user_changelist"), {**form, "confirmed": "yes", "reason": "phone lost"})
    assert not has_second_factor(rin)
    assert has_second_factor(kei), "a superuser's is beyond an administrator"
    assert AuditEntry.objects.filter(verb="update", reason="phone lost").count() == 1
    for words in ("It is off.", "no second factor"):
        call_command("reset_second_factor", "kei", stdout=(said := StringIO()))
        assert words in said.getvalue()
    with pytest.raises(CommandError):
        call_command("reset_second_factor", "nobody")


def test_a_changed_secret_key_opens_nothing(guarded: list[str], settings: Any) -> None:
    browser = Client()
    settings.SECRET_KEY = "another one, " * 5
    by_password(browser)
    for value in (code(), guarded[0]):
        assert step(browser, value).status_code == 200 and not is_in(browser)
