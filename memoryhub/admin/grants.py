"""Connected clients: the page on which a person lets an OAuth client act for them, and the list of those let in."""

from datetime import datetime
from typing import Any, Final, cast
from urllib.parse import urlsplit

from csp.constants import SELF
from csp.decorators import csp_update
from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext, ngettext_lazy
from django.views.decorators.cache import never_cache
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelectWidget, UnfoldBooleanWidget

from memoryhub.admin.base import HubAdmin, clock, excerpt, link_to, principal, render_page
from memoryhub.admin.columns import column, full_time, id_chip, label_displays, relative_time
from memoryhub.admin.keys import NOT_TRUSTED, STATE_LABELS, last_use
from memoryhub.admin.labels import SCOPES
from memoryhub.admin.object_actions import (
    Confirmation,
    confirmation_page,
    count_sentences,
    selected_ids,
    submitted_reason,
    submitted_text,
)
from memoryhub.admin.user_choice import UserField, check_user
from memoryhub.auth import grants
from memoryhub.auth.consent import REQUEST, ConsentRequest, read_consent_request
from memoryhub.auth.models import OAuthClient, OAuthGrant
from memoryhub.auth.principals import KeyState, Scope
from memoryhub.auth.roles import grantable_scopes, has_account, may_trust
from memoryhub.errors import DomainError
from memoryhub.tenancy.models import Agent
from memoryhub.unfold import Page

SCOPE_LABELS: Final[dict[Scope, Any]] = {
    Scope.READ: _("read: search memories and projects, and assemble contexts"),
    Scope.WRITE: _("write: remember, correct and forget memories, edit project files"),
}
REFUSED: Final = "refused"
CLOSED_FOR_GOOD: Final = ngettext_lazy(
    "%(count)d client is disconnected permanently: it is refused from then on.",
    "%(count)d clients are disconnected permanently: they are refused from then on.",
    "count",
)
CLOSED_ALREADY: Final = ngettext_lazy(
    "%(count)d is disconnected already and is left unchanged.",
    "%(count)d are disconnected already and are left unchanged.",
    "count",
)


class ConsentForm(forms.Form):
    """Choices of a person about a client: at most what it asked for and the person may do."""

    agent_id = forms.ModelChoiceField(
        queryset=Agent.objects.order_by("agent_id"), label=_("Agent"), widget=UnfoldAdminSelectWidget
    )
    user_id = UserField(help_text=_("The only user whose memories it may touch. Empty: every user of the agent."))
    scopes = forms.MultipleChoiceField(label=_("Scopes"), widget=UnfoldAdminCheckboxSelectMultipleWidget())
    is_trusted = forms.BooleanField(
        label=_("Trusted"),
        required=False,
        widget=UnfoldBooleanWidget,
        help_text=_("Otherwise what it writes is pending until a curator approves it."),
    )

    def __init__(self, *args: Any, person: Any, asked: ConsentRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offered = [scope for scope in grantable_scopes(person) if scope in grants.SCOPES and scope in asked.scopes]
        scopes = cast(Any, self.fields["scopes"])
        scopes.choices = [(scope.value, SCOPE_LABELS[scope]) for scope in offered]
        scopes.initial = [scope.value for scope in offered]
        agents = list(Agent.objects.values_list("pk", flat=True)[:2])
        self.fields["agent_id"].initial = agents[0] if len(agents) == 1 else None
        if not may_trust(person):
            self.fields["is_trusted"].disabled, self.fields["is_trusted"].help_text = True, NOT_TRUSTED

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if values.get("agent_id"):
            check_user(self, values["agent_id"].pk)
        return values


@never_cache
def consent(request: HttpRequest) -> HttpResponse:
    """Ask the person whether a client may act for them, and send the answer to the client's address."""
    asked = read_consent_request(submitted_text(request, REQUEST))
    found = grants.registered_client(asked.client_id) if asked is not None else None
    if asked is None or found is None:
        page = render_page(request, "admin/memoryhub/oauthgrant/expired.html", title=_("Connect a client"))
        page.status_code = 400 if REQUEST in request.GET else 200
        return page
    client, _secret = found
    # Chrome applies form-action to where the answer to a form redirects, too.
    allowing = csp_update({"form-action": [SELF, _origin(asked)]})
    return cast(HttpResponse, allowing(lambda request: _answer(request, asked, client))(request))


def _origin(asked: ConsentRequest) -> str:
    """Return the part of the address that a Content-Security-Policy compares: an origin, or an app's scheme."""
    parts = urlsplit(asked.redirect_uri)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else f"{parts.scheme}:"


def _answer(request: HttpRequest, asked: ConsentRequest, client: OAuthClient) -> HttpResponse:
    if request.method == "POST" and "deny" in request.POST:
        return _to_client(asked, error="access_denied")
    form = ConsentForm(request.POST or None, person=request.user, asked=asked)
    if form.is_valid():
        try:
            return _to_client(asked, code=_grant(request, asked, client, form.cleaned_data))
        except DomainError as error:
            form.add_error(None, str(error))
    return render_page(
        request,
        "admin/memoryhub/oauthgrant/consent.html",
        title=_("Connect a client"),
        form=form,
        client=client,
        host=urlsplit(asked.redirect_uri).netloc or asked.redirect_uri,
        redirect_uri=asked.redirect_uri,
    )


def _grant(request: HttpRequest, asked: ConsentRequest, client: OAuthClient, values: dict[str, Any]) -> str:
    return grants.grant_access(
        client=client,
        person=request.user,
        agent_id=values["agent_id"].pk,
        user_id=values["user_id"],
        scopes=[Scope(scope) for scope in values["scopes"]],
        is_trusted=values["is_trusted"],
        redirect_uri=asked.redirect_uri,
        code_challenge=asked.code_challenge,
        by=principal(request),
        now=clock(),
    )


def _to_client(asked: ConsentRequest, **values: str) -> HttpResponse:
    """Return the redirect; Django's own refuses the schemes of apps, which were checked at registration."""
    address = asked.answer_address(**values)
    return HttpResponse(status=302, headers={"Location": address, "Referrer-Policy": "no-referrer"})


def _state(row: OAuthGrant) -> tuple[str, Any]:
    state = row.key.state(clock())
    if state is KeyState.USABLE and not has_account(row.person):
        return REFUSED, _("refused: the account has no access")
    return state, STATE_LABELS[state]


def _moment(moment: datetime | None, *, relative: bool = False) -> str:
    if moment is None:
        return "-"
    return relative_time(moment, clock()) if relative else full_time(moment)


@admin.register(OAuthGrant)
class GrantAdmin(HubAdmin):
    """Clients that people let in. Those who may see all API keys see all, others their own."""

    empty_hint = _("Claude, ChatGPT and other hosted clients that people connect are listed here.")
    allows = frozenset()
    list_display = (
        "shown_client", "hosts", "agent", "bound_to", "shown_scopes", "person_name", "state", "last_used", "created_at",
    )  # fmt: skip
    search_fields = ("client__name",)
    date_hierarchy = "created_at"
    actions = ("revoke",)
    fields = (
        ("shown_client", "hosts"),
        ("agent", "bound_to"),
        ("shown_scopes", "shown_trust"),
        ("person_name", "shown_state"),
        ("created_at", "used_at", "expires"),
        "key_link",
    )
    change_form_outer_after_template = "admin/memoryhub/oauthgrant/revoke.html"

    shown_client = column(_("client"), lambda row: excerpt(row.client.name, 60), ordering="client__name")
    hosts = column(_("sends you back to"), lambda row: excerpt(", ".join(row.client.hosts), 60))
    agent = column(_("agent"), lambda row: excerpt(", ".join(row.key.agent_ids or ()), 60))
    bound_to = column(
        _("user"), lambda row: id_chip(row.key.user_id) if row.key.user_id else _("any user of its agents")
    )
    shown_scopes = column(_("scopes"), lambda row: ", ".join(str(SCOPES[scope]) for scope in row.key.scopes))
    shown_trust = column(_("trust"), lambda row: _("trusted") if row.key.is_trusted else _("untrusted"))
    person_name = column(_("connected by"), lambda row: excerpt(row.person.get_username(), 60) if row.person else "-")
    last_used = column(
        _("last used at"), lambda row: _moment(row.key.last_used_at, relative=True), ordering="key__last_used_at"
    )
    used_at = column(_("last used at"), lambda row: _moment(row.key.last_used_at))
    expires = column(_("expires at"), lambda row: _moment(row.key.expires_at))
    key_link = column(_("API key"), lambda row: link_to("admin:memoryhub_apikey_change", row.key_id, row.key))
    state, shown_state = label_displays(
        _state,
        {"usable": "success", "expired": "warning", "revoked": "danger", REFUSED: "danger"},
        description=_("state"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[OAuthGrant]:
        rows: QuerySet[OAuthGrant] = super().get_queryset(request).select_related("client", "key", "person")
        return rows if request.user.has_perm("memoryhub.view_apikey") else rows.filter(person=request.user.pk)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("memoryhub.change_oauthgrant"))

    @admin.action(description=_("Disconnect the selected clients"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[OAuthGrant]) -> HttpResponse | None:
        ids, reason = selected_ids(queryset), submitted_reason(request)
        rows = self.get_queryset(request).filter(pk__in=ids)
        usable = list(rows.filter(key__revoked_at=None))
        question = Confirmation(
            title=_("Disconnect clients"),
            sentences=[
                CLOSED_FOR_GOOD % {"count": len(usable)},
                *count_sentences((CLOSED_ALREADY, len(ids) - len(usable))),
                *([_("To use one again, connect it again.")] if usable else []),
            ],
            examples=[format_html("<bdi>{}</bdi>: {}", str(row.client), last_use(row.key)) for row in usable],
            button=_("Disconnect"),
            can_proceed=bool(usable),
            is_danger=True,
            needs_reason=True,
        )
        if page := confirmation_page(self, request, question, action="revoke", keys=ids):
            return page
        revoked = 0
        for row in usable:
            if grants.revoke_grant(row, reason=reason, by=principal(request), now=clock()):
                revoked += 1
                self.log_change(request, row, "revoke")
        text = ngettext("%(count)d client was disconnected.", "%(count)d clients were disconnected.", revoked)
        self.message_user(request, text % {"count": revoked}, messages.SUCCESS if revoked else messages.WARNING)
        return None

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        may = row.key.revoked_at is None and self.has_revoke_permission(request)
        return {"may_revoke": may, "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME}


PAGES: Final = [Page("connect/", "oauth_consent", consent, needs=(grants.GRANT_PERMISSION,))]
