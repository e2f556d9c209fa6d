"""Import foreign files: read records, write them in batches through the apps' writers, undo an import as a whole.

The command, the API and the admin call these actions. A batch is written whole or not at all; what is here already is
known again by what the other system calls it, or by its text, so a run that was stopped goes on when it is started
again, and a second run adds nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final, Protocol
from uuid import UUID

from django.db import transaction

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import actor_for_writing
from memoryhub.errors import DomainError, _
from memoryhub.importexport.archives import Archive
from memoryhub.importexport.formats import FORMATS, format_of
from memoryhub.importexport.importer import TargetNames
from memoryhub.importexport.jsonl import BrokenFile, Report
from memoryhub.importexport.models import Import, ImportedRow
from memoryhub.importexport.records import RECORD_NAMES, LocatedRecord, Refusal
from memoryhub.tenancy.models import Actor

BATCH_WEIGHT: Final = 1_000
"""Messages and memories of a batch, about."""

BATCH_CHARACTERS: Final = 4_000_000
UNDO_BATCH_SIZE: Final = 200
MAX_NOTES: Final = 50


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
    _actors: dict[str, Actor] = field(default_factory=dict)
    _rows: list[ImportedRow] = field(default_factory=list)

    @property
    def channel(self) -> str:
        """Return where rows say that they came from."""
        return f"import:{self.format}"

    def actor(self, user_id: str) -> Actor:
        """Return the actor of a user of the file, who may be called otherwise here."""
        agent_id, user_id = self.names.of("", user_id)
        if user_id not in self._actors:
            self._actors[user_id] = actor_for_writing(self.by, agent_id, user_id, now=self.now)
        return self._actors[user_id]

    def forget_actors(self) -> None:
        """Forget the actors of a batch that was rolled back: some may not exist any more."""
        self._actors.clear()

    def note_row(self, actor: Actor, kind: str, row_id: UUID, *, key: str = "", **details: Any) -> None:
        """Note a row that was made or changed, for the undo of the import."""
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
        self._rows.append(
            ImportedRow(actor=actor, import_id=self.row.pk, kind=kind, row_id=row_id, key=key, details=details)
        )

    def store_rows(self) -> None:
        ImportedRow.objects.bulk_create(self._rows)
        self._rows.clear()

    def refuse(self, located: LocatedRecord, why: str, what: str = "") -> None:
        self._place(located)
        self.report.refuse(located.line, what or RECORD_NAMES[type(located.record)], why)

    def note(self, located: LocatedRecord, why: str) -> None:
        self._place(located)
        self.report.note(located.line, RECORD_NAMES[type(located.record)], why)

    def know(self, located: LocatedRecord, why: str = "") -> None:
        self._place(located)
        self.report.know(located.line, RECORD_NAMES[type(located.record)], why)

    def _place(self, located: LocatedRecord) -> None:
        self.report.entry, self.report.file = located.entry, located.file


class Writer(Protocol):
    def __call__(self, records: Sequence[LocatedRecord], *, writing: ImportContext) -> None: ...


class Undo(Protocol):
    """Undoes rows of one actor, and returns how many it left because they were changed since."""

    def __call__(
        self, rows: Sequence[ImportedRow], *, actor: Actor, by: Principal, reason: str, now: datetime
    ) -> int: ...


WRITERS: Final[dict[type[Any], Writer]] = {}
UNDOERS: Final[dict[str, Undo]] = {}
"""By sort of record, and by kind of row; apps register theirs when they are ready."""

Step = Callable[[int], AbstractContextManager[None]]
"""Opens the transaction of a batch, given the number of records that it completes."""


def resolve_format(archive: Archive, format: str, names: TargetNames) -> str:
    """Return an archive's format. Raises BrokenFile where it is unknown, CannotImport where options are missing."""
    format = format or format_of(archive)
    if not format:
        raise BrokenFile(f"The format of this file is not recognised; name it, one of {', '.join(FORMATS)}.")
    if names.agent_id is None:
        raise CannotImport(_("The file does not say which agent remembers: name --agent."))
    if names.user_id is None and not FORMATS[format].names_users:
        raise CannotImport(_("The file does not say whose it is: name --agent and --user."))
    return format


def import_records(archive: Archive, *, writing: ImportContext, step: Step, skip: int = 0) -> None:
    """Import the records of an archive after the first `skip`, each batch within a `step`.

    Raises BrokenFile where the archive is damaged; what came before is written.
    """
    if not archive.is_many:
        writing.report.names_files = False
    batch: list[LocatedRecord] = []
    weight = size = number = 0
    # No name holds the reader: where a step raises, its file is closed at once.
    for number, located in enumerate(islice(FORMATS[writing.format].read(archive, writing.now), skip, None), skip + 1):
        if isinstance(located.record, Refusal):
            writing.refuse(located, located.record.why, located.record.what)
            continue
        batch.append(located)
        weight, size = weight + located.record.weight, size + located.record.size
        if weight >= BATCH_WEIGHT or size >= BATCH_CHARACTERS:
            _write(batch, writing, step(number))
            batch, weight, size = [], 0, 0
    _write(batch, writing, step(max(number, skip)))


def _write(batch: Sequence[LocatedRecord], writing: ImportContext, step: AbstractContextManager[None]) -> None:
    with step:
        for kind, write in WRITERS.items():
            own = [located for located in batch if isinstance(located.record, kind)]
            if own:
                write(own, writing=writing)
        writing.store_rows()


@contextmanager
def dry_step(writing: ImportContext) -> Iterator[None]:
    """Write a batch and roll it back; the report keeps what would have been."""
    with transaction.atomic():
        row = writing.row
        yield
        transaction.set_rollback(True)
    writing.row = row
    writing.forget_actors()


@transaction.atomic
def new_import(*, actor: Actor, format: str, file_name: str, by: Principal, now: datetime, **values: Any) -> Import:
    row = Import.objects.create(
        actor=actor, format=format, file_name=file_name[-255:], who_kind=by.kind, who_id=by.id,
        who_name=by.name[:150], is_trusted=by.is_trusted, created_at=now, **values,
    )  # fmt: skip
    audit.record(by=by, verb="import", row=row, details={"format": format}, now=now)
    return row


def store_report(row: Import, writing: ImportContext) -> None:
    row.report = report_values(writing.report)
    row.save(update_fields=["report"])


def report_values(report: Report) -> dict[str, Any]:
    """Return a report as it is stored: counts, reasons, and the first notes."""
    counts = {name: dict(getattr(report, name)) for name in ("made", "known", "refused", "reasons")}
    return {**counts, "notes": [asdict(note) for note in report.notes[:MAX_NOTES]]}


def undo_rows(*, row: Import, by: Principal, reason: str, now: datetime) -> tuple[int, int]:
    """Undo the last rows of an import that are left, in the caller's transaction; return how many, and how many stay.

    What was changed since the import stays as it is.
    """
    rows = list(
        ImportedRow.objects.filter(import_id=row.pk).select_related("actor__agent").order_by("-id")[:UNDO_BATCH_SIZE]
    )
    kept = 0
    for actor, kind, some in _runs(rows):
        kept += UNDOERS[kind](some, actor=actor, by=by, reason=reason, now=now)
    ImportedRow.objects.filter(import_id=row.pk, pk__in=[each.pk for each in rows]).delete()
    return len(rows), kept


def _runs(rows: Iterable[ImportedRow]) -> Iterator[tuple[Actor, str, list[ImportedRow]]]:
    """Yield consecutive rows of one actor and kind together."""
    run: list[ImportedRow] = []
    for each in rows:
        if run and (run[0].actor_id, run[0].kind) != (each.actor_id, each.kind):
            yield run[0].actor, run[0].kind, run
            run = []
        run.append(each)
    if run:
        yield run[0].actor, run[0].kind, run
