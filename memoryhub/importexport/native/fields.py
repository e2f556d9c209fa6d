"""Exported tables and columns, and the JSON codec of each column type.

Tables are all models with an `actor_id`, by Django's app registry, in order of reference, without index rows
(rebuilt) and those that apps leave out with a reason. A column type without a codec is an error at start, not during
an export.
"""

import base64
import binascii
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F
from django.db.models.functions import Collate

from memoryhub.auth.erasure import actor_models
from memoryhub.errors import DomainError
from memoryhub.search.models import SearchIndexRow
from memoryhub.tenancy.models import Actor, Agent

Encode = Callable[[Any], Any]
Decode = Callable[[Any], Any]
_SPECIAL_FLOATS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
_SPECIAL_NAMES = {str(value): word for word, value in _SPECIAL_FLOATS.items()}
_MICROSECOND = timedelta(microseconds=1)


class WrongValue(ValueError):
    """A value that its column cannot hold; the message does not quote it."""


@dataclass(frozen=True)
class Codec:
    """Encoder and decoder of a column type; `may_hold_ids` marks types with values that may be or contain ids."""

    encode: Encode
    decode: Decode
    may_hold_ids: bool = False


def codec_of(field: models.Field) -> Codec:
    """Return the codec of a field. Raises TypeError for a type without one."""
    if isinstance(field, models.ForeignKey):
        return codec_of(field.target_field)
    if isinstance(field, ArrayField):
        item = codec_of(field.base_field)

        def decode(values: Any) -> Any:
            if not isinstance(values, list):
                raise WrongValue("is no list.")
            return [None if value is None else item.decode(value) for value in values]

        return Codec(
            lambda values: [None if value is None else item.encode(value) for value in values],
            decode,
            item.may_hold_ids,
        )
    for kind, codec in _CODECS:
        if isinstance(field, kind):
            return codec
    raise TypeError(f"{field} has a type that exports do not know: give it a line in importexport/native/fields.py.")


def reader_of(field: models.Field) -> Decode:
    """Return a validating decoder of a field, which raises WrongValue.

    Built once per column: looking it up per value took most of the time of an import.
    """
    decode, null = codec_of(field).decode, field.null
    choices, validators = {choice for choice, _ in field.flatchoices}, field.validators

    def read(value: Any) -> Any:
        if value is None:
            if not null:
                raise WrongValue("is missing.")
            return None
        decoded = decode(value)
        if choices and decoded not in choices:
            raise WrongValue("is none of the words that are known here.")
        try:
            for validator in validators:
                validator(decoded)
        except ValidationError:
            raise WrongValue("does not fit its column.") from None
        return decoded

    return read


def _identity(value: Any) -> Any:
    return value


def _instance_of(*kinds: type) -> Decode:
    def decode(value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise WrongValue("is of the wrong type.")
        return value

    return decode


def _parse_with(parse: Callable[[str], Any]) -> Decode:
    def decode(value: Any) -> Any:
        try:
            return parse(_instance_of(str)(value))
        except WrongValue:
            raise
        except (ValueError, InvalidOperation, OverflowError, binascii.Error):
            raise WrongValue("cannot be read.") from None

    return decode


def _aware_datetime(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise WrongValue("is a time without a zone.")
    return moment


def _read_number(value: Any) -> float:
    if isinstance(value, str) and value in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[value]
    try:
        return float(_instance_of(int, float)(value))
    except OverflowError:
        raise WrongValue("is too large.") from None


def _read_duration(value: Any) -> timedelta:
    try:
        return timedelta(microseconds=_instance_of(int)(value))
    except OverflowError:
        raise WrongValue("is too large.") from None


# The first match wins, so subclasses come before their base classes.
_CODECS: tuple[tuple[type[models.Field] | tuple[type[models.Field], ...], Codec], ...] = (
    (models.UUIDField, Codec(str, _parse_with(UUID), may_hold_ids=True)),
    (models.DateTimeField, Codec(lambda moment: moment.astimezone(UTC).isoformat(), _parse_with(_aware_datetime))),
    (models.DateField, Codec(date.isoformat, _parse_with(date.fromisoformat))),
    (models.DurationField, Codec(lambda value: value // _MICROSECOND, _read_duration)),
    (
        models.BinaryField,
        Codec(
            lambda value: base64.b64encode(bytes(value)).decode(),
            _parse_with(lambda text: base64.b64decode(text, validate=True)),
        ),
    ),
    (models.JSONField, Codec(_identity, _identity, may_hold_ids=True)),
    (models.BooleanField, Codec(_identity, _instance_of(bool))),
    (models.DecimalField, Codec(str, _parse_with(Decimal))),
    (
        models.FloatField,
        Codec(lambda value: value if math.isfinite(value) else _SPECIAL_NAMES[str(value)], _read_number),
    ),
    (models.IntegerField, Codec(_identity, _instance_of(int))),
    ((models.CharField, models.TextField), Codec(_identity, _instance_of(str))),
)

ACTOR = "actor_id"


@dataclass(frozen=True)
class Table:
    """Export schema of one model: its columns without the actor."""

    model: type[models.Model]

    @property
    def name(self) -> str:
        return self.model._meta.db_table

    @property
    def rows(self) -> models.QuerySet[Any]:
        rows: models.QuerySet[Any] = self.model._base_manager.all()
        return rows

    @cached_property
    def fields(self) -> tuple[models.Field, ...]:
        """Return the exported columns, without the model's `not_exported`, which hold for this installation alone."""
        excluded = {ACTOR, *getattr(self.model, "not_exported", ())}
        columns = self.model._meta.concrete_fields
        return tuple(field for field in columns if field.attname not in excluded and not field.generated)

    @cached_property
    def export_expressions(self) -> Mapping[str, Any]:
        """Return the expressions that replace columns in exports, by annotation name."""
        columns = self.model.export_columns() if hasattr(self.model, "export_columns") else {}
        return {f"exported_{name}": expression for name, expression in columns.items()}

    def values(self, rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
        """Return rows as tuples of the exported columns."""
        read: models.QuerySet[Any] = rows.annotate(**self.export_expressions).values_list(
            *map(self._source, self.codecs)
        )
        return read

    def values_of(self, row: models.Model) -> tuple[Any, ...]:
        """Return the exported columns of a row that was loaded with `export_expressions`."""
        return tuple(getattr(row, self._source(name)) for name in self.codecs)

    def _source(self, name: str) -> str:
        return f"exported_{name}" if f"exported_{name}" in self.export_expressions else name

    @cached_property
    def codecs(self) -> Mapping[str, Codec]:
        return {field.attname: codec_of(field) for field in self.fields}

    @cached_property
    def readers(self) -> Mapping[str, tuple[Decode, bool]]:
        return {
            field.attname: (reader_of(field), field.null or field.has_default() or field.has_db_default())
            for field in self.fields
        }

    @cached_property
    def id_column(self) -> str:
        """Return the primary-key column if it holds the table's own ids; "" where the key consists of foreign keys."""
        key = self.model._meta.pk
        return key.attname if isinstance(key, models.UUIDField) and self.model is not Actor else ""

    @cached_property
    def references(self) -> Mapping[str, type[models.Model]]:
        """Return the foreign keys to actors' tables, with the models they refer to."""
        related = {field.attname: field.related_model for field in self.fields if field.related_model}
        return {name: model for name, model in related.items() if model is not Agent}

    @cached_property
    def key_order(self) -> tuple[Any, ...]:
        """Return the primary-key ordering, independent of the database's collation."""
        pk = self.model._meta.pk
        names = pk.field_names if isinstance(pk, models.CompositePrimaryKey) else (pk.name,)
        text_columns = {field.name for field in self.fields if isinstance(field, models.CharField)}
        return tuple(Collate(F(name), "C") if name in text_columns else F(name).asc() for name in names)

    def encode_row(self, values: tuple[Any, ...]) -> dict[str, Any]:
        return {
            name: None if value is None else codec.encode(value)
            for (name, codec), value in zip(self.codecs.items(), values, strict=True)
        }

    def read(self, row: Mapping[str, Any], actor: UUID | None) -> models.Model:
        """Build an instance from an exported row. Raises WrongValue naming the column."""
        if unknown := sorted(row.keys() - self.readers.keys()):
            raise WrongValue(f"{self.name} has no column {unknown[0][:60]!a}.")
        values: dict[str, Any] = {} if actor is None else {ACTOR: actor}
        for name, (read, may_be_missing) in self.readers.items():
            if name not in row:
                if not may_be_missing:
                    raise WrongValue(f"{self.name}.{name} is missing.")
                continue
            try:
                values[name] = read(row[name])
            except WrongValue as error:
                raise WrongValue(f"{self.name}.{name} {error}") from None
        instance = self.model(**values)
        if hasattr(instance, "check_import"):
            try:
                instance.check_import()
            except DomainError:
                raise WrongValue(f"a row of {self.name} has a name that cannot be used.") from None
        return instance

    def apply_untrusted_values(self, instance: models.Model) -> bool:
        """Overwrite a row with the model's `untrusted_import_values`; return False if it may not be imported at all."""
        values = getattr(self.model, "untrusted_import_values", None)
        for name, value in (values or {}).items():
            setattr(instance, name, value() if callable(value) else value)
        return values is not None


AGENTS = Table(Agent)
ACTORS = Table(Actor)


EXCLUDED_TABLES: Final = {
    "memoryhub.FrequentTerms": "Counted anew from the texts.",
    "memoryhub.Job": "The work of this installation; another has its own to do.",
    "memoryhub.LedgerEntry": "What this installation has paid for; another has not.",
    "memoryhub.Import": "What was taken into this installation, for its undo here.",
    "memoryhub.ImportedRow": "What was taken into this installation, for its undo here.",
    "memoryhub.UploadedPiece": "Kept until the file is imported here.",
    "memoryhub.IdempotencyRecord": "Kept for a day, and bound to this installation's keys.",
}
"""Reasons by actors' tables that are not exported; apps add theirs in `AppConfig.ready`."""


def excluded_tables() -> dict[type[models.Model], str]:
    """Return the actors' tables that are not exported, with the reason."""
    return {
        model: EXCLUDED_TABLES.get(model._meta.label, "Made anew from what it is an index of.")
        for model in actor_models()
        if issubclass(model, SearchIndexRow) or model._meta.label in EXCLUDED_TABLES
    }


def exported_tables() -> list[Table]:
    """Return the exported tables, referenced ones first."""
    excluded = excluded_tables()
    tables = sorted((Table(model) for model in actor_models() if model not in excluded), key=lambda table: table.name)
    return list(_in_order(tables))


def tables_by_name() -> dict[str, Table]:
    """Return the exported tables by name."""
    return {table.name: table for table in exported_tables()}


def _in_order(remaining: list[Table]) -> Iterator[Table]:
    placed: set[type[models.Model]] = {Actor, Agent}
    while remaining:
        ready = [table for table in remaining if {*table.references.values()} - {table.model} <= placed]
        if not ready:
            raise TypeError(
                f"{[table.name for table in remaining]} refer to each other, or to rows that no export holds."
            )
        yield from ready
        placed |= {table.model for table in ready}
        remaining = [table for table in remaining if table not in ready]
