"""Pages of imports: upload another system's export, see what will come, follow it, undo it. For administrators."""

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import TemporaryUploadedFile, UploadedFile
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from memoryhub.admin.base import as_uuid, clock, form_errors, format_count, owner_label, principal, render_page
from memoryhub.admin.columns import text_cell
from memoryhub.admin.object_actions import submitted_number, submitted_text
from memoryhub.admin.stored_texts import translated
from memoryhub.admin.user_choice import UserField, check_user
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import Principal
from memoryhub.errors import DomainError
from memoryhub.importexport.foreign.formats import FORMATS, format_labels
from memoryhub.importexport.foreign.formats.table import parse_columns
from memoryhub.importexport.foreign.imports import extraction_cost, new_import, readings_of, undo_conversation
from memoryhub.importexport.foreign.models import Import
from memoryhub.importexport.foreign.records import DOCUMENTS, MEMORIES, MESSAGES, SESSIONS
from memoryhub.importexport.foreign.uploads import (
    PAUSE,
    PREVIEW,
    RESUME,
    RUN,
    UNDO,
    UNDO_REASON,
    append_chunk,
    enqueue_import_step,
    order_reading,
    state_of,
    with_jobs,
)
from memoryhub.tenancy.policy import AGENT_ID_PATTERN
from memoryhub.unfold import Page

PERMISSIONS: Final = ("memoryhub.add_import",)
MAX_LISTED: Final = 50
MAX_NOTES: Final = 20
CHUNK_BYTES: Final = 2**20
STATE_LABELS: Final = {
    "uploading": _("waiting for its file, or its preview"),
    "previewing": _("being previewed"),
    "importing": _("being imported"),
    "undoing": _("being undone"),
    "previewed": _("previewed, nothing imported yet"),
    "imported": _("imported"),
    "undone": _("undone"),
    "failed": _("failed"),
}
ROW_LABELS: Final = {
    SESSIONS: _("Conversations"),
    MESSAGES: _("Messages"),
    MEMORIES: _("Memories"),
    DOCUMENTS: _("Documents"),
}
FORMAT_NAMES: Final = [("", _("recognise it")), *((name, format.label) for name, format in FORMATS.items())]


@dataclass(frozen=True)
class ConversationLine:
    """A conversation of an import with the number of memories extracted from it."""

    row_id: UUID
    title: str
    address: str
    messages: int
    memories: int


CONVERSATIONS: Final[list[Callable[[Import], Sequence[ConversationLine]]]] = []
"""Functions that return an import's conversations with memories; registered by apps."""


class FilesInput(forms.FileInput):
    allow_multiple_selected = True


class FilesField(forms.FileField):
    """One file or several, as a list."""

    def clean(self, data: Any, initial: Any = None) -> Any:
        return [super(FilesField, self).clean(file, initial) for file in data or []]


class UploadForm(forms.Form):
    """Target agent and user, format and file of an import."""

    agent_id = forms.RegexField(AGENT_ID_PATTERN, label=_("agent"), max_length=255, widget=UnfoldAdminTextInputWidget)
    user_id = UserField(
        label=_("user"), help_text=_("Empty: the agent itself, or the users that the file names (mem0, Open WebUI).")
    )
    new_user = forms.BooleanField(
        label=_("New user"),
        required=False,
        widget=UnfoldBooleanWidget,
        help_text=_("Create the user if the agent does not have it yet."),
    )
    format = forms.ChoiceField(label=_("format"), choices=FORMAT_NAMES, required=False, widget=UnfoldAdminSelectWidget)
    columns = forms.CharField(
        label=_("columns"),
        max_length=1_000,
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Only for CSV or JSON Lines whose columns are not recognised: content=text, created_at=date."),
    )
    file_name = forms.CharField(required=False, max_length=255, widget=forms.HiddenInput)
    file = FilesField(
        label=_("file"),
        required=False,
        widget=FilesInput(attrs={"class": "hub-input"}),
        help_text=_("The zip as downloaded, or files from it."),
    )

    def clean_columns(self) -> dict[str, str]:
        try:
            return parse_columns(self.cleaned_data["columns"])
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if not values.get("file") and not values.get("file_name"):
            self.add_error("file", gettext("Choose a file."))
        if values.get("agent_id"):
            check_user(self, values["agent_id"])
        return values


def imports_view(request: HttpRequest) -> HttpResponse:
    """List the imports, and accept a new file: whole, or in chunks by the page's script."""
    form = UploadForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        try:
            row = _begin(request, form.cleaned_data)
        except DomainError as error:
            for field, problem in form_errors(error):
                form.add_error(field if field in form.fields else None, problem)
        else:
            address = reverse("import_page", args=[row.pk])
            if "in_pieces" in request.POST:
                return JsonResponse({"pieces": reverse("import_chunk", args=[row.pk]), "page": address})
            return HttpResponseRedirect(address)
    if "in_pieces" in request.POST:
        return JsonResponse(
            {"problems": [problem for errors in form.errors.values() for problem in errors]}, status=400
        )
    rows = with_jobs(list(Import.objects.select_related("actor")[:MAX_LISTED]))
    listed = [
        {
            "row": row,
            "file": text_cell(row.file_name or str(row.pk)),
            "owner": owner_label(row.actor),
            "state": STATE_LABELS[state_of(row)],
            "format": FORMATS[row.format].label if row.format in FORMATS else "",
            "new": format_count(sum(row.report.get("made", {}).values())),
        }
        for row in rows
    ]
    shown = {"form": form, "listed": listed, "labels": format_labels()}
    return render_page(request, "admin/memoryhub/imports.html", title=_("Imports"), **shown)


def _begin(request: HttpRequest, values: dict[str, Any]) -> Import:
    by, now, file = principal(request), clock(), _packed(values["file"])
    actor = actor_for_writing(by, values["agent_id"], values["user_id"], now=now)
    name = (file.name if file else "") or values["file_name"]
    row = new_import(
        actor=actor,
        format=values["format"],
        columns=values["columns"],
        file_name=name,
        names_users=not values["user_id"],
        by=by,
        now=now,
    )
    if file:
        row = _append(row, file, by)
        enqueue_import_step(row=row, verb=PREVIEW, by=by, now=now)
    return row


def _packed(files: Sequence[UploadedFile]) -> UploadedFile | None:
    """Return one file, several as a zip, None for none; the page's script packs its own."""
    if len(files) <= 1:
        return files[0] if files else None
    packed = TemporaryUploadedFile("files.zip", "application/zip", 0, None)
    with zipfile.ZipFile(packed, "w") as archive:
        for number, file in enumerate(files):
            with archive.open(f"{number}/{PurePosixPath(file.name or '').name}", "w") as member:
                for piece in file.chunks():
                    member.write(piece)
    packed.size = packed.tell()
    return packed


def _append(row: Import, file: UploadedFile, by: Principal, offset: int = 0) -> Import:
    for piece in file.chunks(CHUNK_BYTES):
        row = append_chunk(row=row, offset=offset, data=piece, by=by)
        offset += len(piece)
    return row


def chunk_view(request: HttpRequest, import_id: UUID) -> HttpResponse:
    """Append a chunk of a file, sent by the page's script; the last one enqueues the preview."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    row, offset = _row(import_id), submitted_number(request, "offset")
    try:
        if (piece := request.FILES.get("piece")) is not None:
            row = _append(row, piece, principal(request), offset or 0)
        # The client may repeat a piece because the answer to it was lost.
        if "is_last" in request.POST and state_of(with_jobs([row])[0]) == "uploading":
            enqueue_import_step(row=row, verb=PREVIEW, by=principal(request), now=clock())
    except DomainError as error:
        return JsonResponse({"problems": [str(error)], "size": row.size}, status=409)
    return JsonResponse({"size": row.size})


def import_view(request: HttpRequest, import_id: UUID) -> HttpResponse:
    """Show an import's preview or report, its progress, and the next actions."""
    row = _row(import_id)
    if request.method == "POST":
        try:
            _act(request, row)
        except DomainError as error:
            messages.error(request, str(error))
        return HttpResponseRedirect(request.path)
    state, report = state_of(row), row.report
    is_open = row.job is not None and state in ("previewing", "importing", "undoing")
    if is_open and row.job is not None and row.job.cursor:
        report = row.job.cursor.get("report", report)
    progress = (row.job.progress if is_open and row.job is not None else None) or {}
    title = gettext("Import of %(file)s") % {"file": row.file_name} if row.file_name else _("Import")
    return render_page(
        request, "admin/memoryhub/import.html", title=title, row=row, state=state,
        state_in_words=STATE_LABELS[state], is_open=is_open, progress=progress,
        counts=[
            (label, *(format_count(report.get(part, {}).get(name, 0)) for part in ("made", "known", "refused")))
            for name, label in ROW_LABELS.items()
        ] if report else [],
        readings=readings_of(row),
        conversations=[line for lines in CONVERSATIONS for line in lines(row)] if state == "imported" else [],
        cost=extraction_cost(row, now=clock()) if state != "undone" else None,
        format=FORMATS.get(row.format), format_key=row.format, formats=FORMAT_NAMES,
        reasons=[
            (count, _translated(why))
            for why, count in sorted(report.get("reasons", {}).items(), key=lambda item: -item[1])[:MAX_NOTES]
        ],
        dropped=sorted(report.get("dropped", {}).items(), key=lambda item: -item[1]["count"]),
        notes=[{**note, **_translated(note["why"])} for note in report.get("notes", [])[:MAX_NOTES]],
        problem=translated(report.get("problem", "")), kept=report.get("kept"),
        may_run=not is_open and row.imported_at is None and row.size > 0,
        may_undo=not is_open and row.undone_at is None and row.imported_at is not None,
    )  # fmt: skip


def _translated(why: str) -> dict[str, str]:
    """Return a reason of a report, which stores it in English, for the reader, and its language where it is English."""
    shown = translated(why)
    return {"why": shown, "language": "en" if shown == why else ""}


def _act(request: HttpRequest, row: Import) -> None:
    """Do what a form of the page orders. Raises DomainError."""
    by, verb, format = principal(request), submitted_text(request, "verb"), submitted_text(request, "format")
    if "row_id" in request.POST:
        _undo_conversation(request, row)
    elif verb in (PAUSE, RESUME):
        order_reading(row=row, verb=verb, by=by, now=clock())
    else:
        verb = verb if verb in (PREVIEW, RUN, UNDO) else PREVIEW
        chosen = format if "format" in request.POST and format in dict(FORMAT_NAMES) else None
        enqueue_import_step(row=row, verb=verb, format=chosen, by=by, now=clock())


def _undo_conversation(request: HttpRequest, row: Import) -> None:
    row_id = as_uuid(submitted_text(request, "row_id"))
    if row_id is None or state_of(row) != "imported":
        raise Http404
    if undo_conversation(row=row, row_id=row_id, by=principal(request), reason=UNDO_REASON, now=clock()):
        messages.error(request, gettext("The conversation was changed since the import, and is kept."))
    else:
        messages.success(request, gettext("The conversation was removed, with the memories from it alone."))


def _row(import_id: UUID) -> Import:
    row = Import.objects.select_related("actor__agent").filter(pk=import_id).first()
    if row is None:
        raise Http404
    return with_jobs([row])[0]


PAGES = [
    Page("imports/", "importer", imports_view, PERMISSIONS),
    Page("imports/<uuid:import_id>/", "import_page", import_view, PERMISSIONS),
    Page("imports/<uuid:import_id>/piece/", "import_chunk", chunk_view, PERMISSIONS),
]
