"""Login page, OpenID Connect sign-in, second factor and invitations, and the page of one's own sign-in settings.

Every session begins in `memoryhub.auth.login.log_in`.
"""

import logging
from base64 import b32encode
from secrets import token_bytes
from typing import Any, Final, cast

from allauth.account.stages import LoginStageController
from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth import REDIRECT_FIELD_NAME, authenticate, logout
from django.contrib.auth.forms import BaseUserCreationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.safestring import mark_safe
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from memoryhub.admin.base import clock, principal, render_page
from memoryhub.admin.object_actions import submitted_text
from memoryhub.admin.users import ROLE_LABELS
from memoryhub.auth import accounts, second_factor
from memoryhub.auth.login import METHODS_KEY, AccountAdapter, log_in
from memoryhub.auth.principals import curator
from memoryhub.unfold import Page

log = logging.getLogger(__name__)

SECRET_BYTES: Final = 20
"""As RFC 4226 recommends."""

SECRET: Final = "second_factor_secret"  # noqa: S105  the session's key of it
CONNECT, INVITED = "connect", "invited"


def has_permission(request: HttpRequest) -> bool:
    """Return whether a user may enter the admin: Django's rule, and a required second factor."""
    person = cast(Any, request.user)
    return person.is_active and person.is_staff and not second_factor.lacks_second_factor(request)


class PasswordLogin(LoginView):
    def form_valid(self, form: Any) -> HttpResponse:
        return log_in(self.request, form.get_user(), method="password", next_url=self.get_success_url())


@never_cache
def login(request: HttpRequest) -> HttpResponse:
    """Render Django's admin login page; logins continue with the second factor, if required."""
    if request.method == "GET" and has_permission(request):
        return HttpResponseRedirect(reverse("admin:index"))
    next_url = request.GET.get(REDIRECT_FIELD_NAME)
    context = {
        **admin.site.each_context(request),
        "title": _("Log in"),
        "subtitle": None,
        "app_path": request.get_full_path(),
        "username": cast(Any, request.user).get_username(),
        "provider": settings.SIGN_IN.provider,
        "oidc_page": reverse("oidc_begin", query={REDIRECT_FIELD_NAME: next_url} if next_url else None),
    }
    if REDIRECT_FIELD_NAME not in request.GET and REDIRECT_FIELD_NAME not in request.POST:
        context[REDIRECT_FIELD_NAME] = reverse("admin:index")
    view = PasswordLogin.as_view(
        template_name="admin/login.html", authentication_form=admin.site.login_form, extra_context=context
    )
    return cast(HttpResponse, view(request))


@never_cache
def oidc_begin(request: HttpRequest) -> HttpResponse:
    """Redirect to the provider. By GET: the CSP refuses forms that are redirected to another site."""
    if settings.SIGN_IN.provider is None or request.headers.get("Sec-Fetch-Site") == "cross-site":
        return HttpResponseRedirect(reverse("admin:login"))
    from memoryhub.auth import oidc

    next_url = request.GET.get(REDIRECT_FIELD_NAME, "")
    purpose = {INVITED: request.GET.get(INVITED, "")}
    if CONNECT in request.GET and has_permission(request):
        purpose[CONNECT] = str(cast(User, request.user).pk)
    try:
        return oidc.begin(request, next_url=next_url if AccountAdapter().is_safe_url(next_url) else "", purpose=purpose)
    except oidc.SignInFailed as error:
        return _failed(request, error)


@never_cache
def oidc_callback(request: HttpRequest) -> HttpResponse:
    """Handle the redirect back from the provider."""
    provider = settings.SIGN_IN.provider
    if provider is None:
        return HttpResponseRedirect(reverse("admin:login"))
    from memoryhub.auth import oidc

    try:
        identity, state = oidc.finish(request)
    except oidc.SignInFailed as error:
        return _failed(request, error)
    purpose = state["data"]
    if purpose.get(CONNECT):
        return _connect(request, identity, account_id=purpose[CONNECT])
    if cast(Any, request.user).is_authenticated:
        logout(request)
    try:
        person = accounts.sign_in(
            identity, roles=provider.roles, agents=provider.agents, invitation=purpose.get(INVITED, ""), now=clock()
        )
    except accounts.InvitationClosed:
        return _closed(request)
    if person is None:
        log.warning("sign-in by %s: nobody gave access", provider.issuer)
        return _page(request, "no_access.html", status=403, title=_("No access"), email=identity.email)
    return log_in(request, person, method="oidc", next_url=state.get("next") or reverse("admin:index"))


def _connect(request: HttpRequest, identity: Any, *, account_id: str) -> HttpResponse:
    """Connect the account that began the flow, if it is still logged in."""
    person = cast(User, request.user)
    if str(person.pk) == account_id and has_permission(request):
        try:
            accounts.connect(person, identity, by=principal(request), now=clock())
            messages.success(request, gettext("Your account is connected."))
        except accounts.IdentityTaken as error:
            messages.error(request, str(error))
    return HttpResponseRedirect(reverse("own_sign_in"))


def _failed(request: HttpRequest, error: Exception) -> HttpResponse:
    log.warning("the sign-in by the provider failed: %s", error)
    return _page(request, "failed.html", status=400, title=_("The sign-in failed"))


class CodeForm(forms.Form):
    code = forms.CharField(
        max_length=20,
        label=_("Code"),
        widget=UnfoldAdminTextInputWidget(
            attrs={"autocomplete": "one-time-code", "inputmode": "numeric", "autofocus": "", "spellcheck": "false"}
        ),
    )


@never_cache
def second_step(request: HttpRequest) -> HttpResponse:
    """Ask for a code after the password, or set up a required second factor."""
    step = LoginStageController.enter(request, second_factor.SecondFactorStage.key)
    if step is None:
        return HttpResponseRedirect(reverse("admin:login"))
    person, form = step.login.user, CodeForm(request.POST or None)
    has_one = second_factor.has_second_factor(person)
    if form.is_valid():
        if has_one and second_factor.verify_code(request, person, form.cleaned_data["code"]):
            return second_factor.finish_step(request, step)
        codes = [] if has_one else _set_up(request, person, form.cleaned_data["code"])
        if codes:
            response = second_factor.finish_step(request, step)
            return _codes_page(request, codes, continue_url=response["Location"])
        form.add_error("code", _("This code is wrong, or was used already."))
    setup = {} if has_one else secret_of(request, person)
    title = _("Enter a code") if has_one else _("Set up a second factor")
    return _page(request, "second_step.html", title=title, form=form, has_one=has_one, **setup)


def _set_up(request: HttpRequest, person: User, code: str) -> list[str]:
    codes = second_factor.set_up(
        person,
        secret=request.session.get(SECRET, ""),
        code=code,
        session_key=request.session.session_key,
        by=curator(person.pk, person.get_username()),
        now=clock(),
    )
    if codes:
        request.session.pop(SECRET, None)
    return codes


def secret_of(request: HttpRequest, person: User) -> dict[str, Any]:
    """Return the TOTP secret as text and as a QR code; it is kept in the session until it is confirmed."""
    secret = request.session.get(SECRET) or b32encode(token_bytes(SECRET_BYTES)).decode()
    request.session[SECRET] = secret
    adapter = second_factor.MFAAdapter()
    picture = adapter.build_totp_svg(adapter.build_totp_url(person, secret))
    picture = picture.removeprefix("<?xml version='1.0' encoding='UTF-8'?>\n")
    return {"secret": secret, "picture": mark_safe(picture)}  # noqa: S308  drawn here, of squares alone


def own_sign_in(request: HttpRequest) -> HttpResponse:
    """Show and change how the person signs in: the second factor, recovery codes, the provider."""
    person, form = cast(User, request.user), CodeForm(request.POST or None)
    has_one = second_factor.has_second_factor(person)
    if request.method == "POST":
        response = _change(request, person, form, has_one=has_one)
        if response is not None:
            return response
    form.fields["code"].widget.attrs.pop("autofocus", None)
    setup = {} if has_one else secret_of(request, person)
    return render_page(
        request, "admin/memoryhub/sign_in/own.html", title=_("Sign-in"), form=form, has_one=has_one,
        codes_left=second_factor.codes_left(person), provider=settings.SIGN_IN.provider,
        is_required=settings.SIGN_IN.needs_second_factor, is_connected=accounts.is_connected(person),
        asks_password=person.has_usable_password(), **setup,
    )  # fmt: skip


def _change(request: HttpRequest, person: User, form: CodeForm, *, has_one: bool) -> HttpResponse | None:
    """Apply the submitted change; None where the form has errors."""
    change = submitted_text(request, "what")
    if change == "disconnect":
        accounts.disconnect(person, by=principal(request), now=clock())
        return HttpResponseRedirect(reverse("own_sign_in"))
    if not form.is_valid():
        return None
    code = form.cleaned_data["code"]
    if not has_one:
        # A stranger at an unattended browser must not be able to lock the owner out.
        password = request.POST.get("password", "")
        if person.has_usable_password() and not authenticate(
            request, username=person.get_username(), password=password
        ):
            form.add_error(None, _("This is not your password."))
            return None
        codes = _set_up(request, person, code)
        if codes:
            request.session[METHODS_KEY] = sorted({*request.session.get(METHODS_KEY, ()), "mfa"})
            return _codes_page(request, codes, continue_url=reverse("own_sign_in"))
    elif second_factor.verify_code(request, person, code):
        if change == "renew":
            codes = second_factor.renew_codes(person, by=principal(request), now=clock())
            return _codes_page(request, codes, continue_url=reverse("own_sign_in"))
        second_factor.turn_off(person, by=principal(request), now=clock())
        messages.success(request, gettext("The second factor is off."))
        return HttpResponseRedirect(reverse("own_sign_in"))
    form.add_error("code", _("This code is wrong, or was used already."))
    return None


def _codes_page(request: HttpRequest, codes: list[str], *, continue_url: str) -> HttpResponse:
    return _page(request, "codes.html", title=_("Your recovery codes"), codes=codes, continue_url=continue_url)


class NewAccountForm(BaseUserCreationForm):
    """An invited person's name and password."""

    class Meta(BaseUserCreationForm.Meta):
        fields = ("username",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].widget = UnfoldAdminTextInputWidget(attrs={"autocomplete": "username"})
        for name in ("password1", "password2"):
            self.fields[name].widget = UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"})


@never_cache
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Let an invited person choose a name and a password, or sign in by the provider."""
    try:
        row = accounts.open_invitation(token, now=clock())
        form = NewAccountForm(request.POST or None, initial={"username": row.email.split("@")[0]})
        if form.is_valid():
            person = accounts.accept_by_password(
                token, username=form.cleaned_data["username"], password=form.cleaned_data["password1"], now=clock()
            )
            if cast(Any, request.user).is_authenticated:
                logout(request)
            return log_in(request, person, method="password", next_url=reverse("admin:index"))
    except accounts.InvitationClosed:
        return _closed(request)
    return _page(
        request,
        "invitation.html",
        title=_("You are invited"),
        form=form,
        email=row.email,
        token=token,
        role_words=ROLE_LABELS.get(row.role, row.role),
        provider=settings.SIGN_IN.provider,
    )


def _closed(request: HttpRequest) -> HttpResponse:
    return _page(request, "closed.html", status=410, title=_("This invitation is closed"))


def _page(request: HttpRequest, template: str, *, title: Any, status: int = 200, **context: Any) -> HttpResponse:
    """Render a page that needs no login; browsers must not store it."""
    values = {**admin.site.each_context(request), "title": title, **context}
    response = TemplateResponse(request, f"admin/memoryhub/sign_in/{template}", values, status=status)
    response["Cache-Control"] = "no-store"
    return response


URLS = [
    path("login/", login, name="login_page"),
    path("login/oidc/", oidc_begin, name="oidc_begin"),
    path("login/oidc/callback/", oidc_callback, name="oidc_callback"),
    path("login/second-step/", second_step, name="second_step"),
    path("invitation/<str:token>/", invitation, name="invitation"),
]
"""For people who are not logged in."""

PAGES = [Page("sign-in/", "own_sign_in", own_sign_in, needs=())]
