"""Which tables an export holds, in which order, and which of their columns.

Every model with an `actor_id`, by Django's app registry, so that no app can be forgotten; but for index rows, which are
made anew, and what `settings.LEFT_OUT_OF_EXPORTS` names with its reason. What is referred to stands before what refers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import F
from django.db.models.functions import Collate

from memoryhub.auth.erasure import actor_models
from memoryhub.importexport.values import Codec, Decode, WrongValue, codec_of, reader_of
from memoryhub.search.models import SearchIndexRow
from memoryhub.tenancy.models import Actor, Agent

ACTOR = "actor_id"


@dataclass(frozen=True)
class Table:
    """One model as an export sees it: its columns but for the actor, which stands above the rows."""

    model: type[models.Model]

    @property
    def name(self) -> str:
        """Return the table's name, by which lines call it."""
        return self.model._meta.db_table

    @property
    def rows(self) -> models.QuerySet[Any]:
        """Return all rows, whatever the model's own manager would leave out."""
        return self.source._base_manager.all()

    @property
    def source(self) -> type[models.Model]:
        """Return the model that rows are written from: a view that a model names (`read_through`), else itself."""
        return getattr(self.model, "read_through", self.model)

    @cached_property
    def fields(self) -> tuple[models.Field, ...]:
        """Return the columns that are written."""
        found = self.model._meta.concrete_fields
        given = {each.attname for each in self.source._meta.concrete_fields}
        return tuple(each for each in found if each.attname in given - {ACTOR} and not each.generated)

    @cached_property
    def codecs(self) -> Mapping[str, Codec]:
        """Return how each column is written and read."""
        return {field.attname: codec_of(field) for field in self.fields}

    @cached_property
    def by_column(self) -> Mapping[str, models.Field]:
        """Return the columns by their names."""
        return {field.attname: field for field in self.fields}

    @cached_property
    def readers(self) -> Mapping[str, tuple[Decode, bool]]:
        """Return what reads each column's value, and whether it may be missing."""
        return {
            name: (reader_of(field), field.null or field.has_default() or field.has_db_default())
            for name, field in self.by_column.items()
        }

    @cached_property
    def own_id(self) -> str:
        """Return the column of ids that are this table's own; empty where its key is made of others'."""
        key = self.model._meta.pk
        return key.attname if isinstance(key, models.UUIDField) and self.model is not Actor else ""

    @cached_property
    def references(self) -> Mapping[str, type[models.Model]]:
        """Return the columns that refer to rows of actors' tables, with the models they refer to."""
        found = {field.attname: field.related_model for field in self.fields if field.related_model}
        return {name: model for name, model in found.items() if model is not Agent}

    @cached_property
    def key_order(self) -> tuple[Any, ...]:
        """Return the order of the primary key, the same whatever collation the database has."""
        pk = self.model._meta.pk
        names = pk.field_names if isinstance(pk, models.CompositePrimaryKey) else (pk.name,)
        words = {field.name for field in self.fields if isinstance(field, models.CharField)}
        return tuple(Collate(F(name), "C") if name in words else F(name).asc() for name in names)

    def written(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Return a row, given as the values of `fields`, as JSON."""
        return {
            name: None if value is None else codec.encode(value)
            for (name, codec), value in zip(self.codecs.items(), values, strict=True)
        }

    def read(self, row: Mapping[str, Any], actor: UUID | None) -> models.Model:
        """Return the row of an actor that a line holds; raises WrongValue naming the column."""
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
        return self.model(**values)


AGENTS = Table(Agent)
ACTORS = Table(Actor)


def left_out() -> dict[type[models.Model], str]:
    """Return the actors' tables that no export holds, with the reason."""
    named = settings.LEFT_OUT_OF_EXPORTS
    return {
        model: named.get(model._meta.label, "Made anew from what it is an index of.")
        for model in actor_models()
        if issubclass(model, SearchIndexRow) or model._meta.label in named
    }


def exported_tables() -> list[Table]:
    """Return the tables of an export, what is referred to before what refers to it."""
    absent = left_out()
    waiting = sorted(
        (Table(each) for each in actor_models() if each not in absent), key=lambda each: each.name
    )
    return list(_in_order(waiting))


def _in_order(waiting: list[Table]) -> Iterator[Table]:
    done: set[type[models.Model]] = {Actor, Agent}
    while waiting:
        ready = [each for each in waiting if {*each.references.values()} - {each.model} <= done]
        if not ready:
            raise TypeError(
                f"{[each.name for each in waiting]} refer to each other, or to rows that no export holds."
            )
        yield from ready
        done |= {each.model for each in ready}
        waiting = [each for each in waiting if each not in ready]
