"""Imports of uploaded files: pieces into the database, then jobs that preview, import and undo."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet, Sum
from django.utils.text import format_lazy
from django.utils.timezone import now as clock
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.orders import job_principal, order_of
from memoryhub.auth.principals import Forbidden, Principal
from memoryhub.auth.sealed import cipher
from memoryhub.env import private_folder
from memoryhub.errors import DomainError
from memoryhub.importexport.foreign.archives import Archive, open_archive
from memoryhub.importexport.foreign.imports import (
    READERS,
    UNTRUSTED_UNDO,
    CannotImport,
    ImportContext,
    dry_step,
    import_records,
    report_values,
    resolve_format,
    stored_report,
    undo_rows,
)
from memoryhub.importexport.foreign.models import Import, ImportedRow, UploadedPiece
from memoryhub.importexport.native.importer import TargetNames
from memoryhub.importexport.native.jsonl import BrokenFile
from memoryhub.jobs.context import JobContext
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.jobs.retries import OPEN, Postponed, State

KIND: Final = "import_file"
MAX_UPLOAD_BYTES: Final = 8 * 2**30
"""Of all files that wait to be imported for one agent."""

PIECE_BYTES: Final = 2**20
PIECES_AT_ONCE: Final = 4
RETENTION: Final = timedelta(days=7)
LONGEST_READ: Final = timedelta(hours=2)
"""For which a job may read a file; the deadline of its kind is an hour."""

SECONDS_PER_BATCH: Final = 60.0
SUFFIXES: Final = (".zip", ".json", ".jsonl", ".af", ".md", ".csv", ".tsv")
UNDO_REASON: Final = "Undo of an import."

PREVIEW, RUN, UNDO = "preview", "run", "undo"
PAUSE, RESUME = "pause", "resume"
AUDIT_VERBS: Final = {PREVIEW: "preview", RUN: "import", UNDO: "undo"}
RUNNING_STATES: Final = {PREVIEW: "previewing", RUN: "importing", UNDO: "undoing"}
STATES: Final = ("uploading", *RUNNING_STATES.values(), "previewed", "imported", "undone", "failed")


class WrongOffset(DomainError):
    """A chunk that does not start at the end of the received bytes; `size` is their number."""

    code = "wrong_offset"
    field = "offset"

    def __init__(self, size: int) -> None:
        self.members = {"size": size}
        super().__init__(format_lazy(_("There are {size} bytes so far; send those that follow."), size=size))


class WrongImportState(DomainError):
    """The import is in another state than this needs."""

    code = "wrong_import_state"


@transaction.atomic
def append_chunk(*, row: Import, offset: int, data: bytes, by: Principal) -> Import:
    """Append bytes to an import's file; a repeated chunk changes nothing. Raises WrongOffset, Forbidden."""
    row = Import.objects.select_for_update().select_related("actor__agent").get(actor_id=row.actor_id, pk=row.pk)
    _check_caller(row, by)
    if row.imported_at is not None:
        raise WrongImportState(_("This file was imported already; start another import."))
    if offset + len(data) <= row.size:
        return row
    if offset != row.size:
        raise WrongOffset(row.size)
    kept = Import.objects.filter(imported_at=None, created_at__gt=clock() - RETENTION)
    waiting = kept.filter(actor__agent_id=row.actor.agent_id).aggregate(size=Sum("size"))
    if (waiting["size"] or 0) + len(data) > MAX_UPLOAD_BYTES:
        text = _("The files that an agent’s imports wait with have at most {most} bytes: run, or wait for, the others.")
        raise CannotImport(format_lazy(text, most=MAX_UPLOAD_BYTES))
    for start in range(0, len(data), PIECE_BYTES):
        piece = _cipher().encrypt(data[start : start + PIECE_BYTES])
        UploadedPiece.objects.create(actor_id=row.actor_id, import_id=row.pk, offset=row.size + start, data=piece)
    row.size += len(data)
    row.save(update_fields=["size"])
    return row


def _check_caller(row: Import, by: Principal) -> None:
    if row.is_trusted and not by.is_trusted:
        raise Forbidden(
            _("An untrusted key may not change an import that a trusted one started; start another import.")
        )


@contextmanager
def uploaded_file(row: Import) -> Iterator[Path]:
    """Copy an import's file into the data folder while it is read. Raises CannotImport where pieces are missing."""
    folder = private_folder(uploads_folder())
    for left in folder.iterdir():  # by a worker that was killed
        with suppress(FileNotFoundError):  # another job on this host has just ended
            if left.stat().st_mtime < (clock() - LONGEST_READ).timestamp():
                left.unlink()
    suffix = PurePosixPath(row.file_name).suffix.lower()
    with NamedTemporaryFile(dir=folder, suffix=suffix if suffix in SUFFIXES else "") as file:
        pieces = _pieces(row).order_by("offset").values_list("data", flat=True)
        for data in pieces.iterator(chunk_size=PIECES_AT_ONCE):
            file.write(_decrypted(bytes(data)))
        file.flush()
        if file.tell() < row.size:
            raise CannotImport("The uploaded file is gone; begin another import.")
        yield Path(file.name)


def _cipher() -> Any:
    """Return the cipher of uploaded files, which are stored before their texts can be screened for secrets."""
    return cipher("memoryhub.imports", "uploaded files")


def _decrypted(data: bytes) -> bytes:
    from cryptography.fernet import InvalidToken

    try:
        return bytes(_cipher().decrypt(data))
    except InvalidToken:
        raise CannotImport("The file was uploaded under another SECRET_KEY; begin another import.") from None


def _pieces(row: Import) -> QuerySet[UploadedPiece]:
    return UploadedPiece.objects.filter(actor_id=row.actor_id, import_id=row.pk)


def uploads_folder() -> Path:
    return Path(settings.ENVIRONMENT.data_dir) / "imports"


def with_jobs(rows: Sequence[Import]) -> Sequence[Import]:
    """Set each import's `job`, its latest; None where it has none."""
    jobs = Job.objects.filter(actor_id__in={row.actor_id for row in rows}, kind=KIND)
    jobs = jobs.filter(key__in=[str(row.pk) for row in rows]).order_by("created_at", "id")
    latest = {job.key: job for job in jobs}
    for row in rows:
        row.job = latest.get(str(row.pk))
    return rows


def state_of(row: Import) -> str:
    """Return the state of an import that was loaded `with_jobs`."""
    if row.job is not None and row.job.state in OPEN:
        return RUNNING_STATES[row.job.payload["verb"]]
    if "problem" in row.report or (row.job is not None and row.job.state != State.DONE):
        return "failed"
    if row.undone_at is not None:
        return "undone"
    if row.imported_at is not None:
        return "imported"
    return "previewed" if row.previewed_at is not None else "uploading"


@transaction.atomic
def enqueue_import_step(*, row: Import, verb: str, by: Principal, now: datetime, format: str | None = None) -> UUID:
    """Enqueue the preview, run or undo of an import and return the job's id. Raises WrongImportState, Forbidden.

    A `format` corrects the one that was recognised; "" recognises it again.
    """
    row = Import.objects.select_for_update().get(actor_id=row.actor_id, pk=row.pk)
    _check_caller(row, by)
    if verb == UNDO and not by.is_trusted:
        raise Forbidden(UNTRUSTED_UNDO)
    job = with_jobs([row])[0].job
    if job is not None and job.state in OPEN:
        raise WrongImportState(_("Another job of this import is running; wait for it."))
    has_rows = (
        row.imported_at is not None or ImportedRow.objects.filter(actor_id=row.actor_id, import_id=row.pk).exists()
    )
    if verb == UNDO and (row.undone_at is not None or not has_rows):
        raise WrongImportState(_("There is nothing to undo: it was not imported, or was undone already."))
    if verb != UNDO and (row.imported_at is not None or not row.size):
        raise WrongImportState(_("There is no file to import: send it first, or start another import."))
    if verb != UNDO and format is not None:
        row.format = format
        row.save(update_fields=["format"])
    audit.record(by=by, verb=AUDIT_VERBS[verb], row=row, now=now)
    return enqueue(
        KIND, actor_id=row.actor_id, key=str(row.pk), payload={"import": str(row.pk), "verb": verb}, order=order_of(by)
    )


def order_reading(*, row: Import, verb: str, by: Principal, now: datetime) -> None:
    """Pause or resume the extraction of an import's conversations. Raises WrongImportState, Forbidden."""
    _check_caller(row, by)
    if state_of(row) != "imported":
        raise WrongImportState(_("The extraction of an import can be paused once it is imported."))
    for reader in READERS:
        (reader.pause if verb == PAUSE else reader.resume)(row=row, by=by, now=now)


def run_import_step(job: JobContext) -> Any:
    """Preview, run or undo an import, from where the last attempt stopped."""
    rows = Import.objects.filter(actor_id=UUID(str(job.actor_id))).select_related("actor__agent")
    row = rows.get(pk=job.payload["import"])
    return _undo(job, row) if job.payload["verb"] == UNDO else _import(job, row)


def _import(job: JobContext, row: Import) -> Any:
    dry_run, by = job.payload["verb"] == PREVIEW, job_principal(job)
    cursor = job.cursor or {"records": 0, "report": {}}
    names = TargetNames(row.actor.agent_id, None if row.names_users else row.actor.user_id)
    context = ImportContext(
        format=row.format,
        names=names,
        by=replace(by, is_trusted=by.is_trusted and row.is_trusted),
        now=clock(),
        dry_run=dry_run,
        row=row,
        report=stored_report(cursor["report"]),
    )
    problem = ""
    try:
        with uploaded_file(row) as path:
            archive = open_archive(path, name=row.file_name, columns=row.columns)
            context.format = resolve_format(archive, row.format, names)
            import_records(archive, context=context, step=_step_factory(job, archive, context), skip=cursor["records"])
    except (BrokenFile, CannotImport) as error:
        problem = str(error)

    def writes() -> None:
        row.format = context.format
        row.report = report_values(context.report) | ({"problem": problem} if problem else {})
        if not problem:
            setattr(row, "previewed_at" if dry_run else "imported_at", context.now)
        row.save(update_fields=["format", "report", "previewed_at", "imported_at"])
        if not problem and not dry_run:
            _pieces(row).delete()

    return writes


def _step_factory(job: JobContext, archive: Archive, context: ImportContext) -> Any:
    """Return a context manager per batch: a step of the job that stores the number of records and the report."""

    @contextmanager
    def step(number: int) -> Iterator[None]:
        cursor: dict[str, Any] = {}
        outer: AbstractContextManager[None] = job.step(cursor=cursor, done=archive.done, total=archive.total)
        if context.dry_run:
            with dry_step(context):
                yield
            with outer:
                cursor.update(records=number, report=report_values(context.report))
        else:
            with outer:
                yield
                cursor.update(records=number, report=report_values(context.report))
        if job.seconds_left < SECONDS_PER_BATCH:
            raise Postponed("The file is long; the next attempt goes on from here.", seconds=0)

    return step


def _undo(job: JobContext, row: Import) -> Any:
    kept = job.cursor["kept"] if job.cursor else 0
    total = done = 0
    while True:
        cursor = {"kept": kept}
        with job.step(cursor=cursor, done=done, total=max(total, done)):
            count, stayed = undo_rows(row=row, by=job_principal(job), reason=UNDO_REASON, now=clock())
            kept, done = kept + stayed, done + count
            cursor["kept"] = kept
        if not count:
            break
        if job.seconds_left < SECONDS_PER_BATCH:
            raise Postponed("There is much to undo; the next attempt goes on from here.", seconds=0)

    def writes() -> None:
        row.undone_at = clock()
        row.report = {**row.report, "kept": kept}
        row.save(update_fields=["undone_at", "report"])

    return writes


def old_pieces(now: datetime) -> QuerySet[UploadedPiece]:
    """Return the pieces of files that were not imported for a week."""
    return UploadedPiece.objects.filter(
        import_id__in=Import.objects.filter(created_at__lt=now - RETENTION).values("pk")
    )
