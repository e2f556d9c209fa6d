"""Screens of summaries: what they say, what they said before, and the buttons that change them."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import (
    BooleanRadioFilter,
    ChoicesDropdownFilter,
    RangeDateTimeFilter,
    RelatedDropdownFilter,
)

from memoryhub.access.actions import VersionMismatch
from memoryhub.access.domain import Forbidden
from memoryhub.access.tenancy import UnknownRow
from memoryhub.admin.base import (
    ActingAdmin,
    ActingForm,
    UserFilter,
    about,
    clock,
    excerpt,
    labelled,
    link_to,
    outdated,
    principal,
    whose,
)
from memoryhub.admin.dashboard import Tile, count
from memoryhub.admin.differences import compared
from memoryhub.admin.fields import ProseField, ReasonField
from memoryhub.admin.pressing import Done, posted, small_number
from summaries.actions.curate import delete_summary, edit_summary, restore_version
from summaries.actions.ordering import order_summary
from summaries.domain.summaries import LONGEST_TEXT
from summaries.models import Summary, SummaryVersion

LATEST_VERSIONS = 50
TRUST_COLOURS = {"trusted": "success", "untrusted": "warning"}
GENERATOR_COLOURS = {"llm": "primary", "extractive": "info"}


class SummaryForm(ActingForm):
    """A person's words for a session."""

    text = ProseField(
        max_length=LONGEST_TEXT,
        label=_("Summary"),
        help_text=_("A text that you change is locked: no job rewrites it until you unlock it."),
    )
    expected_version = forms.IntegerField(required=False, widget=forms.HiddenInput())
    reason = ReasonField()

    class Meta:
        model = Summary
        fields = ("text",)

    # The actions decide about the values, and say what is wrong with them.
    not_checked_as_stored = frozenset(field.name for field in Summary._meta.fields)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["expected_version"] = self.instance.version


@admin.register(Summary)
class SummaryAdmin(ActingAdmin):
    """Session summaries: put right, locked, written anew and deleted through the actions alone."""

    form = SummaryForm
    list_display = (
        "shown_text",
        "owner",
        "in_session",
        "message_count",
        "shown_generator",
        "shown_trust",
        "shown_locked",
        "end_time",
    )
    list_filter = (
        ("generator", ChoicesDropdownFilter),
        ("trust", ChoicesDropdownFilter),
        ("locked", BooleanRadioFilter),
        ("actor__agent", RelatedDropdownFilter),
        UserFilter,
        ("end_time", RangeDateTimeFilter),
    )
    list_select_related = ("actor",)
    search_fields = ("text",)
    search_help_text = _("Words of a summary, or the id of a summary or of a session.")
    id_fields = ("pk", "session_id")
    ordering = ("-id",)
    long_text = "text"
    readonly_fields = (
        "id", "owner", "in_session", "message_count", "start_time", "end_time", "model", "generator", "shown_trust",
        "locked", "version", "written_at", "updated_at",
    )  # fmt: skip
    fieldsets = (
        (None, {"fields": ("text", "reason")}),
        (
            _("What it is of"),
            {"fields": (("owner", "in_session"), ("message_count", "start_time", "end_time"))},
        ),
        (
            _("How it came to be"),
            {
                "fields": (
                    ("generator", "model", "shown_trust"),
                    ("locked", "version"),
                    ("written_at", "updated_at"),
                    "id",
                )
            },
        ),
    )
    change_form_before_template = "admin/memoryhub/includes/version.html"
    change_form_outer_before_template = "admin/summaries/summary/buttons.html"
    change_form_outer_after_template = "admin/summaries/summary/versions.html"
    refusals = {
        VersionMismatch: outdated,
        UnknownRow: about(None),
        Forbidden: about(None),
    }

    @admin.display(description=_("summary"))
    def shown_text(self, summary: Any) -> str:
        """Return the summary's beginning."""
        return excerpt(summary.opening)

    @admin.display(description=_("whose"), ordering="actor")
    def owner(self, summary: Summary) -> str:
        """Return whose session it is of."""
        return whose(summary.actor)

    @admin.display(description=_("session"))
    def in_session(self, summary: Summary) -> str:
        """Return a link to the session."""
        return link_to("admin:conversations_session_change", summary.session_id, str(summary.session_id)[:13])

    @labelled(GENERATOR_COLOURS)
    @admin.display(description=_("written by"), ordering="generator")
    def shown_generator(self, summary: Summary) -> Any:
        """Return how its text came to be."""
        return summary.generator, _("model") if summary.generator == "llm" else _("chosen sentences")

    @labelled(TRUST_COLOURS)
    @admin.display(description=_("trust"), ordering="trust")
    def shown_trust(self, summary: Summary) -> str:
        """Return whether contexts of other sessions may use it."""
        return summary.trust

    @labelled({"locked": "primary"})
    @admin.display(description=_("locked"), ordering="locked")
    def shown_locked(self, summary: Summary) -> Any:
        """Return a label for locked summaries alone."""
        return ("locked", _("locked")) if summary.locked else ""

    # Changes: every one of them through an action.

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return no: a summary is written of a session."""
        return False

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Summary:
        """Put the text right, where a person changed it."""
        return edit_summary(
            summary=row,
            values=form.changed_values(frozenset({"text"})),
            expected_version=form.cleaned_data["expected_version"],
            by=principal(request),
            reason=form.cleaned_data["reason"],
            now=clock(),
        )

    def delete_model(self, request: HttpRequest, obj: Summary) -> None:
        """Delete a summary; its text leaves the receipts as well. One that is gone already is deleted."""
        with suppress(UnknownRow):
            delete_summary(summary=obj, expected_version=None, by=principal(request), now=clock())

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Summary]) -> None:
        """Delete summaries one by one, so that each leaves its audit entry."""
        for summary in queryset.select_related("actor__agent"):
            self.delete_model(request, summary)

    def get_deleted_objects(self, objs: Sequence[Summary], request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        """Return the summaries themselves: their versions go along and are nothing apart from them."""
        rows = list(objs)
        needed = set() if self.has_delete_permission(request) else {self.opts.verbose_name}
        return [str(row) for row in rows], {self.opts.verbose_name_plural: len(rows)}, needed, []

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses, with those that the page's buttons post to."""
        view = self.admin_site.admin_view
        return [
            path("<path:object_id>/lock/", view(self.lock_view), name="summaries_summary_lock"),
            path("<path:object_id>/rewrite/", view(self.rewrite_view), name="summaries_summary_rewrite"),
            path("<path:object_id>/restore/", view(self.restore_view), name="summaries_summary_restore"),
            *super().get_urls(),
        ]

    def lock_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Lock or unlock the summary."""
        locked = request.POST.get("locked") == "1"

        def press(summary: Summary, reason: str) -> Done:
            edit_summary(
                summary=summary, values={"locked": locked}, expected_version=small_number(request, "version"),
                by=principal(request), reason=reason, now=clock(),
            )  # fmt: skip
            return Done(gettext("It is locked.") if locked else gettext("It is unlocked."))

        return posted(
            self,
            request,
            object_id,
            press,
            may=partial(self.has_change_permission, request),
            logged="lock" if locked else "unlock",
        )

    def rewrite_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Have the summary written from the session's beginning."""

        def press(summary: Summary, reason: str) -> Done:
            session = summary.session
            session.actor = summary.actor
            order_summary(session=session, anew=True, by=principal(request), now=clock())
            return Done(gettext("It will be written anew in the background."))

        return posted(
            self,
            request,
            object_id,
            press,
            may=partial(self.has_change_permission, request),
            logged="rewrite",
        )

    def restore_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Bring back what a version says."""

        def press(summary: Summary, reason: str) -> Done:
            versions = SummaryVersion.objects.filter(actor_id=summary.actor_id, summary=summary)
            version = versions.filter(number=small_number(request, "number") or 0).first()
            if version is None:
                raise UnknownRow(gettext("There is no such version."))
            restore_version(
                summary=summary, version=version, expected_version=small_number(request, "version"),
                by=principal(request), reason=reason, now=clock(),
            )  # fmt: skip
            return Done(gettext("Version %(number)d was restored.") % {"number": version.number})

        return posted(
            self,
            request,
            object_id,
            press,
            may=partial(self.has_change_permission, request),
            logged="restore",
        )

    # What the page tells besides the fields.

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; who may only look is not asked for a reason."""
        fieldsets = super().get_fieldsets(request, obj)
        if self.has_change_permission(request, obj):
            return fieldsets
        return [
            (title, {**rest, "fields": [name for name in rest["fields"] if name != "reason"]})
            for title, rest in fieldsets
        ]

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the versions, each with what it changed, and the buttons that fit."""
        rows = SummaryVersion.objects.filter(actor_id=row.actor_id, summary_id=row.pk)
        versions = list(rows[: LATEST_VERSIONS + 1])
        return {
            "may_change": self.has_change_permission(request, row),
            "version": versions[0].number if versions else row.version,
            "versions": [
                _change(each, before)
                for each, before in zip(versions, [*versions[1:], None], strict=True)
                if each.number > versions[0].number - LATEST_VERSIONS
            ],
            "versions_left_out": max(0, versions[0].number - LATEST_VERSIONS) if versions else 0,
        }


def _change(version: SummaryVersion, before: SummaryVersion | None) -> dict[str, Any]:
    """Return a version with the words that it brought and those that went."""
    sides = compared(before.text, version.text) if before is not None else None
    was, now = sides if sides is not None else ([], [])
    return {
        "version": version,
        "is_first": before is None,
        "is_same": before is not None and before.text == version.text,
        "was": was,
        "now": now,
        "was_text": before.text if before is not None else "",
    }


def tiles(now: datetime) -> list[Tile]:
    """Return the figures of the admin's first page."""
    return [Tile(_("Summaries"), count(Summary.objects.all()), _("of sessions"), Summary)]
