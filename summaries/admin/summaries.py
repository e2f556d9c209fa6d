"""Screen of session summaries: edit, lock, rewrite, restore and delete."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import (
    BooleanRadioFilter,
    ChoicesDropdownFilter,
    RangeDateTimeFilter,
    RelatedDropdownFilter,
)

from memoryhub.admin.base import (
    UserFilter,
    choice_displays,
    clock,
    coloured,
    excerpt,
    principal,
    title_with_time,
)
from memoryhub.admin.curated import VersionedForm
from memoryhub.admin.fields import ProseField
from memoryhub.admin.history import HistoryAdmin, address, restored_version, wide
from memoryhub.admin.labels import PRINCIPAL_KINDS
from memoryhub.admin.object_actions import (
    Done,
    object_action_urls,
    run_object_action,
    submitted_number,
    submitted_reason,
    submitted_text,
)
from memoryhub.auth.tenancy import UnknownRow
from summaries.actions.summaries import delete_summary, edit_summary, restore_summary, undo_summary_change
from summaries.actions.triggers import enqueue_summary
from summaries.admin.base import GENERATORS, SUMMARY_VERBS, TRUSTS
from summaries.admin.routing import timeline_link
from summaries.domain.summaries import LONGEST_TEXT
from summaries.models import Summary, SummaryVersion

TRUST_COLOURS = {"trusted": "success", "untrusted": "warning"}
GENERATOR_COLOURS = {"llm": "success", "extractive": "info"}


class SummaryForm(VersionedForm):
    text = ProseField(
        max_length=LONGEST_TEXT,
        label=_("Summary"),
        help_text=_("A text that you change is locked: no job rewrites it until you unlock it."),
    )

    class Meta:
        model = Summary
        fields = ("text",)

    # The actions decide about the values, and say what is wrong with them.
    not_checked_as_stored = frozenset(field.name for field in Summary._meta.fields)


@admin.register(Summary)
class SummaryAdmin(HistoryAdmin):
    form = SummaryForm
    list_per_page = 30  # wide rows: a page stays under 400 KB
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
        "id", "owner", "in_session", "message_count", "start_time", "end_time", "model", "written_by", "trusted",
        "locked", "version", "written_at", "updated_at",
    )  # fmt: skip
    fieldsets = (
        (None, {"fields": ("text", "reason")}),
        (_("Origin"), {"fields": (("owner", "in_session"), ("message_count", "start_time", "end_time"))}),
        (
            _("Creation"),
            {
                "fields": (
                    ("written_by", "model", "trusted"),
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

    @admin.display(description=_("summary"))
    def shown_text(self, summary: Any) -> str:
        return wide(excerpt(summary.opening))

    @admin.display(description=_("session"))
    def in_session(self, summary: Summary) -> str:
        return timeline_link(summary.session_id, str(summary.session_id)[:13])

    shown_generator, written_by = choice_displays(
        "generator", GENERATORS, GENERATOR_COLOURS, description=_("written by")
    )

    shown_trust, trusted = choice_displays("trust", TRUSTS, TRUST_COLOURS, description=_("trust"))

    @coloured({"locked": "warning"})
    @admin.display(description=_("locked"), ordering="locked")
    def shown_locked(self, summary: Summary) -> Any:
        return ("locked", _("locked")) if summary.locked else ""

    # Changes: every one of them through an action.

    def title_of(self, row: Any) -> str:
        return title_with_time(self.opts.verbose_name, row.written_at)

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Summary:
        former = row.version
        saved = edit_summary(
            summary=row,
            values=form.changed_values(frozenset({"text"})),
            expected_version=form.cleaned_data["expected_version"],
            by=principal(request),
            reason=form.cleaned_data["reason"],
            now=clock(),
        )
        if saved.version != former:
            words = gettext("The text was saved, as version %(number)d, and locked.") % {
                "number": saved.version
            }
            self.offer_undo(
                request, words, address("restore", saved, number=former, version=saved.version, exactly=1)
            )
        return saved

    def delete_model(self, request: HttpRequest, obj: Summary) -> None:
        with suppress(UnknownRow):
            reason = submitted_reason(request)
            delete_summary(
                summary=obj, expected_version=None, by=principal(request), reason=reason, now=clock()
            )

    def deleted_along(self, rows: Sequence[Summary]) -> Mapping[Any, int]:
        actors = [each.actor_id for each in rows]
        versions = SummaryVersion.objects.filter(actor_id__in=actors, summary__in=rows)
        return {_("versions of summaries"): versions.count()}

    def get_urls(self) -> list[URLPattern]:
        pages = {"lock": self.lock_view, "rewrite": self.rewrite_view}
        return [*object_action_urls(self, pages), *super().get_urls()]

    def lock_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        locked = submitted_text(request, "locked") == "1"

        def press(summary: Summary, reason: str) -> Done:
            former = summary.version
            saved = edit_summary(
                summary=summary, values={"locked": locked}, expected_version=submitted_number(request, "version"),
                by=principal(request), reason=reason, now=clock(),
            )  # fmt: skip
            words = gettext("It is locked.") if locked else gettext("It is unlocked.")
            undo = address("lock", saved, locked=0 if locked else 1, version=saved.version)
            return Done(words, undo=undo if saved.version != former else None)

        return run_object_action(self, request, object_id, press, logged="lock" if locked else "unlock")

    def rewrite_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def press(summary: Summary, reason: str) -> Done:
            session = summary.session
            session.actor = summary.actor
            enqueue_summary(session=session, anew=True, by=principal(request), now=clock())
            words = gettext(
                "It will be written anew in the background. What it says now stays among its versions."
            )
            return Done(words)

        return run_object_action(self, request, object_id, press, logged="rewrite")

    # Versions.

    def versions_of(self, row: Any, before: int, number: int) -> list[dict[str, Any]]:
        rows = SummaryVersion.objects.filter(actor_id=row.actor_id, summary_id=row.pk, number__lt=before)
        return [
            {
                "number": each.number,
                "verb": SUMMARY_VERBS.get(each.verb, each.verb),
                "who": each.who_name,
                "who_kind": PRINCIPAL_KINDS[each.who_kind],
                "at": each.created_at,
                "why": each.reason,
                "is_now": each.number == row.version,
                "note": ", ".join([str(GENERATORS[each.generator]), *([each.model] if each.model else [])]),
                "what_changed": address("compare", row, **{"from": each.number - 1, "to": each.number}),
            }
            for each in rows.defer("text")[:number]
        ]

    def text_at(self, row: Any, number: int) -> str | None:
        rows = SummaryVersion.objects.filter(actor_id=row.actor_id, summary_id=row.pk, number=number)
        return rows.values_list("text", flat=True).first()

    def restore(self, request: HttpRequest, row: Any, number: int, reason: str) -> Done:
        """Restore and lock a version; with `exactly`, restore its lock state too."""
        act, former = (
            undo_summary_change if submitted_text(request, "exactly") else restore_summary,
            row.version,
        )
        done = act(
            summary=row, number=number, expected_version=submitted_number(request, "version"), by=principal(request),
            reason=reason, now=clock(),
        )  # fmt: skip
        return restored_version(done, number, former, exactly=1)

    # What the page tells besides the fields.

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        stored = Summary.objects.get(pk=row.pk, actor_id=row.actor_id)
        return {
            "may_change": self.has_change_permission(request, row),
            "is_locked": stored.locked,
            "version": stored.version,
            "history": self.history_of(request, stored),
            "timeline": timeline_link(stored.session_id, gettext("To the session")),
        }
