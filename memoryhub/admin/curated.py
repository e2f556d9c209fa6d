"""Base of the screens of curated rows: versioned forms with a reason, undo of a saved form, deletion by actions."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django import forms
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelect2Widget, UnfoldAdminTextInputWidget

from memoryhub.admin.base import ActionAdmin, ActionForm, OwnedMixin
from memoryhub.admin.fields import ReasonField
from memoryhub.admin.object_actions import change_url, report_done
from memoryhub.tenancy.domain import MAX_USER_ID
from memoryhub.tenancy.models import Agent


class VersionedForm(ActionForm):
    """A form whose row has a version, and whose change has a reason."""

    expected_version = forms.IntegerField(required=False, widget=forms.HiddenInput())
    reason = ReasonField()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["expected_version"] = self.instance.version


class OwnerForm(forms.Form):
    """Agent and user that a new row belongs to."""

    agent = forms.ModelChoiceField(
        queryset=Agent.objects.all(), widget=UnfoldAdminSelect2Widget(), label=_("Agent"), empty_label=""
    )
    user_id = forms.CharField(
        required=False, max_length=MAX_USER_ID, widget=UnfoldAdminTextInputWidget(), label=_("User")
    )


class CuratedAdmin(OwnedMixin, ActionAdmin):
    """Screens whose saved form can be undone; `editing_fields` are hidden from those who may only look."""

    editing_fields: frozenset[str] = frozenset({"reason"})

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return fieldsets
        return without_fields(fieldsets, self.editing_fields)

    def offer_undo(self, request: HttpRequest, text: Any, undo: str) -> None:
        request.done = (text, undo)  # type: ignore[attr-defined]

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        done = getattr(request, "done", None)
        if done is None:
            return cast(HttpResponse, super().response_change(request, obj))
        report_done(request, done[0], undo=done[1])
        if "_continue" in request.POST:
            # The way back leads to the list as it was narrowed.
            kept = {"preserved_filters": self.get_preserved_filters(request), "opts": self.opts}
            return HttpResponseRedirect(add_preserved_filters(kept, change_url(obj)))
        if "_addanother" in request.POST:
            return HttpResponseRedirect(reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_add"))
        return cast(HttpResponse, self.response_post_save_change(request, obj))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        # One by one, so that each leaves its audit entry.
        for row in queryset.select_related("actor__agent"):
            self.delete_model(request, row)

    def deleted_along(self, rows: Sequence[Any]) -> Mapping[Any, int]:
        return {}

    def get_deleted_objects(self, objs: Sequence[Any], request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        rows = list(objs)
        needed = set() if self.has_delete_permission(request) else {self.opts.verbose_name}
        along = {what: number for what, number in self.deleted_along(rows).items() if number}
        shown: list[Any] = [getattr(row, "name", str(row)) for row in rows]
        if along:
            text = _("%(what)s: %(number)d")
            shown.append([text % {"what": what, "number": number} for what, number in along.items()])
        return shown, {self.opts.verbose_name_plural: len(rows), **along}, needed, []


def without_fields(fieldsets: Any, names: frozenset[str]) -> Any:
    return [
        (title, {**rest, "fields": [name for name in rest["fields"] if name not in names]})
        for title, rest in fieldsets
    ]
