"""Import foreign files: read records, write them in batches through the apps' writers, undo an import as a whole.

The command, the API and the admin call these actions. A batch is atomic. Existing rows are recognised by the other
system's ids, or by their texts: an interrupted run continues when it is started again, and a second run adds nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from itertools import groupby, islice
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any, Final, Protocol
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from memoryhub.auth import audit
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import Forbidden, Principal
from memoryhub.errors import DomainError, _
from memoryhub.importexport.foreign.archives import Archive, Zip
from memoryhub.importexport.foreign.formats import FORMATS, format_of
from memoryhub.importexport.foreign.models import Import, ImportedRow
from memoryhub.importexport.foreign.records import (
    RECORD_NAMES,
    SESSIONS,
    UNUSED_FILES,
    ImportedDocument,
    LocatedRecord,
    Omission,
    Refusal,
)
from memoryhub.importexport.native.importer import TargetNames
from memoryhub.importexport.native.jsonl import MAX_EXAMPLES, BrokenFile, Note, Report, printable
from memoryhub.tenancy.models import Actor

BATCH_WEIGHT: Final = 1_000
"""Messages and memories of a batch, about."""

BATCH_CHARACTERS: Final = 4_000_000
UNDO_BATCH_SIZE: Final = 200
MAX_NOTES: Final = 50
UNTRUSTED_UNDO: Final = _("An untrusted key may not undo an import; a curator can.")


class CannotImport(DomainError, ValueError):
    """The file or its options cannot be used; nothing was written."""

    code = "cannot_import"
    field = "file"


@dataclass
class ImportContext:
    """Context of an import for its writers: target, principal, time and report."""

    format: str
    names: TargetNames
    by: Principal
    now: datetime
    dry_run: bool = False
    row: Import | None = None
    file_name: str = ""
    report: Report = field(default_factory=Report)
    users: set[str] = field(default_factory=set)
    actors: dict[str, Actor] = field(default_factory=dict)
    """By user, as far as they were looked up."""
    rows: list[ImportedRow] = field(default_factory=list)
    """Rows noted in the current batch."""

    @property
    def channel(self) -> str:
        return f"import:{self.format}"

    def actor(self, user_id: str) -> Actor:
        """Return the actor of one of the file's users, under the target's names.

        Raises CannotImport where several users would be merged into one.
        """
        self.users.add(user_id)
        if self.names.user_id is not None and len(self.users - {""}) > 1:
            raise CannotImport(_("The file is of several users; without --user each gets their own."))
        agent_id, user_id = self.names.of("", user_id)
        if user_id not in self.actors:
            self.actors[user_id] = actor_for_writing(self.by, agent_id, user_id, now=self.now)
        return self.actors[user_id]

    def note_row(self, actor: Actor, kind: str, row_id: UUID, *, key: str = "", **details: Any) -> None:
        """Record a created or changed row for the undo of the import."""
        if self.row is None:
            self.row = new_import(
                actor=actor,
                format=self.format,
                file_name=self.file_name,
                names_users=self.names.user_id is None,
                by=self.by,
                now=self.now,
                imported_at=self.now,
            )
        self.rows.append(
            ImportedRow(actor=actor, import_id=self.row.pk, kind=kind, row_id=row_id, key=key, details=details)
        )

    def refuse(self, located: LocatedRecord, reason: str, name: str = "") -> None:
        self._locate(located)
        self.report.refuse(located.line, name or RECORD_NAMES[type(located.record)], reason)

    def note(self, located: LocatedRecord, reason: str) -> None:
        self._locate(located)
        self.report.note(located.line, RECORD_NAMES[type(located.record)], reason)

    def add_known(self, located: LocatedRecord, reason: str = "") -> None:
        self._locate(located)
        self.report.add_known(located.line, RECORD_NAMES[type(located.record)], reason)

    def drop(self, located: LocatedRecord, omission: Omission) -> None:
        self._locate(located)
        self.report.drop(located.line, omission.reason, omission.count, omission.where)

    def _locate(self, located: LocatedRecord) -> None:
        self.report.entry, self.report.file = located.entry, located.file


@dataclass(frozen=True)
class Cost:
    """Upper bounds of later work on an import: calls of a model, tokens, and US dollars where the price is known."""

    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    dollars: Decimal | None


@dataclass(frozen=True)
class Reading:
    """Progress of a model through an import's conversations: their messages, those that wait, and those passed over."""

    messages: int
    waiting: int
    skipped: int


class Reader(Protocol):
    """Reads an import's conversations in the background, until it is paused."""

    def reading(self, row: Import) -> Reading | None: ...

    def pause(self, *, row: Import, by: Principal, now: datetime) -> None: ...

    def resume(self, *, row: Import, by: Principal, now: datetime) -> None: ...


READERS: Final[list[Reader]] = []
"""Modules or objects that read; registered in `AppConfig.ready`."""


def readings_of(row: Import) -> list[Reading]:
    """Return how far an imported file's conversations are read."""
    return [found for reader in READERS if row.imported_at and not row.undone_at and (found := reader.reading(row))]


class CostEstimate(Protocol):
    def __call__(self, *, actor: Actor, sessions: int, tokens: int, now: datetime) -> Cost | None: ...


COST_ESTIMATES: Final[list[CostEstimate]] = []
"""Estimates of what apps do with new sessions; registered in `AppConfig.ready`."""


def extraction_cost(row: Import, *, now: datetime) -> Cost | None:
    """Return what reading an import's new conversations takes at most; None where nothing is read."""
    sessions, tokens = row.report.get("made", {}).get(SESSIONS, 0), row.report.get("tokens", 0)
    found = (estimate(actor=row.actor, sessions=sessions, tokens=tokens, now=now) for estimate in COST_ESTIMATES)
    return next(filter(None, found), None)


class Writer(Protocol):
    def __call__(self, records: Sequence[LocatedRecord], *, context: ImportContext) -> None: ...


class Undo(Protocol):
    """Undoes rows of one actor; returns the number of rows that stay, as they were changed since the import."""

    def __call__(
        self, rows: Sequence[ImportedRow], *, actor: Actor, by: Principal, reason: str, now: datetime
    ) -> int: ...


WRITERS: Final[dict[type[Any], Writer]] = {}
UNDOERS: Final[dict[str, Undo]] = {}
"""By type of record, and by kind of row; apps register theirs in `AppConfig.ready`."""

Step = Callable[[int], AbstractContextManager[None]]
"""Opens the transaction of a batch, given the number of records that it completes."""


def resolve_format(archive: Archive, format: str, names: TargetNames) -> str:
    """Return an archive's format. Raises BrokenFile where it is unknown, CannotImport where options are missing."""
    format = format or format_of(archive)
    if not format:
        raise BrokenFile(f"The format of this file is not recognised. {_hint(archive)}")
    if names.agent_id is None:
        raise CannotImport(_("The file names no agent: give --agent."))
    if names.user_id is None and not FORMATS[format].names_users:
        raise CannotImport(_("The file names no owner: give --agent and --user."))
    return format


def _hint(archive: Archive) -> str:
    """Return what an archive of an unknown format holds, and what to do about it."""
    shown = ", ".join(printable(name[-80:]) for name in archive.names[:MAX_EXAMPLES])
    held = f"It holds {len(archive.names)} files, such as {shown}. " if archive.is_many else ""
    if archive.ending(".zip") and not isinstance(archive, Zip):
        return "It is named .zip and is none: download it again."
    if archive.ending(".zip"):
        return f"{held}Unpack the archives in it first."
    if archive.ending("activity.html"):
        return f"{held}Choose JSON in Google Takeout."
    return f"{held}Name it, one of {', '.join(FORMATS)}."


def import_records(archive: Archive, *, context: ImportContext, step: Step, skip: int = 0) -> None:
    """Import the records of an archive after the first `skip`, each batch within a `step`.

    Raises BrokenFile where the archive is damaged; what came before is written.
    """
    if not archive.is_many:
        context.report.names_files = False
    batch: list[LocatedRecord] = []
    weight = size = number = 0
    # The reader is not bound to a name, so that its file is closed as soon as a step raises.
    for number, located in enumerate(islice(_read(archive, context), skip, None), skip + 1):
        if isinstance(located.record, Refusal):
            context.refuse(located, located.record.reason, located.record.record_name)
            continue
        if isinstance(located.record, Omission):
            context.drop(located, located.record)
            continue
        batch.append(located)
        weight, size = weight + located.record.weight, size + located.record.size
        if weight >= BATCH_WEIGHT or size >= BATCH_CHARACTERS:
            _write(batch, context, step(number))
            batch, weight, size = [], 0, 0
    _write(batch, context, step(max(number, skip)))


def _read(archive: Archive, context: ImportContext) -> Iterator[LocatedRecord]:
    """Yield an archive's records, then what names the files that the format has not opened."""
    yield from _with_distinct_names(FORMATS[context.format].reader.read(archive, context.now))
    unused = [name for name in archive.names if name not in archive.opened]
    for name in unused[:MAX_EXAMPLES]:
        yield LocatedRecord(Omission(UNUSED_FILES), file=name)
    if others := len(unused[MAX_EXAMPLES:]):
        yield LocatedRecord(Omission(UNUSED_FILES, others))


def _with_distinct_names(records: Iterable[LocatedRecord]) -> Iterator[LocatedRecord]:
    """Yield the records, with a number for each further text under the same name of a document."""
    texts: dict[tuple[str, str], list[int]] = {}
    for located in records:
        document = located.record
        if isinstance(document, ImportedDocument) and not document.base:
            known, text = texts.setdefault((document.project, document.name), []), hash(document.text)
            if text not in known:
                known.append(text)
            if number := known.index(text):
                located = replace(located, record=replace(document, name=f"{document.name} {number + 1}"))
        yield located


def _write(batch: Sequence[LocatedRecord], context: ImportContext, step: AbstractContextManager[None]) -> None:
    with step:
        for kind, write in WRITERS.items():
            records = [located for located in batch if isinstance(located.record, kind)]
            if records:
                write(records, context=context)
        ImportedRow.objects.bulk_create(context.rows)
        context.rows.clear()


@contextmanager
def dry_step(context: ImportContext) -> Iterator[None]:
    """Write a batch and roll it back; the report keeps its counts."""
    with transaction.atomic():
        row = context.row
        yield
        transaction.set_rollback(True)
    context.row = row
    context.actors.clear()  # the rollback may have removed some


@transaction.atomic
def new_import(*, actor: Actor, format: str, file_name: str, by: Principal, now: datetime, **values: Any) -> Import:
    """Begin an import; an uploaded file follows in chunks, and an empty `format` is recognised from it."""
    name = PurePosixPath(file_name.replace("\\", "/")).name[-255:]
    row = Import.objects.create(
        actor=actor, format=format, file_name=name, who_kind=by.kind, who_id=by.id,
        who_name=by.name[:150], is_trusted=by.is_trusted, created_at=now, **values,
    )  # fmt: skip
    audit.record(by=by, verb="import", row=row, details={"format": format}, now=now)
    return row


def store_report(row: Import, context: ImportContext) -> None:
    row.report = report_values(context.report)
    row.save(update_fields=["report"])


def report_values(report: Report) -> dict[str, Any]:
    """Return a report as it is stored: counts, reasons, what is left out, and the first notes."""
    counts = {name: dict(getattr(report, name)) for name in ("made", "known", "refused", "reasons")}
    dropped = {
        reason: {"count": count, "examples": report.examples.get(reason, [])}
        for reason, count in report.dropped.most_common()
    }
    notes = [asdict(note) for note in report.notes[:MAX_NOTES]]
    return {**counts, "dropped": dropped, "tokens": report.tokens, "notes": notes}


def stored_report(values: Mapping[str, Any]) -> Report:
    """Return a report from its stored values."""
    counts: dict[str, Any] = {name: Counter(values.get(name, {})) for name in ("made", "known", "refused", "reasons")}
    dropped = values.get("dropped", {})
    return Report(
        **counts,
        notes=[Note(**note) for note in values.get("notes", [])],
        tokens=values.get("tokens", 0),
        dropped=Counter({reason: each["count"] for reason, each in dropped.items()}),
        examples={reason: each["examples"] for reason, each in dropped.items()},
    )


def undo_rows(*, row: Import, by: Principal, reason: str, now: datetime) -> tuple[int, int]:
    """Undo the latest remaining rows of an import, in the caller's transaction.

    Returns the number of processed rows, and how many of them stay because they were changed since the import.
    """
    rows = list(_latest_rows(row)[:UNDO_BATCH_SIZE])
    return len(rows), _undo(rows, row=row, by=by, reason=reason, now=now)


@transaction.atomic
def undo_conversation(*, row: Import, row_id: UUID, by: Principal, reason: str, now: datetime) -> int:
    """Undo what an import made of one conversation; return the number of rows that were changed since, and stay.

    Raises Forbidden for an untrusted caller.
    """
    if not by.is_trusted:
        raise Forbidden(UNTRUSTED_UNDO)
    return _undo(list(_latest_rows(row).filter(row_id=row_id)), row=row, by=by, reason=reason, now=now)


def _latest_rows(row: Import) -> QuerySet[ImportedRow]:
    rows: QuerySet[ImportedRow] = ImportedRow.objects.filter(import_id=row.pk)
    return rows.select_related("actor__agent").order_by("-id")


def _undo(rows: Sequence[ImportedRow], *, row: Import, by: Principal, reason: str, now: datetime) -> int:
    kept = 0
    for (_actor_id, kind), group in groupby(rows, attrgetter("actor_id", "kind")):
        batch = list(group)
        kept += UNDOERS[kind](batch, actor=batch[0].actor, by=by, reason=reason, now=now)
    ImportedRow.objects.filter(import_id=row.pk, pk__in=[imported_row.pk for imported_row in rows]).delete()
    return kept
