"""Bases of the screens of curated rows: versioned forms with a reason, undo of a saved form, deletion by actions;
edited texts with numbered versions, which are compared and restored; texts that jobs write and people lock.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, cast

from django import forms
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import content_disposition_header
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelect2Widget

from memoryhub.admin.base import ActionAdmin, ActionForm, OwnedMixin, render_page
from memoryhub.admin.columns import choice_displays, column
from memoryhub.admin.diff import differences
from memoryhub.admin.fields import ReasonField
from memoryhub.admin.labels import PRINCIPAL_KINDS, principal_name
from memoryhub.admin.object_actions import (
    Change,
    Done,
    change_url,
    object_action,
    report_done,
    row_page,
    submitted_change,
    submitted_number,
    submitted_text,
)
from memoryhub.admin.user_choice import UserField, check_user
from memoryhub.auth.access import UnknownRow
from memoryhub.tenancy.models import Agent


class VersionedForm(ActionForm):
    """A form of a row with a version, with a reason for the change; its action decides about the values."""

    expected_version = forms.IntegerField(required=False, widget=forms.HiddenInput())
    reason = ReasonField()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["expected_version"] = self.instance.version


class OwnerForm(forms.Form):
    """Agent and user that a new row belongs to; a new user is created once that is confirmed, where it `creates`."""

    creates_users = True

    agent = forms.ModelChoiceField(
        queryset=Agent.objects.all(), widget=UnfoldAdminSelect2Widget(), label=_("Agent"), empty_label=""
    )
    user_id = UserField()

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        agent = values.get("agent")
        fixed = agent.fixed_user_id if agent is not None else ""
        if fixed and values.get("user_id") not in ("", None, fixed):
            only = _("This agent has one user, %(user)s: leave the field empty, or enter that one.")
            self.add_error("user_id", forms.ValidationError(only, params={"user": fixed}))
        if agent is not None and not fixed and not values.get("all_users"):
            check_user(self, agent.pk, creates=self.creates_users)
        return values


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
            # The link back keeps the list's filters.
            filters = {"preserved_filters": self.get_preserved_filters(request), "opts": self.opts}
            return HttpResponseRedirect(add_preserved_filters(filters, change_url(obj)))
        if "_addanother" in request.POST:
            return HttpResponseRedirect(reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_add"))
        return cast(HttpResponse, self.response_post_save_change(request, obj))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        # One by one, so that each writes an audit entry.
        for row in queryset.select_related("actor__agent"):
            self.delete_model(request, row)

    def related_counts(self, rows: Sequence[Any]) -> Mapping[Any, int]:
        return {}

    def get_deleted_objects(self, objs: Sequence[Any], request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        rows = list(objs)
        missing_permissions = set() if self.has_delete_permission(request) else {self.opts.verbose_name}
        related = {name: number for name, number in self.related_counts(rows).items() if number}
        titles: list[Any] = [getattr(row, "name", str(row)) for row in rows]
        if related:
            text = _("%(what)s: %(number)d")
            titles.append([text % {"what": name, "number": number} for name, number in related.items()])
        return titles, {self.opts.verbose_name_plural: len(rows), **related}, missing_permissions, []


def without_fields(fieldsets: Any, names: frozenset[str]) -> Any:
    return [
        (title, {**options, "fields": [name for name in options["fields"] if name not in names]})
        for title, options in fieldsets
    ]


class EditorAdmin(CuratedAdmin):
    """Screens of texts that are edited; pages about a row can be loaded into its own page."""

    delete_confirmation_template = "admin/memoryhub/delete.html"
    allows = frozenset({"change", "delete"})

    class Media:
        js = ("memoryhub/editor.js",)

    def subpage(self, request: HttpRequest, row: Any, template: str, *, title: Any, **context: Any) -> HttpResponse:
        """Return a page about a row; only its fragment where a script loads it into another page."""
        is_part = request.headers.get("X-Requested-With") == "fetch"
        return render_page(
            request,
            f"admin/{template}.html" if is_part else "admin/memoryhub/subpage.html",
            title=title,
            heading=title,
            part=f"admin/{template}.html",
            opts=self.opts,
            original=row,
            back=change_url(row),
            **context,
        )


def address(name: str, row: Any, /, **values: Any) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{name}", args=[row.pk], query=values or None)


def wide(text: str) -> str:
    return format_html('<div class="pro-column">{}</div>', text)


ON_A_PAGE = 20


class HistoryAdmin(EditorAdmin):
    """Screens of texts with numbered versions, which are compared and restored."""

    def versions_of(self, row: Any, before: int, number: int) -> list[dict[str, Any]]:
        raise NotImplementedError

    def text_at(self, row: Any, number: int) -> str | None:
        """Return a row's text at a version; None where it was not kept."""
        raise NotImplementedError

    def file_name_of(self, row: Any, text: str) -> str:
        return ""

    def restore(self, request: HttpRequest, row: Any, number: int, change: Change) -> Done:
        raise NotImplementedError

    @row_page
    def compare_view(self, request: HttpRequest, row: Any) -> HttpResponse:
        to = submitted_number(request, "to") or row.version
        before = submitted_number(request, "from")
        before = to - 1 if before is None else before
        old_text, new_text = self.text_at(row, before), self.text_at(row, to)
        if before == 0:
            old_text = old_text or ""
        has_texts = old_text is not None and new_text is not None
        first = submitted_number(request, "first") or 0
        changes = differences(old_text or "", new_text or "", first=first) if has_texts else None
        following = ""
        if changes is not None and changes.following is not None:
            following = address("compare", row, **{"from": before, "to": to, "first": changes.following})
        title = _("What changed from version %(one)d to version %(other)d") % {"one": before, "other": to}
        texts = [{"number": number, "at": address("text", row, number=number)} for number in (before, to) if number]
        return self.subpage(
            request,
            row,
            "memoryhub/history/differences",
            title=title,
            changes=changes,
            texts=texts,
            following=following,
        )

    @row_page
    def text_view(self, request: HttpRequest, row: Any) -> HttpResponse:
        text = self.text_at(row, submitted_number(request, "number") or row.version)
        if text is None:
            raise Http404
        response = HttpResponse(text, content_type="text/plain; charset=utf-8")
        if header := content_disposition_header(False, self.file_name_of(row, text)):
            response["Content-Disposition"] = header
        return response

    @object_action()
    def restore_view(self, request: HttpRequest, row: Any, change: Change) -> Done:
        number = submitted_number(request, "number")
        if number is None:
            raise UnknownRow(_("There is no such version."))
        return self.restore(request, row, number, change)

    def history_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return a page of versions; `before` in the address begins with older ones."""
        before = submitted_number(request, "before") or row.version + 1
        rows = self.versions_of(row, before, ON_A_PAGE + 1)
        versions = rows[:ON_A_PAGE]
        return {
            "versions": versions,
            "older": f"?before={versions[-1]['number']}#versions" if len(rows) > ON_A_PAGE else "",
            "is_older": before <= row.version,
            "compare": address("compare", row),
            "restore": address("restore", row),
        }


def restored_version(row: Any, number: int, former: int, **values: Any) -> Done:
    undo = address("restore", row, number=former, version=row.version, **values)
    words = gettext("Version %(number)d was restored, as version %(now)d.")
    return Done(words % {"number": number, "now": row.version}, undo=undo)


TEXT_VERBS: Final[Mapping[str, Any]] = {
    "write": _("written"),
    "edit": _("edited"),
    "lock": _("locked"),
    "unlock": _("unlocked"),
    "restore": _("restored"),
}
GENERATORS: Final[Mapping[str, Any]] = {"llm": _("model"), "extractive": _("extract"), "person": _("a person")}


class WrittenTextAdmin(HistoryAdmin):
    """Screens of rows with `text`, `locked`, `generator` and `version`; the app's actions make every change."""

    version_model: ClassVar[type[Model]]
    version_field: ClassVar[str]
    """Foreign key of `version_model` to the row."""
    stored_text: ClassVar[str]
    """Field of a version that holds its text, which lists of versions do not load."""
    versions_name: ClassVar[Any]
    texts: ClassVar[Any]
    """The actions that edit, restore and delete: `conversations.actions.generated_texts`."""

    def write_anew(self, row: Any, **values: Any) -> None:
        raise NotImplementedError

    shown_locked = column(
        _("locked"),
        lambda row: ("locked", _("locked")) if row.locked else "",
        ordering="locked",
        colours={"locked": "warning"},
    )

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Any:
        former, cleaned = row.version, form.cleaned_data
        saved = self.texts.edit(
            row,
            values=form.changed_values(frozenset({"text"})),
            expected_version=cleaned["expected_version"],
            **submitted_change(request),
        )
        if saved.version != former:
            words = gettext("The text was saved, as version %(number)d, and locked.")
            undo = address("restore", saved, number=former, version=saved.version, exactly=1)
            self.offer_undo(request, words % {"number": saved.version}, undo)
        return saved

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        with suppress(UnknownRow):
            self.texts.delete(obj, expected_version=None, **submitted_change(request))

    def related_counts(self, rows: Sequence[Any]) -> Mapping[Any, int]:
        return {self.versions_name: self._versions(rows).count()}

    def _versions(self, rows: Sequence[Any]) -> QuerySet[Any]:
        actors = [row.actor_id for row in rows]
        conditions = {"actor_id__in": actors, f"{self.version_field}__in": [row.pk for row in rows]}
        return self.version_model._default_manager.filter(**conditions)

    shown_generator, written_by = choice_displays(
        "generator", GENERATORS, {"llm": "success", "extractive": "info"}, description=_("written by")
    )

    def restore(self, request: HttpRequest, row: Any, number: int, change: Change) -> Done:
        """Restore and lock a version; with `exactly`, restore its lock state too."""
        restored = self.texts.restore(
            row,
            number=number,
            expected_version=submitted_number(request, "version"),
            with_lock=bool(submitted_text(request, "exactly")),
            **change,
        )
        return restored_version(restored, number, row.version, exactly=1)

    @object_action()
    def lock_view(self, request: HttpRequest, row: Any, change: Change) -> Done:
        locked, former = submitted_text(request, "locked") == "1", row.version
        saved = self.texts.edit(
            row, values={"locked": locked}, expected_version=submitted_number(request, "version"), **change
        )
        words = gettext("It is locked.") if locked else gettext("It is unlocked.")
        undo = address("lock", saved, locked=0 if locked else 1, version=saved.version)
        logged = "lock" if locked else "unlock"
        return Done(words, undo=undo if saved.version != former else None, logged=logged)

    @object_action()
    def rewrite_view(self, request: HttpRequest, row: Any, change: Change) -> Done:
        self.write_anew(row, by=change["by"], now=change["now"])
        words = gettext("It will be rewritten in the background. The current text is kept as a version.")
        return Done(words)

    def versions_of(self, row: Any, before: int, number: int) -> list[dict[str, Any]]:
        rows = self._versions([row]).filter(number__lt=before).defer(self.stored_text)
        return [
            {
                "number": version.number,
                "verb": TEXT_VERBS.get(version.verb, version.verb),
                "who": principal_name(version.who_name, version.who_kind),
                "who_kind": PRINCIPAL_KINDS[version.who_kind],
                "at": version.created_at,
                "why": version.reason,
                "is_current": version.number == row.version,
                "note": ", ".join(filter(None, [str(GENERATORS[version.generator]), version.model])),
                "diff_url": address("compare", row, **{"from": version.number - 1, "to": version.number}),
            }
            for version in rows[:number]
        ]

    def text_at(self, row: Any, number: int) -> str | None:
        version = self._versions([row]).filter(number=number).first()
        return version.text if version else None
