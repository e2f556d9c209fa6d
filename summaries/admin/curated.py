"""What the screens of projects, documents and summaries share: forms with a version and a reason, and a way back."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import ActingAdmin, ActingForm, about, outdated
from memoryhub.admin.fields import ReasonField
from memoryhub.admin.pages import shown
from memoryhub.admin.pressing import page_of, tell
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.domain import Forbidden
from memoryhub.auth.tenancy import UnknownRow

FETCHED = "fetch"


class CuratedForm(ActingForm):
    """A form whose row has a version, and whose change has a reason."""

    expected_version = forms.IntegerField(required=False, widget=forms.HiddenInput())
    reason = ReasonField()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["expected_version"] = self.instance.version


class CuratedAdmin(ActingAdmin):
    """Nothing is added here, who may only look is not asked for a reason, and a saved form can be taken back."""

    refusals: Mapping[type[Exception], Any] = {
        VersionMismatch: outdated,
        UnknownRow: about(None),
        Forbidden: about(None),
    }
    delete_confirmation_template = "admin/summaries/delete.html"
    warn_unsaved_form = True

    class Media:
        js = ("memoryhub/editor.js",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return no: rows are made elsewhere, where it is known whose they are."""
        return False

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; who may only look is not asked for a reason."""
        fieldsets = super().get_fieldsets(request, obj)
        if self.has_change_permission(request, obj):
            return fieldsets
        return [
            (title, {**rest, "fields": [name for name in rest["fields"] if name != "reason"]})
            for title, rest in fieldsets
        ]

    def can_be_taken_back(self, request: HttpRequest, told: Any, undo: str) -> None:
        """Note what a form's action did, in words, and what a POST to takes it back."""
        request.done = (told, undo)  # type: ignore[attr-defined]

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """Say what was saved, beside a button that takes it back."""
        done = getattr(request, "done", None)
        if done is None:
            plain: HttpResponse = super().response_change(request, obj)
            return plain
        tell(request, done[0], undo=done[1])
        if "_continue" in request.POST:
            return HttpResponseRedirect(page_of(obj))
        answer: HttpResponse = self.response_post_save_change(request, obj)
        return answer

    def seen(self, request: HttpRequest, object_id: str, see: Callable[[Any], HttpResponse]) -> HttpResponse:
        """Return what `see` makes of a row, for whoever may look at it; 403 else, and the list where it is gone."""
        row = self.get_object(request, object_id)
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        if row is None:
            missing: HttpResponse = self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
            return missing
        return see(row)

    def subpage(
        self, request: HttpRequest, row: Any, template: str, *, title: Any, **context: Any
    ) -> HttpResponse:
        """Return a page about a row; its part alone where a script asks for it to put it into another page."""
        is_part = request.headers.get("X-Requested-With") == FETCHED
        return shown(
            request,
            f"admin/summaries/{template}.html" if is_part else "admin/summaries/subpage.html",
            title=title,
            heading=title,
            part=f"admin/summaries/{template}.html",
            opts=self.opts,
            original=row,
            back=page_of(row),
            **context,
        )


def person_may(request: HttpRequest, codename: str) -> bool:
    """Return whether this person has a permission of this app."""
    user: Any = request.user
    return bool(user.has_perm(f"summaries.{codename}"))


def address(name: str, row: Any, /, **values: Any) -> str:
    """Return the address of one of a row's pages or buttons, with these values behind it."""
    page = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{name}", args=[row.pk])
    return f"{page}?{urlencode(values)}" if values else page


def wide(text: str) -> str:
    """Return a list's column that keeps room for words."""
    return format_html('<div class="pro-column">{}</div>', text)


def goes_along(rows: Sequence[Any], counted: Mapping[Any, int]) -> list[Any]:
    """Return the rows that are deleted and, of one alone, how many of what go with it, as Django nests them."""
    names: list[Any] = [getattr(row, "name", str(row)) for row in rows]
    told = [
        _("%(what)s: %(number)d") % {"what": what, "number": number}
        for what, number in counted.items()
        if number
    ]
    return [*names, told] if told else names
