"""Screens of invitations: made and shown once, withdrawn by deleting them, never edited."""

from datetime import timedelta
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminRadioSelectWidget, UnfoldAdminSelectWidget

from memoryhub.admin.base import ActionAdmin, ActionForm, clock, excerpt, principal, render_page
from memoryhub.admin.columns import column
from memoryhub.admin.users import ROLE_WORDS
from memoryhub.auth import audit
from memoryhub.auth.accounts import invite
from memoryhub.auth.models import Invitation
from memoryhub.auth.roles import CURATOR, ROLES, groups_to_give

LASTS = ((1, _("a day")), (7, _("a week")), (30, _("a month")))


def hide_tables_of_allauth() -> None:
    """Take django-allauth's own screens out of the admin: they show identities and secrets, and change them."""
    for model in list(admin.site._registry):
        if model._meta.app_label in ("account", "socialaccount", "mfa"):
            admin.site.unregister(model)


class InvitationForm(ActionForm):
    """Whom it is for, as what, and for how long."""

    role = forms.ChoiceField(widget=UnfoldAdminRadioSelectWidget(), label=_("Role"))
    lasts = forms.TypedChoiceField(
        choices=LASTS, coerce=int, initial=7, widget=UnfoldAdminSelectWidget(), label=_("Valid for")
    )
    not_checked_as_stored = frozenset({"role"})
    inviter: Any = AnonymousUser()

    class Meta:
        model = Invitation
        fields = ("email", "role")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "role" in self.fields:
            given = set(groups_to_give(self.inviter).values_list("name", flat=True))
            choices = [(name, ROLE_WORDS[name]) for name in ROLES if name in given]
            cast(Any, self.fields["role"]).choices = choices
            self.fields["role"].initial = CURATOR


def _state_of(row: Invitation) -> tuple[str, Any]:
    if row.used_at is not None:
        return "used", _("used")
    return ("expired", _("expired")) if row.expires_at <= clock() else ("open", _("open"))


@admin.register(Invitation)
class InvitationAdmin(ActionAdmin):
    """Invitations. The link is in the response to the form that made it, and nowhere else."""

    form = InvitationForm
    allows = frozenset({"add", "delete"})
    list_display = ("shown_email", "role", "state", "inviter", "created_at", "expires_at")
    search_fields = ("email",)
    fields = ("email", "role", "state", "inviter", ("created_at", "expires_at", "used_at"))
    add_fieldsets = ((None, {"fields": ("email", "role", "lasts")}),)

    shown_email = column(_("e-mail address"), lambda row: excerpt(row.email, 60), ordering="email")
    inviter = column(
        _("invited by"), lambda row: excerpt(row.invited_by.get_username(), 60) if row.invited_by else "-"
    )

    state = column(_("state"), _state_of, colours={"open": "info", "used": "success", "expired": "warning"})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Invitation]:
        return cast(QuerySet[Invitation], super().get_queryset(request).select_related("invited_by"))

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.inviter = request.user
        return form

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Invitation:
        """Make the invitation; its token stays on the form's row until the response is written."""
        values = form.cleaned_data
        new = invite(
            email=values["email"], role=values["role"], lasts=timedelta(days=values["lasts"]),
            inviter=cast(User, request.user), by=principal(request), now=clock(),
        )  # fmt: skip
        row.token = new.token
        return new.row

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        link = request.build_absolute_uri(reverse("invitation", args=[obj.token]))
        answer = render_page(
            request, "admin/memoryhub/sign_in/invited.html", title=_("The invitation"), opts=self.opts, original=obj,
            link=link,
        )  # fmt: skip
        answer["Cache-Control"] = "no-store"
        return answer

    @transaction.atomic
    def delete_model(self, request: HttpRequest, obj: Invitation) -> None:
        audit.record(by=principal(request), verb="delete", row=obj, now=clock())
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Invitation]) -> None:
        for row in queryset:
            self.delete_model(request, row)
