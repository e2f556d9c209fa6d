"""Editor of project documents, with versions, compaction and trust of entries."""

from collections.abc import Sequence
from functools import cache
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.decorators import method_decorator
from django.utils.html import escape, format_html
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST
from markdown_it import MarkdownIt

from conversations.admin.doubts import doubt_label
from memoryhub.admin.base import as_uuid, clock, format_count, link_to, principal
from memoryhub.admin.columns import UserFilter, choice_filter, column, text_cell
from memoryhub.admin.curated import HistoryAdmin, VersionedForm, address, restored_version
from memoryhub.admin.diff import differences
from memoryhub.admin.fields import ProseField, with_plain_line_ends
from memoryhub.admin.labels import PRINCIPAL_KINDS, principal_name
from memoryhub.admin.object_actions import (
    Change,
    Done,
    object_action,
    row_page,
    submitted_change,
    submitted_number,
    submitted_text,
)
from memoryhub.admin.usage import token_count_label
from memoryhub.auth.actions import VersionMismatch
from memoryhub.errors import DomainError
from memoryhub.llm.client import NOT_CONFIGURED
from memoryhub.llm.errors import ProviderUnavailable
from memoryhub.llm.tokens import count_raw
from memoryhub.tenancy.policy import Trust
from summaries.actions.compaction import (
    CompactionState,
    NotCompacted,
    compaction_states,
    enqueue_compaction,
    protected_blocks,
)
from summaries.actions.documents import (
    backups_of,
    pinnable_lines,
    remove_empty_document,
    restore_document,
    set_pinned,
    write_document,
)
from summaries.actions.entries import set_entry_trust, waiting_entries
from summaries.admin.base import DOCUMENT_KINDS, OUTCOMES, PROTECTION_REASONS, file_name
from summaries.admin.project_lifecycle import MAX_LINES, digest_of, lines_page, may_manage_life, move_selected_lines
from summaries.domain.documents import MAX_DOCUMENT_LENGTH, PINNED, DocumentKind, line_digest
from summaries.domain.projects import ProjectStatus
from summaries.models import Document, Project

MAX_EDITED_BYTES = 310_000
"""Bytes of HTML of a text that the page shows at once; a longer one is opened by a click more."""

BEGINNING_LENGTH = 20_000
MAX_RENDERED_LENGTH = 100_000
MAX_CONFLICT_LENGTH = 20_000
MAX_PROTECTED_BLOCKS = 200
MAX_BLOCK_LENGTH = 1_000


TRUST_ACTIONS = {
    "believe": (
        Trust.TRUSTED,
        "doubt",
        ngettext_lazy("%(number)d entry is trusted now.", "%(number)d entries are trusted now.", "number"),
    ),
    "doubt": (
        Trust.UNTRUSTED,
        "believe",
        ngettext_lazy("%(number)d entry is pending again.", "%(number)d entries are pending again.", "number"),
    ),
}
"""The trust that each button sets, the button that undoes it, and the message."""


def _with_entries(documents: QuerySet[Document], choice: str) -> QuerySet[Document]:
    return documents.filter(pk__in=waiting_entries().values("document_id")) if choice == "waiting" else documents


EntryFilter = choice_filter(_("entries"), "entries", lambda: [("waiting", _("Pending entries"))], _with_entries)


class DocumentForm(VersionedForm):
    text = ProseField(rows=24, required=False, max_length=MAX_DOCUMENT_LENGTH, label=_("Text"))

    class Meta:
        model = Document
        fields = ("text",)


@admin.register(Document)
class DocumentAdmin(HistoryAdmin):
    empty_hint = _("Documents belong to projects: open a project to add one.")
    form = DocumentForm
    allows = frozenset({"change"})
    list_display = ("name", "of_project", "owner", "token_count", "version", "updated_at")
    list_filter = (EntryFilter, "actor__agent", UserFilter, "updated_at")
    list_select_related = ("actor", "project")
    search_fields = ("name", "project__name")
    search_help_text = _("The name of a document or a project, or the id of either.")
    id_fields = ("pk", "project_id")
    ordering = ("-updated_at", "-id")
    list_deferred = ("text",)
    readonly_fields = (
        "name", "id", "of_project", "owner", "token_count", "version", "created_at", "updated_at", "beginning"
    )  # fmt: skip
    fieldsets = (
        (None, {"fields": ("text", "reason")}),
        (
            _("Origin"),
            {
                "fields": (
                    ("name", "of_project", "owner"),
                    ("token_count", "version"),
                    ("created_at", "updated_at"),
                    "id",
                )
            },
        ),
    )
    change_form_before_template = "admin/summaries/document/counter.html"
    change_form_outer_before_template = "admin/summaries/document/above.html"
    change_form_outer_after_template = "admin/summaries/document/below.html"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or not _is_cut(request, obj):
            return fieldsets
        return [(None, {"fields": ("beginning",)}), *fieldsets[1:]]

    of_project = column(
        _("project"),
        lambda document: link_to(
            "admin:summaries_project_change", document.project_id, text_cell(document.project.name)
        ),
        ordering="project__name",
    )

    @admin.display(description=_("Text"))
    def beginning(self, document: Document) -> str:
        words = gettext("This text has %(number)d characters. Here is its beginning; open the whole text to edit it.")
        return format_html(
            '<p class="mb-3">{} <a class="text-primary-600 dark:text-primary-500 underline" href="?whole=1">{}</a></p>'
            '<div dir="auto" class="break-words pro-text">{}</div>',
            words % {"number": len(document.text)},
            gettext("Open the whole text"),
            document.text[:BEGINNING_LENGTH],
        )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(project__deleted_at=None, deleted_at=None)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_open = obj is None or obj.project.status is ProjectStatus.ACTIVE
        return is_open and super().has_change_permission(request, obj)

    def title_of(self, row: Any) -> str:
        return str(row.name)

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Document:
        stored = Document.objects.get(pk=row.pk, actor_id=row.actor_id)
        text = form.changed_values(frozenset({"text"})).get("text", stored.text)
        saved = write_document(
            document=stored,
            text=text,
            kind=DocumentKind.EDIT,
            expected_version=form.cleaned_data["expected_version"],
            **submitted_change(request),
        )
        if saved.version != stored.version:
            words = gettext("The text was saved, as version %(number)d.") % {"number": saved.version}
            undo = address("restore", saved, number=stored.version, version=saved.version)
            self.offer_undo(request, words, undo)
        return saved

    # Buttons

    @object_action()
    def believe_view(self, request: HttpRequest, document: Document, change: Change) -> Done:
        return self._set_trust(request, document, change, "believe")

    @object_action()
    def doubt_view(self, request: HttpRequest, document: Document, change: Change) -> Done:
        return self._set_trust(request, document, change, "doubt")

    def _set_trust(self, request: HttpRequest, document: Document, change: Change, name: str) -> Done:
        trust, opposite, message = TRUST_ACTIONS[name]
        parts = submitted_text(request, "entries").split(",")[: 2 * MAX_PENDING]
        ids = [key for part in parts if (key := as_uuid(part)) is not None]
        ids = set_entry_trust(document=document, entry_ids=ids, trust=trust, **change)
        undo = address(opposite, document, entries=",".join(str(key) for key in ids)) if ids else None
        return Done(message % {"number": len(ids)}, undo=undo)

    @object_action(confirm="ask_to_compact")
    def compact_view(self, request: HttpRequest, document: Document, change: Change) -> Done:
        try:
            enqueue_compaction(document=document, by=principal(request), now=clock())
        except NotCompacted:
            raise DomainError(_("This document is never rewritten.")) from None
        except ProviderUnavailable:
            raise DomainError(NOT_CONFIGURED) from None
        words = gettext("It will be compacted in the background. The previous text is kept as a backup.")
        return Done(words)

    def ask_to_compact(self, request: HttpRequest, document: Document) -> HttpResponse:
        if not self.has_change_permission(request, document):
            raise PermissionDenied
        protected, state = protected_blocks(document=document, now=clock()), state_of(document)
        return self.subpage(
            request,
            document,
            "summaries/document/compact",
            title=_("Compact %(name)s now?") % {"name": document.name},
            state=state,
            tokens=token_count_label(state.tokens),
            target=format_count(state.target),
            not_configured=NOT_CONFIGURED,
            kept_number=len(protected),
            kept_tokens=token_count_label(sum(count_raw(text) for text, _reason in protected)),
        )

    @object_action()
    def remove_view(self, request: HttpRequest, document: Document, change: Change) -> Done:
        project = Project(pk=document.project_id)
        remove_empty_document(document=document, **change)
        words = gettext("%(name)s was removed; it was empty.")
        return Done(words % {"name": document.name}, to=address("change", project))

    @object_action(may_manage_life, confirm="lines_to_move")
    def move_view(self, request: HttpRequest, document: Document, change: Change) -> Done:
        return move_selected_lines(request, document, change)

    def lines_to_move(self, request: HttpRequest, document: Document) -> HttpResponse:
        return lines_page(self, request, document)

    @object_action()
    def pin_view(self, request: HttpRequest, document: Document, change: Change) -> Done:
        return self._pin(request, document, change, is_pinned=True)

    @object_action()
    def unpin_view(self, request: HttpRequest, document: Document, change: Change) -> Done:
        return self._pin(request, document, change, is_pinned=False)

    def _pin(self, request: HttpRequest, document: Document, change: Change, *, is_pinned: bool) -> Done:
        saved = set_pinned(
            document=document,
            digest=digest_of(submitted_text(request, "line")) or b"",
            is_pinned=is_pinned,
            expected_version=submitted_number(request, "version"),
            **change,
        )
        words = gettext("The line is pinned.") if is_pinned else gettext("The line is no longer pinned.")
        is_new = saved.version != document.version
        undo = address("restore", saved, number=document.version, version=saved.version) if is_new else None
        return Done(words, f"{address('change', document)}#pin-lines", undo=undo)

    # Fragments that the page loads

    @row_page
    @method_decorator(require_POST)
    def count_view(self, request: HttpRequest, document: Document) -> HttpResponse:
        """Count the tokens of a text in the editor; nothing is stored."""
        document.token_count = count_raw(with_plain_line_ends(request.POST.get("text", "")))
        state = state_of(document)
        answer = {"tokens": document.token_count, "label": length_label(state), "percent": state.percent}
        return JsonResponse({**answer, "over": state.is_too_long})

    @row_page
    @method_decorator(require_POST)
    def preview_view(self, request: HttpRequest, document: Document) -> HttpResponse:
        """Return the text of the editor as HTML; nothing is stored."""
        return HttpResponse(rendered_markdown(with_plain_line_ends(request.POST.get("text", ""))))

    @row_page
    def protected_view(self, request: HttpRequest, document: Document) -> HttpResponse:
        protected = protected_blocks(document=document, now=clock())
        blocks = [
            {"text": text[:MAX_BLOCK_LENGTH], "is_cut": len(text) > MAX_BLOCK_LENGTH, "why": PROTECTION_REASONS[reason]}
            for text, reason in protected[:MAX_PROTECTED_BLOCKS]
        ]
        title = _("Parts that compaction keeps unchanged")
        left_out = len(protected) - len(blocks)
        return self.subpage(
            request, document, "summaries/document/protected", title=title, kept=blocks, left_out=left_out
        )

    @row_page
    def lines_view(self, request: HttpRequest, document: Document) -> HttpResponse:
        lines = [
            {"digest": digest.hex(), "text": line[:MAX_BLOCK_LENGTH], "is_cut": len(line) > MAX_BLOCK_LENGTH}
            | {"is_pinned": is_pinned}
            for digest, line, is_pinned in pinnable_lines(document)
        ]
        return self.subpage(
            request,
            document,
            "summaries/document/lines",
            title=_("Pin lines"),
            lines=lines[:MAX_LINES],
            left_out=max(0, len(lines) - MAX_LINES),
            is_whole=document.name == PINNED,
            may_change=self.has_change_permission(request, document),
        )

    # Versions

    def versions_of(self, row: Any, before: int, number: int) -> list[dict[str, Any]]:
        """Return the versions; a row of the table holds a former text and describes the change to the next one."""
        rows = row.versions.filter(number__lt=before - 1)
        return [
            {
                "number": version.number + 1,
                "verb": DOCUMENT_KINDS[version.kind],
                "who": principal_name(version.who_name, version.who_kind),
                "who_kind": PRINCIPAL_KINDS[version.who_kind],
                "at": version.created_at,
                "why": version.reason,
                "is_current": version.number + 1 == row.version,
                "diff_url": address("compare", row, **{"from": version.number, "to": version.number + 1}),
            }
            for version in rows.defer("text")[:number]
        ]

    def text_at(self, row: Any, number: int) -> str | None:
        if number == row.version:
            return str(row.text)
        version = row.versions.filter(number=number).first()
        return None if version is None else str(version.text)

    def file_name_of(self, row: Any, text: str) -> str:
        headings = (line.lstrip("#").strip() for line in text.splitlines() if line.startswith("#"))
        return file_name(row.name, next(headings, ""))

    def restore(self, request: HttpRequest, row: Any, number: int, change: Change) -> Done:
        restored = restore_document(
            document=row, number=number, expected_version=submitted_number(request, "version"), **change
        )
        if restored.version == row.version:
            return Done(gettext("The text is already the same as version %(number)d.") % {"number": number})
        return restored_version(restored, number, row.version)

    # Context of the page

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        stored = Document.objects.select_related("project__actor__agent").get(pk=row.pk, actor_id=row.actor_id)
        state = state_of(stored)
        is_cut = _is_cut(request, stored)
        return {
            "may_change": self.has_change_permission(request, row),
            "document_name": stored.name,
            "project_link": link_to("admin:summaries_project_change", stored.project_id, stored.project.name),
            "state": state,
            "length": length_label(state),
            "outcome": OUTCOMES.get(state.outcome, state.outcome),
            "entries": pending_entries_of([stored]),
            "backups": [{"number": version.number, "at": version.created_at} for version in backups_of(stored)],
            "history": self.history_of(request, stored),
            "conflict": self._conflict(request, stored),
            "may_move": may_manage_life(request) and stored.project.status is ProjectStatus.ACTIVE,
            "is_cut": is_cut,
            **({"show_save": False, "show_save_and_continue": False} if is_cut else {}),
        }

    def _conflict(self, request: HttpRequest, stored: Document) -> dict[str, Any] | None:
        if not isinstance(getattr(request, "action_error", None), VersionMismatch):
            return None
        submitted = with_plain_line_ends(request.POST.get("text", stored.text))
        base = submitted_number(request, "expected_version")
        former = self.text_at(stored, base) if base is not None else None
        latest = self.versions_of(stored, stored.version + 1, 1)
        return {
            "latest": latest[0] if latest else None,
            "theirs": differences(former, stored.text, max_length=MAX_CONFLICT_LENGTH) if former is not None else None,
            "mine": differences(stored.text, submitted, max_length=MAX_CONFLICT_LENGTH),
            "text": stored.text[:MAX_CONFLICT_LENGTH],
            "is_cut": len(stored.text) > MAX_CONFLICT_LENGTH,
        }


@cache
def _markdown() -> MarkdownIt:
    # Raw HTML is disabled, and images are omitted, as browsers would request them from any host.
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def rendered_markdown(text: str) -> str:
    return str(_markdown().render(text[:MAX_RENDERED_LENGTH]))


def state_of(document: Document) -> CompactionState:
    return compaction_states(project=document.project, documents=[document])[document.pk]


def length_label(state: CompactionState) -> str:
    values = {"tokens": format_count(state.tokens), "limit": format_count(state.limit or 0)}
    if state.limit is None:
        return ngettext("%(tokens)s token", "%(tokens)s tokens", state.tokens) % values
    if state.is_too_long:
        return gettext("%(tokens)s tokens, more than the %(limit)s from which it is compacted") % values
    return gettext("%(tokens)s of the %(limit)s tokens from which it is compacted") % values


def _is_cut(request: HttpRequest, document: Document) -> bool:
    """Return whether a text is too long to be shown whole; a submitted form is always shown whole."""
    if request.method == "POST" or "whole" in request.GET:
        return False
    return len(document.text) * 6 > MAX_EDITED_BYTES and len(escape(document.text).encode()) > MAX_EDITED_BYTES


MAX_PENDING = 50
MAX_LINE_LENGTH = 2_000


def pending_entries_of(documents: Sequence[Document]) -> dict[str, Any]:
    """Return the latest entries that wait, by document."""
    by_id = {document.pk: document for document in documents}
    actor_ids = {document.actor_id for document in documents}
    rows = waiting_entries().filter(actor_id__in=actor_ids, document_id__in=by_id)
    latest = list(rows[: MAX_PENDING + 1])
    stored = Document.objects.filter(actor_id__in=actor_ids, pk__in={row.document_id for row in latest})
    texts = {
        (pk, line_digest(line)): line.strip()
        for pk, text in stored.values_list("pk", "text")
        for line in text.splitlines()
        if line.strip()
    }
    groups: dict[UUID, list[dict[str, Any]]] = {}
    for row in latest[:MAX_PENDING]:
        text = texts.get((row.document_id, bytes(row.text_digest)), "")
        channel = row.source.get("channel") if isinstance(row.source, dict) else ""
        entry = {"id": row.pk, "text": text[:MAX_LINE_LENGTH], "is_cut": len(text) > MAX_LINE_LENGTH}
        doubt = row.source.get("doubt") if isinstance(row.source, dict) else None
        entry |= {"channel": str(channel or ""), "created_at": row.created_at}
        entry |= {"doubt": doubt_label(*doubt) if doubt else ""}
        groups.setdefault(row.document_id, []).append(entry)
    return {
        "groups": [
            {"document": by_id[pk], "entries": entries, "ids": ",".join(str(entry["id"]) for entry in entries)}
            for pk, entries in groups.items()
        ],
        "more": max(0, rows.count() - MAX_PENDING) if len(latest) > MAX_PENDING else 0,
    }
