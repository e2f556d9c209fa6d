"""The second factor: one-time codes of an app (TOTP), recovery codes, and the login stage that verifies one.

django-allauth stores and verifies them. A wrong code counts as a wrong password towards the same lockout.
"""

import logging
from datetime import datetime
from typing import Any, Final

from allauth.account.internal.flows.login import record_authentication
from allauth.account.stages import LoginStage
from allauth.mfa import app_settings
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, validate_totp_code
from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_login_failed
from django.core.cache import cache
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from memoryhub.auth import audit
from memoryhub.auth.login import METHODS_KEY, end_sessions, proven_methods
from memoryhub.auth.principals import Principal
from memoryhub.auth.sealed import cipher

log = logging.getLogger(__name__)

SECOND_FACTOR: Final = "Second factor"
RECOVERY_CODES: Final = "Recovery codes"
"""Names of the changed fields in the audit trail."""


class MFAAdapter(DefaultMFAAdapter):
    """Encrypts TOTP secrets and recovery seeds in the database."""

    def get_totp_issuer(self) -> str:
        return "memoryhub"

    def get_totp_label(self, user: Any) -> str:
        return str(user.get_username())

    def encrypt(self, text: str) -> str:
        return str(self._cipher().encrypt(text.encode()).decode())

    def decrypt(self, encrypted_text: str) -> str:
        return str(self._cipher().decrypt(encrypted_text.encode()).decode())

    def _cipher(self) -> Any:
        return cipher("memoryhub.second_factor", "codes")


class OneTimeCodes(TOTP):
    """Remembers used codes for as long as they are valid; allauth forgets them earlier with a tolerance."""

    def _mark_code_used(self, code: str) -> bool:
        windows = 2 * app_settings.TOTP_TOLERANCE + 1
        return bool(cache.add(self._get_used_cache_key(code), "y", timeout=windows * app_settings.TOTP_PERIOD))


class SecondFactorStage(LoginStage):
    """Login stage after password or provider: verify a code, or set up a required second factor."""

    key = "second_factor"
    urlname = "second_step"

    def handle(self) -> tuple[HttpResponse | None, bool]:
        person = self.login.user
        is_required = has_second_factor(person) or needs_second_factor(proven_methods(self.request, person))
        return (HttpResponseRedirect(reverse(self.urlname)) if is_required else None), True


def finish_step(request: HttpRequest, step: Any) -> HttpResponse:
    record_authentication(request, step.login.user, "mfa")
    response: HttpResponse = step.exit()
    return response


def needs_second_factor(methods: set[str]) -> bool:
    """Return whether these methods require a second factor; providers are trusted to ask for their own."""
    return bool(settings.SIGN_IN.needs_second_factor) and not methods & {"oidc", "mfa"}


def lacks_second_factor(request: HttpRequest) -> bool:
    return needs_second_factor(set(request.session.get(METHODS_KEY, ())))


def has_second_factor(person: Any) -> bool:
    return bool(_authenticators(person, Authenticator.Type.TOTP).exists())


def codes_left(person: Any) -> int:
    row = _authenticators(person, Authenticator.Type.RECOVERY_CODES).first()
    return 0 if row is None else len(RecoveryCodes(row).get_unused_codes())


def verify_code(request: HttpRequest, person: User, code: str) -> bool:
    """Verify a code, which must be unused. Wrong ones count towards the lockout, as passwords do."""
    credentials = {"username": person.get_username()}
    if not AxesProxyHandler.is_allowed(request, credentials):
        request.axes_locked_out = True  # type: ignore[attr-defined]  # the middleware answers with the lock's page
        return False
    if _validate_code(person, code):
        return True
    user_login_failed.send(sender=__name__, credentials=credentials, request=request)
    return False


@transaction.atomic
def set_up(person: User, *, secret: str, code: str, session_key: str | None, by: Principal, now: datetime) -> list[str]:
    """Turn the second factor on and return the recovery codes; an empty list if the code is wrong or one is on already.

    Ends the user's other sessions, which were begun without it.
    """
    User.objects.select_for_update().get(pk=person.pk)
    if has_second_factor(person) or not validate_totp_code(secret, code):
        return []
    TOTP.activate(person, secret)
    end_sessions(person, except_key=session_key, now=now)
    return _new_codes(person, by=by, changed=SECOND_FACTOR, now=now)


@transaction.atomic
def renew_codes(person: User, *, by: Principal, now: datetime) -> list[str]:
    return _new_codes(person, by=by, changed=RECOVERY_CODES, now=now)


@transaction.atomic
def turn_off(person: User, *, by: Principal, reason: str = "", now: datetime) -> bool:
    """Delete a user's second factor and recovery codes; return whether there were any."""
    deleted = Authenticator.objects.filter(user=person).delete()[0]
    if deleted:
        audit.record(
            by=by, verb="update", row=person, reason=reason, details={"fields": [SECOND_FACTOR], "on": False}, now=now
        )
    return bool(deleted)


def _new_codes(person: User, *, by: Principal, changed: str, now: datetime) -> list[str]:
    _authenticators(person, Authenticator.Type.RECOVERY_CODES).delete()
    codes: list[str] = RecoveryCodes.activate(person).get_unused_codes()
    audit.record(by=by, verb="update", row=person, details={"fields": [changed], "on": True}, now=now)
    return codes


def _validate_code(person: User, code: str) -> bool:
    """Try a code as the app's, else as a recovery code; each counts once."""
    from cryptography.fernet import InvalidToken

    try:
        for row in Authenticator.objects.filter(user=person):
            kind = OneTimeCodes if row.type == Authenticator.Type.TOTP else RecoveryCodes
            if kind(row).validate_code(code):
                row.record_usage()
                return True
    except InvalidToken:
        log.warning("the second factor of account %s was made with another SECRET_KEY", person.pk)
    return False


def _authenticators(person: Any, kind: str) -> Any:
    return Authenticator.objects.filter(user_id=person.pk, type=kind)
