"""Passwords cannot be guessed: account and address are locked after five wrong ones, and let in again by a way out."""

import fcntl
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse

from memoryhub.auth.login import LOCK_FILE, serialize_logins
from memoryhub.auth.models import AuditEntry, FailedLogin
from tests.integration.admin.conftest import list_of, logged_in

pytestmark = pytest.mark.django_db
RIGHT = "the right password"
ELSEWHERE = "198.51.100.7"


@pytest.fixture
def kei(db: None) -> User:
    return User.objects.create_user("kei", password=RIGHT, is_staff=True)


def attempt(password: str, *, name: str = "kei", address: str = "203.0.113.5", **headers: Any) -> Any:
    """Send the login form from an address; 302 lets in."""
    form = {"username": name, "password": password, "next": "/admin/"}
    return Client().post(reverse("admin:login"), form, REMOTE_ADDR=address, **headers)


def guesses(number: int, **values: Any) -> list[int]:
    return [attempt(f"wrong {place}", **values).status_code for place in range(number)]


def test_a_hundred_guesses_try_five(kei: User) -> None:
    assert guesses(100) == [200] * 4 + [429] * 96
    refused = attempt(RIGHT)
    assert (refused.status_code, refused["Retry-After"]) == (429, "900")
    text = refused.content.decode()
    assert "15 minutes" in text and not re.search(r"\bkei\b", text)  # letters of the nonce may spell it
    assert FailedLogin.objects.get().failures_since_start == 5


def test_an_account_is_locked_from_everywhere_and_an_address_for_all_accounts(kei: User) -> None:
    User.objects.create_user("ann", password=RIGHT, is_staff=True)
    guesses(5)
    assert attempt(RIGHT, address=ELSEWHERE).status_code == 429
    assert attempt(RIGHT, name="ann").status_code == 429
    assert attempt(RIGHT, name="ann", address=ELSEWHERE).status_code == 302


def test_accounts_tried_in_turn_and_headers_that_anybody_can_send_do_not_help(kei: User) -> None:
    tried = [
        attempt("wrong", name=f"name{place}", HTTP_X_FORWARDED_FOR=f"192.0.2.{place}", HTTP_USER_AGENT=str(place))
        for place in range(10)
    ]
    assert [answer.status_code for answer in tried] == [200] * 4 + [429] * 6


def test_somebody_who_logs_in_clears_only_the_own_failures(kei: User) -> None:
    """An insider who may log in must not guess at others' passwords between the own logins."""
    User.objects.create_user("ann", password=RIGHT, is_staff=True)
    guesses(3)
    guesses(1, name="ann")
    assert attempt(RIGHT, name="ann").status_code == 302
    assert [row.username for row in FailedLogin.objects.all()] == ["kei"]
    assert guesses(2) == [200, 429]


def test_a_right_password_in_time_forgets_the_wrong_ones(kei: User) -> None:
    for _ in range(3):
        assert guesses(4) == [200] * 4
        assert attempt(RIGHT).status_code == 302


def test_the_lock_ends_by_itself_and_guessing_on_does_not_prolong_it(kei: User) -> None:
    guesses(5)
    FailedLogin.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=10))
    guesses(3)
    FailedLogin.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=6))
    assert attempt(RIGHT).status_code == 302


def test_each_lock_is_in_the_audit_trail_once_without_what_was_typed(kei: User) -> None:
    guesses(20)
    guesses(20, name="hunter2", address=ELSEWHERE)
    entries = AuditEntry.objects.filter(verb="lock").order_by("at", "id")
    assert [(each.object_kind, each.object_id, each.who_name) for each in entries] == [
        ("person", str(kei.pk), "login"),
        ("person", "", "login"),
    ]
    assert [each.details for each in entries] == [
        {"address": "203.0.113.5", "failures": 5},
        {"address": ELSEWHERE, "failures": 5},
    ]


@pytest.mark.parametrize("arguments", [["kei"], ["--address", "203.0.113.5"], ["--all"]])
def test_unlock_lets_the_locked_out_in_again(kei: User, arguments: list[str]) -> None:
    guesses(6)
    said = StringIO()
    call_command("unlock", *arguments, stdout=said)
    assert said.getvalue() == "Unlocked.\n"
    assert attempt(RIGHT).status_code == 302
    assert AuditEntry.objects.get(verb="unlock").who_name == "unlock"
    call_command("unlock", *arguments, stdout=(again := StringIO()))
    assert again.getvalue() == "Nothing was locked.\n"


@pytest.mark.parametrize("arguments", [[], ["kei", "--all"]])
def test_unlock_wants_to_know_whom(db: None, arguments: list[str]) -> None:
    with pytest.raises(CommandError, match="Name an account"):
        call_command("unlock", *arguments)


def test_unlock_refuses_an_address_that_is_none(db: None) -> None:
    with pytest.raises(CommandError, match="'kei' is no IP address"):
        call_command("unlock", "--address", "kei")


def test_an_administrator_unlocks_in_the_admin(boss: Client, kei: User) -> None:
    guesses(6)
    row = FailedLogin.objects.get()
    listed = boss.get(list_of(FailedLogin)).content.decode()
    assert "kei" in listed and "203.0.113.5" in listed
    assert boss.post(reverse("admin:memoryhub_failedlogin_delete", args=[row.pk]), {"post": "yes"}).status_code == 302
    assert attempt(RIGHT).status_code == 302
    entry = AuditEntry.objects.get(verb="unlock")
    assert (entry.who_name, entry.object_id) == ("boss", str(kei.pk))
    guesses(5)
    action = {"action": "delete_selected", "_selected_action": [FailedLogin.objects.get().pk], "post": "yes"}
    assert boss.post(list_of(FailedLogin), action).status_code == 302
    assert attempt(RIGHT).status_code == 302


def test_curators_neither_see_nor_unlock_failed_logins(kei: User) -> None:
    guesses(5)
    kei.user_permissions.set(Permission.objects.filter(codename__contains="memory"))
    browser = logged_in(kei)
    assert browser.get(list_of(FailedLogin)).status_code == 403


@pytest.mark.django_db(transaction=True)
def test_guesses_at_the_same_time_are_counted_one_by_one() -> None:
    User.objects.create_user("kei", password=RIGHT, is_staff=True)

    def guess(place: int) -> int:
        try:
            return int(attempt(f"wrong {place}").status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(12) as threads:
        statuses = list(threads.map(guess, range(24)))
    assert sorted(statuses) == [200] * 4 + [429] * 20


def test_a_guess_waits_for_one_in_another_process(settings: Any, tmp_path: Path) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, data_dir=tmp_path, process="web", web_processes=2)
    middleware = serialize_logins(lambda request: HttpResponse("tried"))
    form, page = (RequestFactory().generic(method, reverse("admin:login")) for method in ("POST", "GET"))
    folder = tmp_path / "web"
    folder.mkdir()

    with ThreadPoolExecutor(1) as pool:
        with (folder / LOCK_FILE).open("w") as other_process:
            fcntl.flock(other_process, fcntl.LOCK_EX)
            assert middleware(page).content == b"tried"
            guess = pool.submit(middleware, form)
            with pytest.raises(TimeoutError):
                guess.result(timeout=0.3)
        assert guess.result(timeout=30).content == b"tried"
