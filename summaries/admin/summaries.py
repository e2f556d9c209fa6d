"""Screen of session summaries: edit, lock, rewrite, restore and delete."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from conversations.admin.sessions import OfSessionMixin
from memoryhub.admin.base import excerpt, link_to, title_with_time
from memoryhub.admin.columns import UserFilter, choice_displays, column
from memoryhub.admin.curated import VersionedForm, WrittenTextAdmin, wide
from memoryhub.admin.fields import ProseField
from memoryhub.admin.labels import TRUST_COLOURS, TRUSTS
from summaries.actions.summaries import SUMMARIES
from summaries.actions.triggers import enqueue_summary
from summaries.domain.summaries import MAX_TEXT_LENGTH
from summaries.models import Summary, SummaryVersion


class SummaryForm(VersionedForm):
    text = ProseField(
        max_length=MAX_TEXT_LENGTH,
        label=_("Summary"),
        help_text=_("Editing locks the text: jobs do not rewrite it until you unlock it."),
    )

    class Meta:
        model = Summary
        fields = ("text",)


@admin.register(Summary)
class SummaryAdmin(OfSessionMixin, WrittenTextAdmin):
    empty_hint = _("A session is summarised when it ends.")
    version_model, version_field, stored_text = SummaryVersion, "summary", "text"
    versions_name = _("versions of summaries")
    texts = SUMMARIES
    form = SummaryForm
    list_per_page = 30  # wide rows: a page stays under 400 KB
    list_display = (
        "shown_text",
        "owner",
        "of_session",
        "message_count",
        "shown_generator",
        "shown_trust",
        "shown_locked",
        "end_time",
    )
    list_filter = ("generator", "trust", "locked", "actor__agent", UserFilter, "end_time")
    list_select_related = ("actor",)
    search_fields = ("text",)
    search_help_text = _("Words of a summary, or the id of a summary or of a session.")
    id_fields = ("pk", "session_id")
    ordering = ("-id",)
    long_text = "text"
    readonly_fields = (
        "id", "owner", "of_session", "message_count", "start_time", "end_time", "model", "written_by", "trusted",
        "locked", "version", "written_at", "updated_at",
    )  # fmt: skip
    fieldsets = (
        (None, {"fields": ("text", "reason")}),
        (_("Origin"), {"fields": (("owner", "of_session"), ("message_count", "start_time", "end_time"))}),
        (
            _("Creation"),
            {"fields": (("written_by", "model", "trusted"), ("locked", "version"), ("written_at", "updated_at"), "id")},
        ),
    )
    change_form_before_template = "admin/memoryhub/includes/version.html"
    change_form_outer_before_template = "admin/summaries/summary/buttons.html"
    change_form_outer_after_template = "admin/summaries/summary/versions.html"

    shown_text = column(_("summary"), lambda summary: wide(excerpt(summary.opening)))
    shown_trust, trusted = choice_displays("trust", TRUSTS, TRUST_COLOURS, description=_("trust"))

    def title_of(self, row: Any) -> str:
        return title_with_time(self.opts.verbose_name, row.written_at)

    def write_anew(self, row: Any, **values: Any) -> None:
        row.session.actor = row.actor
        enqueue_summary(session=row.session, anew=True, **values)

    # Context of the page

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        stored = Summary.objects.get(pk=row.pk, actor_id=row.actor_id)
        return {
            "may_change": self.has_change_permission(request, row),
            "is_locked": stored.locked,
            "version": stored.version,
            "history": self.history_of(request, stored),
            "timeline": link_to("admin:conversations_session_timeline", stored.session_id, gettext("To the session")),
        }
