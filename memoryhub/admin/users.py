"""Screens of user accounts, groups and invitations; nobody grants rights they lack.

Accounts and groups are saved by Django itself; each change is written to the audit trail in the same transaction.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, cast

from django import forms
from django.apps import apps
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import BooleanRadioFilter, RelatedDropdownFilter
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminRadioSelectWidget, UnfoldAdminSelectWidget

from memoryhub.admin.base import (
    ActionAdmin,
    ActionForm,
    HubAdmin,
    clock,
    excerpt,
    principal,
    render_page,
    title_with_time,
)
from memoryhub.admin.columns import column
from memoryhub.admin.fields import LinesField
from memoryhub.admin.object_actions import (
    Confirmation,
    confirmation_page,
    selected_ids,
    submitted_reason,
    submitted_text,
)
from memoryhub.api.middleware import TIME_ZONE_COOKIE, browser_zone
from memoryhub.auth import audit
from memoryhub.auth.accounts import invite
from memoryhub.auth.agent_limits import Unprepared, check_prepared, set_limit
from memoryhub.auth.leaving import close_access
from memoryhub.auth.login import end_sessions, unlock
from memoryhub.auth.models import AgentLimit, FailedLogin, Invitation, agents_of
from memoryhub.auth.roles import (
    ADMINISTRATOR,
    CURATOR,
    ROLES,
    grantable_groups,
    may_change_group,
    may_manage,
    permissions_of,
)
from memoryhub.auth.second_factor import turn_off
from memoryhub.unfold import Page
from memoryhub.zones import is_zone, known_zones

admin.site.unregister(User)
admin.site.unregister(Group)

MAX_LIMIT: Final = 1_000
NO_ROLE = ""
ROLE_LABELS: Mapping[str, Any] = {
    CURATOR: _("Curator: everything about memories, summaries and projects; reads sessions, agents and actors"),
    ADMINISTRATOR: _("Administrator: also keys, people, jobs, ledger, audit trail and policies"),
    NO_ROLE: _("None yet: cannot log in here without groups or permissions"),
}


ROLE_NAMES: Mapping[str, Any] = {CURATOR: _("curator"), ADMINISTRATOR: _("administrator")}


def _shown_limit(agent_ids: frozenset[str] | None) -> Any:
    if agent_ids is None:
        return _("all")
    return excerpt(", ".join(sorted(agent_ids))) if agent_ids else _("none")


class AuditedAdmin(HubAdmin):
    """Screens of Django's own tables; log entries are also written to the audit trail, in the same transaction."""

    @transaction.atomic
    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self._audit(request, "create", obj)
        return super().log_addition(request, obj, message)

    @transaction.atomic
    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        parts = message if isinstance(message, list) else []
        fields = {str(name) for part in parts for name in part.get("changed", {}).get("fields", [])}
        self._audit(request, "update", obj, fields=sorted(fields))
        return super().log_change(request, obj, message)

    @transaction.atomic
    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        for row in queryset:
            self._audit(request, "delete", row)
        return super().log_deletions(request, queryset)

    @transaction.atomic
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return super().changelist_view(request, extra_context)

    def _audit(self, request: HttpRequest, verb: str, row: Any, **details: Any) -> None:
        audit.record(by=principal(request), verb=verb, row=row, details=details, now=clock())


class NewPersonForm(UserCreationForm):
    """A new account in one step: the role puts it into its group, and lets it log in here."""

    role = forms.ChoiceField(required=False, initial=CURATOR, widget=UnfoldAdminRadioSelectWidget(), label=_("Role"))
    roles: Iterable[str] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(name, ROLE_LABELS[name]) for name in (*self.roles, NO_ROLE)]
        self.fields["role"].choices = choices
        self.fields["role"].widget.choices = choices

    def save(self, commit: bool = True) -> User:
        self.instance.is_staff = bool(self.cleaned_data.get("role"))
        person: User = super().save(commit)
        return person


class PersonForm(UserChangeForm):
    """An account, and the agents that it is limited to."""

    agents = LinesField(
        max_lines=MAX_LIMIT,
        max_line_length=255,
        label=_("Agents"),
        help_text=_(
            "Ids of the agents to which the person is limited, one per line; empty: all. Administrators have all."
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        limit = AgentLimit.objects.filter(person=self.instance.pk).first()
        if "agents" in self.fields and limit is not None:
            self.initial["agents"] = limit.agent_ids
            provider = settings.SIGN_IN.provider
            if limit.source == AgentLimit.Source.PROVIDER and provider is not None and provider.agents:
                self.fields["agents"].disabled = True
                self.fields["agents"].help_text = _("The groups at the sign-in provider decide.")

    def clean_agents(self) -> list[str]:
        agents: list[str] = self.cleaned_data["agents"]
        if agents:
            try:
                check_prepared()
            except Unprepared as error:
                raise forms.ValidationError(str(error)) from error
        return agents


@admin.register(User)
class PeopleAdmin(DjangoUserAdmin, AuditedAdmin):  # type: ignore[misc]
    """User accounts. Non-superusers change only accounts with no more rights than their own."""

    form = PersonForm
    add_form = NewPersonForm
    add_form_template = "admin/change_form.html"
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "shown_name", "shown_groups", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter = (
        ("is_staff", BooleanRadioFilter),
        ("is_superuser", BooleanRadioFilter),
        ("is_active", BooleanRadioFilter),
        ("groups", RelatedDropdownFilter),
    )
    readonly_fields = ("last_login", "date_joined")
    actions = ("turn_off_second_factor",)
    fieldsets = (
        (None, {"fields": ("username", "groups", "agents", ("is_active", "is_staff"))}),
        (_("Personal info"), {"fields": (("first_name", "last_name"), "email")}),
        (_("Dates"), {"fields": (("last_login", "date_joined"),)}),
        (
            _("For experts: password and single permissions"),
            {"classes": ["collapse"], "fields": ("password", "is_superuser", "user_permissions")},
        ),
    )
    add_fieldsets = (
        (None, {"fields": ("username", "role", "usable_password", "password1", "password2")}),
        (_("Personal info"), {"fields": (("first_name", "last_name"), "email")}),
    )

    shown_name = column(
        _("name"),
        lambda person: excerpt(person.get_full_name(), 60) if person.get_full_name() else "-",
        ordering="last_name",
    )
    agents = column(_("agents"), lambda person: _shown_limit(agents_of(person)))
    shown_groups = column(_("groups"), lambda person: ", ".join(group.name for group in person.groups.all()) or "-")

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        rows: QuerySet[User] = super().get_queryset(request).prefetch_related("groups")
        return rows

    # Prevents privilege escalation: own permissions, and accounts with more permissions, cannot be changed.

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        may = bool(super().has_change_permission(request, obj))
        return may and (obj is None or may_manage(request.user, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        may = bool(super().has_delete_permission(request, obj))
        return may and (obj is None or (obj.pk != request.user.pk and may_manage(request.user, obj)))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        readonly = tuple(super().get_readonly_fields(request, obj))
        return readonly if cast(Any, request.user).is_superuser else (*readonly, "is_superuser")

    def formfield_for_manytomany(self, db_field: Any, request: Any = None, **kwargs: Any) -> Any:
        if db_field.name == "groups":
            kwargs["queryset"] = grantable_groups(request.user)
        if db_field.name == "user_permissions":
            kwargs["queryset"] = permissions_of(request.user).select_related("content_type")
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        if obj is None:
            grantable = set(grantable_groups(request.user).values_list("name", flat=True))
            form.roles = [role for role in ROLES if role in grantable]
        return form

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if change and "agents" in form.changed_data:
            agent_ids = frozenset(form.cleaned_data["agents"]) or None
            set_limit(obj, agent_ids, source=AgentLimit.Source.GRANTED, by=principal(request), now=clock())
        if change and "is_active" in form.changed_data and not obj.is_active:
            self._close_access(request, obj)

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        self._close_access(request, obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        for person in queryset:
            self._close_access(request, person)
        super().delete_queryset(request, queryset)

    def _close_access(self, request: HttpRequest, person: User) -> None:
        close_access(person, reason="The account was closed.", by=principal(request), now=clock())

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        person = form.instance
        if role := form.cleaned_data.get("role"):
            person.groups.add(Group.objects.get(name=role))
        if not person.is_staff and (person.is_superuser or person.groups.exists()):
            text = gettext("This account has groups, but may not log in here: check “Staff status”.")
            messages.warning(request, text)

    @admin.action(description=_("Turn off the second factor…"), permissions=["change"])
    def turn_off_second_factor(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        """Turn off the second factor of accounts with no more rights than one's own."""
        ids, reason = selected_ids(queryset), submitted_reason(request)
        people = [person for person in User.objects.filter(pk__in=ids) if may_manage(request.user, person)]
        question = Confirmation(
            title=_("Turn off the second factor"),
            sentences=[_("From then on these accounts can log in by password alone. Ask the person first.")],
            examples=[format_html("<bdi>{}</bdi>", person.get_username()) for person in people],
            button=_("Turn off"),
            can_proceed=bool(people),
            is_danger=True,
            needs_reason=True,
        )
        if page := confirmation_page(self, request, question, action="turn_off_second_factor", keys=ids):
            return page
        off = sum(turn_off(person, by=principal(request), reason=reason, now=clock()) for person in people)
        text = ngettext("It is off for %(count)d account.", "It is off for %(count)d accounts.", off)
        self.message_user(request, text % {"count": off}, messages.SUCCESS if off else messages.WARNING)
        return None

    @transaction.atomic
    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:
        return super().user_change_password(request, id, form_url)


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, AuditedAdmin):  # type: ignore[misc]
    """Groups with their permissions. Groups of roles are managed by the server and read-only."""

    list_display = ("name", "is_role")
    change_form_outer_before_template = "admin/memoryhub/includes/role.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        rows: QuerySet[Group] = super().get_queryset(request)
        return rows.prefetch_related("permissions__content_type")

    @admin.display(description=_("role of the server"), boolean=True)
    def is_role(self, group: Group) -> bool:
        return group.name in ROLES

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        may = bool(super().has_change_permission(request, obj))
        return may and (obj is None or may_change_group(request.user, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        may = bool(super().has_delete_permission(request, obj))
        return may and (obj is None or may_change_group(request.user, obj))

    def formfield_for_manytomany(self, db_field: Any, request: Any = None, **kwargs: Any) -> Any:
        if db_field.name == "permissions":
            kwargs["queryset"] = permissions_of(request.user)
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        group = kwargs.get("obj")
        context["is_role"] = group is not None and group.name in ROLES
        return super().render_change_form(request, context, *args, **kwargs)


@admin.register(FailedLogin)
class FailedLoginAdmin(HubAdmin):
    """Wrong passwords of the last minutes; deleting them unlocks the account and the address."""

    allows = frozenset({"delete"})
    list_display = ("account", "address", "failures", "last_at")
    search_fields = ("username", "ip_address")
    search_help_text = _("The name of an account, or an address.")
    fields = ("account", "address", "failures", "last_at")

    def title_of(self, row: FailedLogin) -> str:
        return title_with_time(_("Failed login"), row.attempt_time)

    account = column(_("account"), lambda row: excerpt(row.username, 60), ordering="username")
    address = column(_("address"), lambda row: row.ip_address or "-", ordering="ip_address")
    failures = column(_("wrong passwords"), lambda row: int(row.failures_since_start), ordering="failures_since_start")
    last_at = column(_("last at"), lambda row: cast(datetime, row.attempt_time), ordering="attempt_time")

    def delete_model(self, request: HttpRequest, obj: FailedLogin) -> None:
        unlock(username=obj.username or "", address=obj.ip_address or "", by=principal(request), now=clock())

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[FailedLogin]) -> None:
        for row in queryset:
            self.delete_model(request, row)


def own_password(request: HttpRequest) -> HttpResponse:
    with transaction.atomic():
        response: HttpResponse = admin.site.password_change(request)
        if request.method == "POST" and response.status_code == 302:
            details = {"fields": ["Password"]}
            audit.record(
                by=principal(request), verb="update", row=cast(User, request.user), details=details, now=clock()
            )
    return response


def own_sessions(request: HttpRequest) -> HttpResponse:
    """Sign this person out everywhere but here."""
    if request.method != "POST":
        return render_page(request, "admin/memoryhub/own_sessions.html", title=_("Sign out everywhere else"))
    person, now = cast(User, request.user), clock()
    with transaction.atomic():
        ended = end_sessions(person, except_key=request.session.session_key, now=now)
        details = {"fields": ["Sessions"], "ended": ended}
        audit.record(by=principal(request), verb="update", row=person, details=details, now=now)
    text = ngettext("%(count)d other session was ended.", "%(count)d other sessions were ended.", ended) % {
        "count": ended
    }
    messages.success(request, text if ended else gettext("You have no other sessions."))
    return HttpResponseRedirect(reverse("own_sessions"))


COOKIE_SECONDS = 365 * 86_400


def own_time_zone(request: HttpRequest) -> HttpResponse:
    """Choose the time zone of pages; it is stored in a cookie, like the language."""
    if request.method != "POST":
        chosen = request.COOKIES.get(TIME_ZONE_COOKIE, "")
        return render_page(
            request,
            "admin/memoryhub/time_zone.html",
            title=_("Time zone"),
            zones=sorted(known_zones()),
            chosen=chosen if is_zone(chosen) else "",
            browser=browser_zone(request),
            now=clock(),
        )
    zone, response = submitted_text(request, "time_zone"), HttpResponseRedirect(reverse("time_zone"))
    if not is_zone(zone):
        response.delete_cookie(TIME_ZONE_COOKIE)
        return response
    response.set_cookie(
        TIME_ZONE_COOKIE,
        zone,
        max_age=COOKIE_SECONDS,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )
    return response


PAGES = [
    Page("password_change/", "own_password", own_password, needs=()),
    Page("sessions/", "own_sessions", own_sessions, needs=()),
    Page("time-zone/", "time_zone", own_time_zone, needs=()),
]


VALIDITY_CHOICES = ((1, _("a day")), (7, _("a week")), (30, _("a month")))


def unregister_allauth() -> None:
    """Unregister django-allauth's own screens, which show and change identities and secrets."""
    for label in ("account", "socialaccount", "mfa"):
        admin.site.unregister(filter(admin.site.is_registered, apps.get_app_config(label).get_models()))


class InvitationForm(ActionForm):
    """Settings of a new invitation."""

    role = forms.ChoiceField(widget=UnfoldAdminRadioSelectWidget(), label=_("Role"))
    valid_for = forms.TypedChoiceField(
        choices=VALIDITY_CHOICES, coerce=int, initial=7, widget=UnfoldAdminSelectWidget(), label=_("Valid for")
    )
    unvalidated_fields = frozenset({"role"})

    class Meta:
        model = Invitation
        fields = ("email", "role")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "role" in self.fields:
            grantable = set(grantable_groups(self.person).values_list("name", flat=True))
            choices = [(name, ROLE_LABELS[name]) for name in ROLES if name in grantable]
            cast(Any, self.fields["role"]).choices = choices
            self.fields["role"].initial = CURATOR


def _state_of(row: Invitation) -> tuple[str, Any]:
    if row.used_at is not None:
        return "used", _("used")
    return ("expired", _("expired")) if row.expires_at <= clock() else ("open", pgettext_lazy("invitation", "open"))


@admin.register(Invitation)
class InvitationAdmin(ActionAdmin):
    """Invitations. The link is in the response to the form that made it, and nowhere else."""

    empty_hint = _("An invitation lets a person create an account. The + button above makes one.")
    form = InvitationForm
    allows = frozenset({"add", "delete"})
    list_display = ("shown_email", "shown_role", "state", "inviter", "created_at", "expires_at")
    search_fields = ("email",)
    fields = ("email", "shown_role", "state", "inviter", ("created_at", "expires_at", "used_at"))
    add_fieldsets = ((None, {"fields": ("email", "role", "valid_for")}),)

    shown_email = column(_("e-mail address"), lambda row: excerpt(row.email, 60), ordering="email")
    shown_role = column(_("role"), lambda row: ROLE_NAMES.get(row.role, row.role), ordering="role")
    inviter = column(_("invited by"), lambda row: excerpt(row.invited_by.get_username(), 60) if row.invited_by else "-")

    state = column(_("state"), _state_of, colours={"open": "info", "used": "success", "expired": "warning"})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Invitation]:
        return cast(QuerySet[Invitation], super().get_queryset(request).select_related("invited_by"))

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Invitation:
        """Make the invitation; its token stays on the form's row until the response is written."""
        values = form.cleaned_data
        invitation, row.token = invite(
            email=values["email"],
            role=values["role"],
            valid_for=timedelta(days=values["valid_for"]),
            inviter=cast(User, request.user),
            by=principal(request),
            now=clock(),
        )
        return invitation

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        link = request.build_absolute_uri(reverse("invitation", args=[obj.token]))
        response = render_page(
            request,
            "admin/memoryhub/sign_in/invited.html",
            title=_("The invitation"),
            opts=self.opts,
            original=obj,
            link=link,
        )
        response["Cache-Control"] = "no-store"
        return response

    @transaction.atomic
    def delete_model(self, request: HttpRequest, obj: Invitation) -> None:
        audit.record(by=principal(request), verb="delete", row=obj, now=clock())
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Invitation]) -> None:
        for row in queryset:
            self.delete_model(request, row)
