"""Import of an export: check the whole file, then write rows in batches, each indexed at once.

Existing rows are kept. Rows that the database or a missing reference refuses are reported with their line, and the
others are written.

Under another name, ids are derived from the old id and the new actor, so that a second import finds the rows of the
first; the first 48 bits (the time) are kept, so that rows keep their order.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, Final
from uuid import UUID

from django.db import DatabaseError, connection, transaction

from memoryhub.auth import audit
from memoryhub.auth.access import lock_actor
from memoryhub.auth.principals import Principal
from memoryhub.importexport.native.fields import ACTORS, AGENTS, Table, WrongValue, tables_by_name
from memoryhub.importexport.native.indexing import index
from memoryhub.importexport.native.jsonl import BrokenFile, Line, Part, Report, read_lines
from memoryhub.importexport.native.stored_texts import screen_actor
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.namespaces import namespace_owner
from memoryhub.tenancy.policy import AGENT_ID_PATTERN, MAX_USER_ID, actor_id

Progress = Callable[[int], None]
MAX_PROBLEMS: Final = 20
_PROGRESS_LINES: Final = 1_000
BATCH_ROWS: Final = 500
BATCH_BYTES: Final = 4 * 2**20

DIFFERS: Final = "is here already and differs; what is here is kept."
ID_TAKEN: Final = "its id belongs to a row of somebody else here."
MISSING_REFERENCE: Final = "refers to a row that is not here."
NOT_TRUSTED: Final = "is nothing that an untrusted export may bring."

_TIME_BYTES = 6
_FIXED_BITS = (0xF << 76) | (0x3 << 62)
_VERSION_7 = (0x7 << 76) | (0x2 << 62)


@dataclass(frozen=True)
class TargetNames:
    """Agent and user to import into; None keeps those of the file."""

    agent_id: str | None = None
    user_id: str | None = None

    def of(self, agent_id: str, user_id: str) -> tuple[str, str]:
        return (agent_id if self.agent_id is None else self.agent_id, user_id if self.user_id is None else self.user_id)


@dataclass
class IdMap:
    """Map of old ids to new ones, as integers to save memory: it has as many entries as the import has rows."""

    ids: dict[int, int] = field(default_factory=dict)

    def add(self, old: UUID, actor: UUID) -> None:
        self.ids[old.int] = renamed_id(old, actor).int

    def add_actor(self, old: UUID, new: UUID) -> None:
        self.ids[old.int] = new.int

    def id(self, text: Any) -> Any:
        if not isinstance(text, str) or len(text) != 36:
            return text
        try:
            new = self.ids.get(UUID(text).int)
        except ValueError:
            return text
        return text if new is None else str(UUID(int=new))

    def rewrite(self, value: Any, owners: Mapping[str, str]) -> Any:
        """Rewrite ids and namespace owners inside a JSON value."""
        if isinstance(value, list):
            return [self.rewrite(item, owners) for item in value]
        if isinstance(value, dict):
            return {
                self.id(key): namespace(item, owners) if key == "namespace" else self.rewrite(item, owners)
                for key, item in value.items()
            }
        return self.id(value)


def renamed_id(old: UUID, actor: UUID) -> UUID:
    digest = hashlib.sha256(actor.bytes + old.bytes).digest()
    number = int.from_bytes(old.bytes[:_TIME_BYTES] + digest[: 16 - _TIME_BYTES], "big")
    return UUID(int=number & ~_FIXED_BITS | _VERSION_7)


def owners(old: tuple[str, str], new: tuple[str, str]) -> dict[str, str]:
    return {namespace_owner(*old): namespace_owner(*new)}


def namespace(path: Any, owners: Mapping[str, str]) -> Any:
    if not isinstance(path, str):
        return path
    return "/".join(owners.get(part, part) for part in path.split("/"))


@dataclass
class CheckResult:
    lines: int = 0
    agents: set[str] = field(default_factory=set)
    actors: int = 0
    id_map: IdMap = field(default_factory=IdMap)


def check_names(names: TargetNames) -> None:
    if names.agent_id is not None and not AGENT_ID_PATTERN.match(names.agent_id):
        raise BrokenFile("An agent's id has letters, digits, - and _ alone.")
    if names.user_id is not None and (len(names.user_id) > MAX_USER_ID or "\x00" in names.user_id):
        raise BrokenFile(f"A user's id has at most {MAX_USER_ID} characters, and no NUL.")


def check(file: BinaryIO, names: TargetNames, *, progress: Progress) -> CheckResult:
    """Read the whole export. Raises BrokenFile with the first twenty wrong lines."""
    check_names(names)
    checker = _Checker(names, tables_by_name())
    for line in read_lines(file):
        checker.check_line(line)
        if line.number % _PROGRESS_LINES == 0:
            progress(_PROGRESS_LINES)
    checker.finish()
    return checker.checked


class _Checker:
    def __init__(self, names: TargetNames, tables: Mapping[str, Table]) -> None:
        self.names, self.tables = names, tables
        self.checked = CheckResult()
        self.problems: list[str] = []
        self.agent: str | None = None
        self.actor: UUID | None = None
        self.new_actor: UUID | None = None

    def check_line(self, line: Line) -> None:
        self.checked.lines = line.number
        handlers: dict[Part, Callable[[Line], None]] = {
            Part.AGENT: self._agent,
            Part.ACTOR: self._actor,
            Part.ROW: self._row,
        }
        try:
            if line.part in handlers:
                handlers[line.part](line)
        except WrongValue as error:
            self.problems.append(f"Line {line.number}: {error}")
            if len(self.problems) >= MAX_PROBLEMS:
                raise BrokenFile("\n".join([*self.problems, "… and perhaps more."])) from None

    def finish(self) -> None:
        if self.names.agent_id is not None and len(self.checked.agents) > 1:
            self.problems.append("The file holds several agents; leave out --agent, which would make one of them.")
        if self.names.user_id is not None and self.checked.actors > 1:
            self.problems.append("The file holds several actors; leave out --user, which would make one of them.")
        if self.problems:
            raise BrokenFile("\n".join(self.problems))

    def _agent(self, line: Line) -> None:
        agent: Any = AGENTS.read(line.values, None)
        self.agent, self.actor = agent.agent_id, None
        self.checked.agents.add(agent.agent_id)

    def _actor(self, line: Line) -> None:
        actor: Any = ACTORS.read(line.values, None)
        if actor.agent_id != self.agent:
            raise WrongValue("the actor stands below another agent's line.")
        if actor.id != actor_id(actor.agent_id, actor.user_id):
            raise WrongValue("the actor's id is not that of its agent and user.")
        self.actor = actor.id
        self.new_actor = actor_id(*self.names.of(actor.agent_id, actor.user_id))
        self.checked.actors += 1
        if self.new_actor != self.actor:
            self.checked.id_map.add_actor(actor.id, self.new_actor)

    def _row(self, line: Line) -> None:
        table = self.tables.get(line.table)
        if table is None:
            raise WrongValue(f"the table {line.table[:60]!a} is not known here.")
        if self.actor is None or self.new_actor is None:
            raise WrongValue("the row stands below no actor's line.")
        row = table.read(line.values, self.actor)
        if table.id_column and self.new_actor != self.actor:
            self.checked.id_map.add(getattr(row, table.id_column), self.new_actor)


@dataclass(frozen=True)
class Row:
    line: int
    instance: Any = field(repr=False)
    values: Mapping[str, Any] = field(repr=False)


def store(
    file: BinaryIO,
    checked: CheckResult,
    names: TargetNames,
    *,
    by: Principal,
    now: datetime,
    dry_run: bool,
    progress: Progress,
) -> Report:
    """Write a checked export and return the report; a dry run rolls everything back."""
    importer = _Importer(checked, names, by, now, dry_run, progress)
    with transaction.atomic() if dry_run else nullcontext():
        importer.run(file)
        if dry_run:
            transaction.set_rollback(True)
    return importer.report


class _Importer:
    def __init__(
        self, checked: CheckResult, names: TargetNames, by: Principal, now: datetime, dry_run: bool, progress: Progress
    ) -> None:
        self.id_map, self.names = checked.id_map, names
        self.by, self.now, self.dry_run, self.progress = by, now, dry_run, progress
        self.tables = tables_by_name()
        self.report = Report()
        self.actor: Actor | None = None
        self.owners: dict[str, str] = {}
        self.created: Counter[str] = Counter()
        self.table: Table | None = None
        self.batch: list[Row] = []
        self.deferred: list[Row] = []
        self.size = 0

    def run(self, file: BinaryIO) -> None:
        handlers: dict[Part, Callable[[Line], None]] = {
            Part.AGENT: self._agent,
            Part.ACTOR: self._actor,
            Part.ROW: self._row,
        }
        for line in read_lines(file):
            if line.part in handlers:
                handlers[line.part](line)
        self._finish_actor()

    def _agent(self, line: Line) -> None:
        self._finish_actor()
        values = dict(line.values)
        if self.names.agent_id is not None:
            values["agent_id"] = self.names.agent_id
        if self.names.user_id is not None and values.get("fixed_user_id"):
            values["fixed_user_id"] = self.names.user_id
        row = Row(line.number, AGENTS.read(values, None), values)
        if not self.by.is_trusted:
            AGENTS.apply_untrusted_values(row.instance)
        with transaction.atomic():
            if self._insert(AGENTS, self._new_rows(AGENTS, [row])):
                audit.record(by=self.by, verb="import", row=row.instance, now=self.now)

    def _actor(self, line: Line) -> None:
        self._finish_actor()
        old = (str(line.values["agent_id"]), str(line.values["user_id"]))
        new = self.names.of(*old)
        self.owners = owners(old, new) if old != new else {}
        key = actor_id(*new)
        values = {**line.values, "id": str(key), "agent_id": new[0], "user_id": new[1]}
        row = Row(line.number, ACTORS.read(values, None), values)
        if not self.by.is_trusted:
            ACTORS.apply_untrusted_values(row.instance)
        with transaction.atomic():
            self._insert(ACTORS, self._new_rows(ACTORS, [row]))
        self.actor = Actor.objects.select_related("agent").get(id=key)
        if self.actor.agent.fixed_user_id not in ("", new[1]):
            self.report.note(line.number, ACTORS.name, "its agent here is in owner mode, and files under another user.")

    def _row(self, line: Line) -> None:
        table = self.tables[line.table]
        if table != self.table or len(self.batch) >= BATCH_ROWS or self.size >= BATCH_BYTES:
            self._flush(is_last=table != self.table)
        self.table = table
        values = line.values
        if self.id_map.ids:
            values = {
                name: namespace(value, self.owners)
                if name == "namespace"
                else self.id_map.rewrite(value, self.owners)
                if table.codecs[name].may_hold_ids
                else value
                for name, value in values.items()
            }
        instance = table.read(values, self._actor_id())
        if not self.by.is_trusted and not table.apply_untrusted_values(instance):
            self.report.refuse(line.number, table.name, NOT_TRUSTED)
            return
        self.batch.append(Row(line.number, instance, values))
        self.size += line.size

    def _actor_id(self) -> UUID:
        if self.actor is None:  # pragma: no cover - the check has seen every row below an actor
            raise LookupError("a row without an actor")
        return self.actor.id

    def _finish_actor(self) -> None:
        self._flush(is_last=True)
        self.table = None
        if self.actor is not None and not self.dry_run:
            screen_actor(self.actor, by=self.by, now=self.now, batch_size=BATCH_ROWS)
        if self.actor is not None and self.created:
            details = {"made": dict(sorted(self.created.items()))}
            audit.record(by=self.by, verb="import", row=self.actor, details=details, now=self.now)
        self.created = Counter()
        self.actor = None

    def _flush(self, *, is_last: bool) -> None:
        """Write the batch; rows that refer to later rows of their table stay pending."""
        if self.table is None:
            return
        rows, self.batch, self.size = [*self.deferred, *self.batch], [], 0
        with transaction.atomic(), connection.cursor() as cursor:
            lock_actor(self._actor_id())
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
            ready, self.deferred = self._split_ready(self.table, rows)
            if is_last:
                ready, self.deferred = rows, []
            fresh = self._with_references(self.table, self._new_rows(self.table, ready))
            written = self._insert(self.table, fresh)
            if written and hasattr(self.table.model, "after_import"):
                self.table.model.after_import(self._actor_id(), [row.instance for row in written], self.now)
            if not self.dry_run:
                index(self._actor_id(), [row.instance for row in written])
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        self.progress(len(ready))

    def _split_ready(self, table: Table, rows: list[Row]) -> tuple[list[Row], list[Row]]:
        """Split rows into those with references that resolve within the table, and those to defer."""
        names = [name for name, model in table.references.items() if model is table.model]
        if not names:
            return rows, []
        referenced = {getattr(row.instance, name) for row in rows for name in names} - {None}
        ready = _resolvable(rows, names, self._existing_keys(table, referenced), among_rows=True)
        lines = {row.line for row in ready}
        return ready, [row for row in rows if row.line not in lines]

    def _existing_keys(self, table: Table, pks: Iterable[Any]) -> set[Any]:
        existing = table.rows.filter(actor_id=self._actor_id(), pk__in=list(pks))
        return set(existing.values_list("pk", flat=len(table.key_order) == 1))

    def _new_rows(self, table: Table, rows: list[Row]) -> list[Row]:
        """Return the rows that do not exist yet; report the others as known or refused."""
        is_owned = table not in (AGENTS, ACTORS)
        existing_rows = table.rows.filter(pk__in=[row.instance.pk for row in rows])
        existing = {row.pk: row for row in existing_rows.annotate(**table.export_expressions)}
        new_rows = []
        for row in rows:
            if row.instance.pk not in existing:
                new_rows.append(row)
                continue
            if is_owned and existing[row.instance.pk].actor_id != self._actor_id():
                self.report.refuse(row.line, table.name, ID_TAKEN)
                continue
            stored_values = table.encode_row(table.values_of(existing[row.instance.pk]))
            differs = any(stored_values.get(name) != value for name, value in row.values.items())
            self.report.add_known(row.line, table.name, DIFFERS if differs else "")
        return new_rows

    def _with_references(self, table: Table, rows: list[Row]) -> list[Row]:
        """Return the rows with foreign keys that resolve; refuse the others."""
        valid = rows
        for name, model in table.references.items():
            referenced = {getattr(row.instance, name) for row in valid} - {None}
            existing = self._existing_keys(Table(model), referenced) if referenced else set()
            valid = _resolvable(valid, [name], existing, among_rows=model is table.model)
        valid_lines = {row.line for row in valid}
        for row in rows:
            if row.line not in valid_lines:
                self.report.refuse(row.line, table.name, MISSING_REFERENCE)
        return valid

    def _insert(self, table: Table, rows: list[Row]) -> list[Row]:
        """Insert rows at once, or one by one if the database refuses any; return the inserted ones."""
        try:
            with transaction.atomic():
                table.model._base_manager.bulk_create([row.instance for row in rows])
            written = rows
        except DatabaseError:
            written = []
            self_references = [name for name, model in table.references.items() if model is table.model]
            for row in _topological_order(self_references, rows):
                referenced = {getattr(row.instance, name) for name in self_references} - {None, row.instance.pk}
                if referenced and not referenced <= self._existing_keys(table, referenced):
                    self.report.refuse(row.line, table.name, MISSING_REFERENCE)
                    continue
                try:
                    with transaction.atomic():
                        table.model._base_manager.bulk_create([row.instance])
                except DatabaseError as error:
                    self.report.refuse(row.line, table.name, _reason(error))
                else:
                    written.append(row)
        if written:
            self.report.made[table.name] += len(written)
            self.created[table.name] += len(written)
        return written


def _resolvable(rows: list[Row], names: Sequence[str], existing: set[Any], *, among_rows: bool) -> list[Row]:
    """Return the rows whose columns `names` refer to what is present or, with `among_rows`, to each other."""
    while True:
        known = {None, *existing, *((row.instance.pk for row in rows) if among_rows else ())}
        resolvable = [row for row in rows if all(getattr(row.instance, name) in known for name in names)]
        if len(resolvable) == len(rows):
            return resolvable
        rows = resolvable


def _topological_order(columns: Sequence[str], rows: list[Row]) -> Iterator[Row]:
    """Yield referenced rows before those that refer to them by `columns`; cycles keep their order."""
    remaining = rows
    while remaining:
        keys = {row.instance.pk for row in remaining}
        ready = [
            row
            for row in remaining
            if not ({getattr(row.instance, name) for name in columns} - {row.instance.pk}) & keys
        ]
        yield from ready or remaining
        done = {row.line for row in ready or remaining}
        remaining = [row for row in remaining if row.line not in done]


def _reason(error: DatabaseError) -> str:
    """Name the violated constraint; the database's own message quotes values."""
    diagnostics = getattr(error.__cause__, "diag", None)
    constraint = getattr(diagnostics, "constraint_name", None)
    return f"conflicts with another row here ({constraint})." if constraint else "the database cannot hold it."
