"""Login stages (django-allauth) and lockout after wrong passwords (django-axes).

Added here: the lockout page, audit entries, and serialized logins, since parallel guesses would all be tried before the
first is counted. Wrong codes of a second factor count as wrong passwords. The only stage is the second factor.
"""

import fcntl
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Final

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.authentication import get_authentication_records
from allauth.account.internal.flows.login import record_authentication
from allauth.account.utils import perform_login
from axes.handlers.database import AxesDatabaseHandler
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth import login as begin_session
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from memoryhub.auth import audit
from memoryhub.auth.models import FailedLogin
from memoryhub.auth.principals import Principal, command
from memoryhub.db.pool import release_connection
from memoryhub.env import private_folder

LOGIN: Final = command("login")
"""Principal of audit entries before anybody is logged in."""

_LOGIN_LOCK: Final = Lock()
LOCK_FILE: Final = "login.lock"
"""File in the folder that the web processes share."""

CREDENTIAL_PAGES: Final = ("admin:login", "second_step", "own_sign_in")
"""Pages that take a password or a code."""

BACKEND: Final = "django.contrib.auth.backends.ModelBackend"
"""Backend stored in every session, whichever way it began."""

METHODS_KEY: Final = "signed_in_by"
"""Session key of the methods by which the user signed in."""


class AccountAdapter(DefaultAccountAdapter):
    """Adapt allauth's logins: without messages and mail, and without redirects to other sites."""

    def get_login_stages(self) -> list[str]:
        return ["memoryhub.auth.second_factor.SecondFactorStage"]

    def login(self, request: HttpRequest, user: Any) -> None:
        methods = proven_methods(request, user)  # read before `begin_session`, which flushes another user's session
        begin_session(request, user, backend=BACKEND)
        request.session[METHODS_KEY] = sorted(methods)

    def is_safe_url(self, url: str | None) -> bool:
        host = self.request.get_host()
        return url_has_allowed_host_and_scheme(url, {host}, require_https=self.request.is_secure())

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        pass

    def send_mail(self, *args: Any, **kwargs: Any) -> None:
        pass

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False


def log_in(request: HttpRequest, person: User, *, method: str, next_url: str | None) -> HttpResponse:
    """Log in an authenticated user, or redirect to the second factor first."""
    record_authentication(request, person, method)
    answer: HttpResponse = perform_login(request, person, redirect_url=next_url)
    return answer


def proven_methods(request: HttpRequest, person: Any) -> set[str]:
    """Return the methods passed in this login: "password" or "oidc", and "mfa" for the second factor."""
    return {record["method"] for record in get_authentication_records(request, person)}


def end_sessions(person: User, *, except_key: str | None = None, now: datetime) -> int:
    """End a user's sessions except that of `except_key`; return their number."""
    session_keys = [
        session.pk
        for session in Session.objects.filter(expire_date__gt=now).exclude(pk=except_key).iterator()
        if session.get_decoded().get(SESSION_KEY) == str(person.pk)
    ]
    return int(Session.objects.filter(pk__in=session_keys).delete()[0])


class LoginAttempts(AxesDatabaseHandler):
    """Counts failures in the database, and writes each lock to the audit trail, once."""

    def user_login_failed(self, sender: Any, credentials: dict[str, Any], request: Any = None, **kwargs: Any) -> None:
        was_locked = request is None or request.axes_locked_out
        super().user_login_failed(sender, credentials, request, **kwargs)
        if was_locked or not request.axes_locked_out:
            return
        # The submitted name is not stored, as it may be a password; accounts are named by their primary keys.
        account = User.objects.filter(username=credentials.get("username")).values_list("pk", flat=True)
        audit.record_each(
            by=LOGIN,
            verb="lock",
            object_kind="person",
            object_ids=[account.first() or ""],
            details={"address": request.axes_ip_address, "failures": request.axes_failures_since_start},
            now=datetime.now(UTC),
        )

    def reset_user_attempts(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        """Delete this account's failures from this address; others from there may be guesses of the same attacker."""
        name = (credentials or {}).get("username")
        rows = FailedLogin.objects.filter(username=name, ip_address=request.axes_ip_address)
        return int(rows.delete()[0])


def locked_page(request: HttpRequest, response: HttpResponse, credentials: Any) -> HttpResponse:
    """Render the lockout page, which does not reveal whether the account exists."""
    minutes = round(settings.AXES_COOLOFF_TIME.total_seconds() / 60)
    page = render_to_string("429.html", {"minutes": minutes, "csp_nonce": request.csp_nonce})  # type: ignore[attr-defined]
    return HttpResponse(page, status=429, headers={"Retry-After": str(60 * minutes), "Cache-Control": "no-store"})


def serialize_logins(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Django middleware: serialize attempts, so that each is counted before the next is tried."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.method != "POST" or request.path not in map(reverse, CREDENTIAL_PAGES):
            return get_response(request)
        environment = settings.ENVIRONMENT
        folder = environment.shared_folder if environment.is_web else None
        with ExitStack() as stack:
            with release_connection():
                stack.enter_context(_LOGIN_LOCK)  # of all threads, and of all processes of the web server
                if folder is not None:
                    # Private: whoever may open it could hold up every login.
                    path = private_folder(folder) / LOCK_FILE
                    lock = stack.enter_context(os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w"))
                    fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
            return get_response(request)

    return middleware


@transaction.atomic
def unlock(*, username: str, address: str, by: Principal, now: datetime) -> int:
    """Delete failed logins of an account, an address, or, without either, all; return the number of rows."""
    conditions: Mapping[str, str] = {"username": username, "ip_address": address}
    rows = FailedLogin.objects.filter(**{name: value for name, value in conditions.items() if value})
    deleted = int(rows.delete()[0])
    if deleted:
        account = User.objects.filter(username=username).values_list("pk", flat=True) if username else None
        details = {"address": address} if address else {}
        audit.record_each(
            by=by,
            verb="unlock",
            object_kind="person",
            object_ids=[(account and account.first()) or ""],
            details=details,
            now=now,
        )
    return deleted
