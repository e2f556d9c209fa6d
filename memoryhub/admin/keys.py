"""Screens of API keys: issued and shown once, revoked, never edited (SPEC W8)."""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.text import format_lazy
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelect2MultipleWidget

from memoryhub.admin.base import ActionAdmin, ActionForm, clock, excerpt, format_count, principal, render_page
from memoryhub.admin.columns import choice_filter, column, full_time, id_chip, label_displays
from memoryhub.admin.fields import within_calendar
from memoryhub.admin.labels import SCOPES
from memoryhub.admin.object_actions import (
    Confirmation,
    confirmation_page,
    count_sentences,
    selected_ids,
    submitted_reason,
)
from memoryhub.auth.actions import issue_key, revoke_key
from memoryhub.auth.expiring import expires_soon, expiring_keys
from memoryhub.auth.models import ApiKey
from memoryhub.auth.principals import KeyState, Scope
from memoryhub.auth.roles import grantable_scopes, has_account, may_trust
from memoryhub.llm.usage.spending import key_tokens_today
from memoryhub.tenancy.models import Agent
from memoryhub.unfold import in_brackets

SCOPE_LABELS: dict[Scope, Any] = {
    Scope.READ: _("read: search, read and assemble contexts"),
    Scope.WRITE: _("write: store messages and memories, chat, report use"),
    Scope.CURATE: _("curate: archive, merge, move and delete projects, and undo that"),
    Scope.ADMIN: _("admin: agents, prompts and policies, erasure, export, usage"),
}
STATE_LABELS: Final[dict[KeyState, Any]] = {
    KeyState.USABLE: _("usable"),
    KeyState.EXPIRED: _("expired"),
    KeyState.REVOKED: _("revoked"),
}

REVOKED_FOR_GOOD: Final = ngettext_lazy(
    "%(count)d key will be revoked permanently: every program that uses it is refused from then on.",
    "%(count)d keys will be revoked permanently: every program that uses one is refused from then on.",
    "count",
)
REVOKED_ALREADY: Final = ngettext_lazy(
    "%(count)d is revoked already and is left unchanged.",
    "%(count)d are revoked already and are left unchanged.",
    "count",
)
FEWER_SCOPES: Final = _("A scope that would allow more than your account may do here is not offered.")
NOT_TRUSTED: Final = _(
    "Your account may not approve memories, so what your keys write is pending until a curator approves it."
)


SETTINGS: Final = (
    "name", "is_personal", "scopes", "agent_ids", "user_id", "is_trusted", "daily_token_cap", "expires_at",
)  # fmt: skip
EXPIRY_CHOICES: Final = ((_("in 30 days"), 30), (_("in 90 days"), 90), (_("in 1 year"), 365))
SERVICE: Final = "service"
REFUSED: Final = "refused"


class KeyForm(ActionForm):
    """Settings of a new key."""

    scopes = forms.MultipleChoiceField(
        choices=[(scope.value, SCOPE_LABELS[scope]) for scope in Scope],
        initial=[Scope.READ.value, Scope.WRITE.value],
        widget=UnfoldAdminCheckboxSelectMultipleWidget(),
        label=_("Scopes"),
        help_text=_("No scope includes another: a key that writes and reads needs both."),
    )
    agent_ids = forms.ModelMultipleChoiceField(
        queryset=Agent.objects.all(),
        required=False,
        widget=UnfoldAdminSelect2MultipleWidget(),
        label=_("Agents"),
        help_text=_("The agents it may touch; none chosen: all."),
    )

    class Meta:
        model = ApiKey
        fields = SETTINGS

    unvalidated_fields = frozenset({"agent_ids", "scopes"})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "scopes" in self.fields:
            scopes, scopes_field = grantable_scopes(self.person), cast(Any, self.fields["scopes"])
            scopes_field.choices = [(scope.value, SCOPE_LABELS[scope]) for scope in scopes]
            # Not the model's default, which also writes: a key gets what a person has ticked.
            scopes_field.initial = [value for value in (Scope.READ.value,) if value in scopes]
            if len(scopes) < len(Scope):
                scopes_field.help_text = format_lazy("{} {}", scopes_field.help_text, FEWER_SCOPES)
        if "is_trusted" in self.fields and not may_trust(self.person):
            field = self.fields["is_trusted"]
            field.initial, field.help_text = False, NOT_TRUSTED
            field.widget.attrs["disabled"] = True

    def clean_expires_at(self) -> datetime | None:
        return within_calendar(self.cleaned_data["expires_at"])

    def clean_is_trusted(self) -> bool:
        """Refuse trust that the issuer could not grant by approving."""
        is_trusted: bool = self.cleaned_data["is_trusted"]
        if is_trusted and not may_trust(self.person):
            raise forms.ValidationError(NOT_TRUSTED)
        return is_trusted


def _in_state(rows: QuerySet[ApiKey], state: str) -> QuerySet[ApiKey]:
    usable = ApiKey.objects.usable(clock()).values("pk")
    rows_by_state = {
        "usable": rows.filter(pk__in=usable),
        "expiring": rows.filter(pk__in=expiring_keys(clock()).values("pk")),
        "closed": rows.exclude(pk__in=usable),
    }
    return rows_by_state.get(state, rows)


def _state_of(key: ApiKey) -> tuple[str, Any]:
    now = clock()
    state = key.state(now)
    if state is KeyState.USABLE and key.is_personal and not has_account(key.person):
        return REFUSED, _("refused: the account has no access")
    if state is KeyState.USABLE and expires_soon(key, now):
        return "expiring", _("expires soon")
    return state, STATE_LABELS[state]


StateFilter = choice_filter(
    _("state"),
    "state",
    lambda: [("usable", _("usable")), ("expiring", _("expires soon")), ("closed", _("revoked or expired"))],
    _in_state,
)


def _owners() -> Iterator[tuple[str, Any]]:
    yield SERVICE, _("service accounts")
    people = User.objects.filter(pk__in=ApiKey.objects.filter(is_personal=True).values("person"))
    yield from ((str(pk), name) for pk, name in people.order_by("username").values_list("pk", "username"))


def _of_owner(rows: QuerySet[ApiKey], owner: str) -> QuerySet[ApiKey]:
    if owner == SERVICE:
        return rows.filter(is_personal=False)
    return rows.filter(is_personal=True, person=int(owner)) if re.fullmatch("[0-9]{1,9}", owner) else rows


def owner_label(key: ApiKey) -> Any:
    """Return whether a key is personal, and its person; of another one who made it."""
    if key.is_personal:
        name = key.person.get_username() if key.person else gettext("a deleted account")
        return excerpt(name[:40] + in_brackets(gettext("personal")), 60)
    made_by = gettext("made by %(name)s") % {"name": key.person.get_username()} if key.person else ""
    return excerpt(gettext("service account") + (in_brackets(made_by) if made_by else ""), 60)


OwnerFilter = choice_filter(_("owner"), "owner", _owners, _of_owner)


@admin.register(ApiKey)
class KeyAdmin(ActionAdmin):
    """API keys. The secret is in the response to the form that issued it, and nowhere else."""

    empty_hint = _("Programs need a key. The + button above issues one.")
    form = KeyForm
    allows = frozenset({"add"})
    list_per_page = 30  # wide rows: a page stays under 400 KB
    list_display = (
        "name",
        "owner",
        "shown_prefix",
        "shown_scopes",
        "agents",
        "bound_to",
        "state",
        "shown_trust",
        "last_used_at",
        "expires_at",
    )
    list_filter = (StateFilter, OwnerFilter, "is_trusted")
    search_fields = ("name", "prefix")
    date_hierarchy = "created_at"
    actions = ("revoke",)
    fields = (
        "name",
        ("shown_prefix", "owner"),
        ("shown_scopes", "agents"),
        ("bound_to", "shown_trust"),
        ("shown_state", "expires_at"),
        ("daily_token_cap", "tokens_today"),
        ("created_at", "last_used_at", "revoked_at"),
    )
    add_fieldsets = ((None, {"fields": SETTINGS}),)
    change_form_after_template = "admin/memoryhub/apikey/expiry.html"
    change_form_outer_after_template = "admin/memoryhub/apikey/revoke.html"

    class Media:
        js = ("memoryhub/expiry.js",)

    shown_prefix = column(_("key"), lambda key: f"mh_{key.prefix}_…", ordering="prefix")
    tokens_today = column(_("tokens today"), lambda key: format_count(key_tokens_today(key.pk, now=clock())))
    owner = column(_("owner"), owner_label, ordering="person__username")
    shown_scopes = column(_("scopes"), lambda key: ", ".join(str(SCOPES.get(scope, scope)) for scope in key.scopes))

    @admin.display(description=_("trust"), ordering="is_trusted")
    def shown_trust(self, key: ApiKey) -> Any:
        """Return whether what the key writes is trusted; of a key that writes nothing there is nothing to say."""
        if not {Scope.WRITE, Scope.CURATE, Scope.ADMIN} & set(key.scopes):
            return _("writes nothing")
        return _("trusted") if key.is_trusted else _("untrusted")

    agents = column(_("agents"), lambda key: excerpt(", ".join(key.agent_ids)) if key.agent_ids else _("all"))
    bound_to = column(
        _("bound to the user"), lambda key: id_chip(key.user_id) if key.user_id else _("any user of its agents")
    )

    state, shown_state = label_displays(
        _state_of,
        {"usable": "success", "expiring": "warning", "expired": "warning", "revoked": "danger", REFUSED: "danger"},
        description=_("state"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return cast(QuerySet[ApiKey], super().get_queryset(request).select_related("person"))

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("memoryhub.change_apikey"))

    @admin.action(description=_("Revoke the selected keys"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        ids, reason = selected_ids(queryset), submitted_reason(request)
        usable = list(ApiKey.objects.filter(pk__in=ids, revoked_at=None))
        question = Confirmation(
            title=_("Revoke API keys"),
            sentences=[
                REVOKED_FOR_GOOD % {"count": len(usable)},
                *count_sentences((REVOKED_ALREADY, len(ids) - len(usable))),
                *([_("This cannot be undone; anyone who still needs access needs another key.")] if usable else []),
            ],
            examples=[format_html("<bdi>{}</bdi>: {}", str(key), last_use(key)) for key in usable],
            button=_("Revoke permanently"),
            can_proceed=bool(usable),
            is_danger=True,
            needs_reason=True,
        )
        if page := confirmation_page(self, request, question, action="revoke", keys=ids):
            return page
        revoked = 0
        for key in ApiKey.objects.filter(pk__in=ids):
            if revoke_key(key=key, reason=reason, by=principal(request), now=clock()):
                revoked += 1
                self.log_change(request, key, "revoke")
        text = ngettext("%(count)d key was revoked.", "%(count)d keys were revoked.", revoked) % {"count": revoked}
        self.message_user(request, text, messages.SUCCESS if revoked else messages.WARNING)
        return None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and bool(grantable_scopes(request.user))

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> ApiKey:
        """Issue the key; its secret stays on the form's row until the response is written."""
        values = form.cleaned_data
        key, new = issue_key(
            name=values["name"],
            scopes=[Scope(scope) for scope in values["scopes"]],
            agent_ids=[agent.pk for agent in values["agent_ids"]],
            user_id=values["user_id"],
            is_trusted=values["is_trusted"],
            expires_at=values["expires_at"],
            daily_token_cap=values["daily_token_cap"],
            person=cast(User, request.user),
            is_personal=values["is_personal"],
            by=principal(request),
            now=clock(),
        )
        row.issued_text = new.text
        return key

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        response = render_page(
            request,
            "admin/memoryhub/apikey/issued.html",
            title=_("The new key"),
            opts=self.opts,
            original=obj,
            key_text=obj.issued_text,
            scopes=[SCOPES.get(scope, scope) for scope in obj.scopes],
            snippets=snippets(request, obj.issued_text, agent_ids=obj.agent_ids, user_id=obj.user_id),
        )
        response["Cache-Control"] = "no-store"
        return response

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        today = timezone.localdate(clock())
        choices = [(title, today + timedelta(days=days)) for title, days in EXPIRY_CHOICES]
        context.update(show_save_and_continue=False, show_save_and_add_another=False, expiry_choices=choices)
        return super().render_change_form(request, context, *args, **kwargs)

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        may = row.revoked_at is None and self.has_revoke_permission(request)
        return {"may_revoke": may, "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME}


def last_use(key: ApiKey) -> str:
    if key.last_used_at is None:
        return gettext("never used")
    return gettext("last used %(time)s") % {"time": full_time(key.last_used_at)}


SNIPPETS: Final = (
    ("curl", _("Shell (curl)")),
    ("urllib", _("Python (standard library)")),
    ("requests", _("Python (requests)")),
    ("fetch", _("JavaScript (fetch)")),
)


def snippets(
    request: HttpRequest, key: str, *, agent_ids: Sequence[str] | None, user_id: str | None
) -> list[dict[str, Any]]:
    """Return code samples that request a context from this server, at the address the person uses."""
    body = {
        "agent_id": (agent_ids or ["my-agent"])[0],
        **({"user_id": user_id} if user_id else {}),
        "message": "What do you remember?",
    }
    # For a shell command: ASCII only, without quotes. Agent ids are slugs, but a user's id may be any text.
    text = json.dumps(body).replace("'", "\\u0027")
    values = {"address": request.build_absolute_uri(reverse("context")), "key": key, "body": text}
    folder = "admin/memoryhub/apikey/snippets"
    return [
        {"name": name, "title": title, "text": render_to_string(f"{folder}/{name}.txt", values).rstrip("\n")}
        for name, title in SNIPPETS
    ]
