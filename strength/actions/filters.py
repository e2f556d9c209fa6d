"""Select an actor's memories by filters, as lists, counts and bulk jobs do."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.postgres.fields import ArrayField
from django.db.models import BooleanField, Expression, F, Func, JSONField, Q, QuerySet, TextField, Value

from memoryhub.auth.access import Tenant
from memoryhub.tenancy.namespaces import expand_prefix
from strength.domain.memories import OPERATORS, MetadataCondition, Status, split_metadata_filter
from strength.models import Memory, MemoryNumbers, MemoryQuerySet
from strength.models.memory import STRENGTH_OF_MEMORY

ALL = "all"
"""Status filter that matches all."""

STRENGTH_LOOKAHEAD: Final = 200
"""Memories read by strength beyond a page, as filters may drop some."""


@dataclass(frozen=True, kw_only=True)
class MemorySelection:
    """Filters of a list or a search; empty values do not filter.

    Memories that have ended are left out, unless `ended` or an `as_of`, which selects what was valid then.
    """

    status: str = Status.ACTIVE
    kind: Sequence[str] = ()
    namespace: str | None = None
    tag: Sequence[str] = ()
    source: Sequence[str] = ()
    trust: str | None = None
    channel: str | None = None
    text: str | None = None
    metadata: Mapping[str, Any] | None = None
    pinned: bool | None = None
    ended: bool = False
    as_of: datetime | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    updated_after: datetime | None = None
    updated_before: datetime | None = None
    used_after: datetime | None = None
    used_before: datetime | None = None
    min_strength: float | None = None
    max_strength: float | None = None


def select_memories(tenant: Tenant, selection: MemorySelection, *, now: datetime) -> MemoryQuerySet:
    """Return an actor's memories that match. Raises NamespaceError, MemoryRefused."""
    rows = Memory.objects.of([tenant.actor_id]).filter(_status_and_validity(selection, now))
    rows = rows.filter(metadata_matches("metadata", selection.metadata) & facets_match(tenant, selection))
    lookups: dict[str, Any] = {
        "source__in": selection.source,
        "trust": selection.trust,
        "content__icontains": selection.text,
        "updated_at__gte": selection.updated_after,
        "updated_at__lte": selection.updated_before,
        "numbers__last_accessed_at__gte": selection.used_after,
        "numbers__last_accessed_at__lte": selection.used_before,
    }
    rows = rows.filter(**{name: value for name, value in lookups.items() if value})
    # Compare with None: an empty channel and a strength of 0 are valid.
    rows = rows.alias(strength_of=STRENGTH_OF_MEMORY)
    exact = {
        "channel": selection.channel,
        "strength_of__gte": selection.min_strength,
        "strength_of__lte": selection.max_strength,
    }
    return rows.filter(**{name: value for name, value in exact.items() if value is not None})


def facets_match(tenant: Tenant, selection: MemorySelection) -> Q:
    """Filter memories, or their index rows, by what both have besides status and validity. Raises NamespaceError."""
    names = {"agent_id": tenant.agent_id, "user_id": tenant.user_id}
    lookups: dict[str, Any] = {
        "kind__in": list(selection.kind),
        "namespace__startswith": selection.namespace and expand_prefix(selection.namespace, **names),
        "tags__contains": list(selection.tag),
        "created_at__gte": selection.created_after,
        "created_at__lte": selection.created_before,
    }
    pinned = {} if selection.pinned is None else {"pinned": selection.pinned}
    return Q(**{name: value for name, value in lookups.items() if value}, **pinned)


def strengths_of(actors: Q, status: str) -> QuerySet[MemoryNumbers]:
    """Return the numbers of actors' memories with `strength_now`, to order memories by before they are read.

    These rows are narrow. Joined with memories, PostgreSQL reads all of both before it sorts. Active memories are those
    that fade, which their numbers tell, and some of those that have a pin or a validity.
    """
    rows = MemoryNumbers.objects.filter(actors).with_strength()
    if status == Status.ACTIVE:
        special = Memory.objects.filter(actors).active()
        special = special.filter(Q(pinned=True) | Q(valid_from__isnull=False) | Q(valid_to__isnull=False))
        rows = rows.filter(Q(due__lt=math.inf) | Q(memory__in=special.values("pk")))
    return rows


def page_by_strength(
    rows: QuerySet[Memory], strengths: QuerySet[MemoryNumbers], *, limit: int, offset: int = 0
) -> QuerySet[Memory]:
    """Return a slice of `rows`, which have the order of `strengths`; those are the numbers of at least all of them.

    Where filters drop too many of the strongest, all rows are read and sorted.
    """
    window = offset + limit + STRENGTH_LOOKAHEAD
    keys = list(strengths.values_list("memory_id", flat=True)[:window])
    page = rows.filter(pk__in=keys)[offset : offset + limit]
    is_complete = len(page) == limit or len(keys) < window
    return page if is_complete else rows[offset : offset + limit]


def _status_and_validity(selection: MemorySelection, now: datetime) -> Q:
    if selection.as_of is not None:
        return status_filter(selection.status, as_of=selection.as_of, now=now) & validity_filter(selection.as_of)
    by_status = Q() if selection.status == ALL else Q(status=selection.status)
    return by_status if selection.ended else by_status & (Q(valid_to=None) | Q(valid_to__gt=now))


def status_filter(status: str, *, as_of: datetime | None, now: datetime) -> Q:
    """Filter by status; as of a time, active ones include those that were archived when their validity had ended."""
    if status == ALL:
        return Q()
    if as_of is None or status != Status.ACTIVE:
        return Q(status=status)
    return Q(status=status) | Q(status=Status.ARCHIVED, valid_to__lte=now)


def validity_filter(at: datetime) -> Q:
    return (Q(valid_from=None) | Q(valid_from__lte=at)) & (Q(valid_to=None) | Q(valid_to__gt=at))


def metadata_matches(column: str, filters: Mapping[str, Any] | None) -> Q:
    """Filter by a JSON column: it contains `filters`, whose operators compare. Raises MemoryRefused."""
    contained, conditions = split_metadata_filter(filters or {})
    matches = Q(**{f"{column}__contains": contained}) if contained else Q()
    for condition in conditions:
        matches &= _condition(column, condition)
    return matches


def _condition(column: str, condition: MetadataCondition) -> Q:
    """Compare values of one JSON type; a missing value equals nothing, so that `$ne` matches it."""
    path = Value(list(condition.path), output_field=ArrayField(TextField()))
    stored = Func(F(column), path, template="(%(expressions)s)", arg_joiner=" #> ", output_field=JSONField())
    value = Func(Value(json.dumps(condition.value)), template="%(expressions)s::jsonb", output_field=JSONField())
    if condition.operator == "$ne":
        return Q(_comparison(stored, "IS DISTINCT FROM", value))
    compared = Q(_comparison(stored, OPERATORS[condition.operator], value))
    kinds = [Func(operand, function="jsonb_typeof", output_field=TextField()) for operand in (stored, value)]
    return compared & Q(_comparison(kinds[0], "=", kinds[1]))


def _comparison(left: Expression, operator: str, right: Expression) -> Func:
    return Func(left, right, template="(%(expressions)s)", arg_joiner=f" {operator} ", output_field=BooleanField())
