"""Screen for secrets what is stored already, and rows of an export (SPEC M13).

Every text of an actor is screened: columns of texts and JSON, but for names and ids. A model with digests of its texts
renews them in `before_screened_save`, and names their columns in `derived_from_texts`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final

from django.apps import apps
from django.contrib.postgres.fields import ArrayField
from django.db import models, transaction

from memoryhub.auth.access import lock_actor
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import Principal
from memoryhub.auth.screening import Screening
from memoryhub.importexport.native.indexing import index
from memoryhub.search.models import index_models
from memoryhub.tenancy.models import Actor

Progress = Callable[[int], None]

NOT_TEXTS: Final = frozenset({
    "agent_id", "channel", "client_message_id", "generator", "headers", "key", "kind", "lane", "model", "name",
    "namespace", "offered", "operation", "order", "payload", "perspective", "policy", "project_name", "proposed_name",
    "provider", "read_from", "route", "scope_domain", "scope_project", "source", "user_id", "verb", "who_id",
    "who_name",
})  # fmt: skip
"""Columns of ids, names, digests and settings."""


@cache
def text_columns(model: Any) -> tuple[str, ...]:
    return tuple(field.attname for field in model._meta.concrete_fields if _is_text(field))


def _is_text(field: Any) -> bool:
    base = field.base_field if isinstance(field, ArrayField) else field
    is_text = isinstance(base, models.TextField | models.CharField | models.JSONField) and not field.choices
    return is_text and field.attname not in NOT_TEXTS and not (field.max_length or 255) < 100


@cache
def screened_models() -> tuple[type[Any], ...]:
    """Return the tables of actors that hold texts; index rows follow their owners."""
    return tuple(sorted(filter(_is_screened, apps.get_models()), key=lambda model: model._meta.label))


def _is_screened(model: type[models.Model]) -> bool:
    has_actor = any(field.name == "actor" for field in model._meta.concrete_fields)
    return has_actor and not isinstance(model._meta.pk, models.CompositePrimaryKey) and bool(text_columns(model))


def screen_row(row: Any, screening: Screening) -> dict[str, Any]:
    """Screen the texts of a row in place; return the former values of those that changed."""
    former = {}
    for name in text_columns(row._meta.model):
        value = getattr(row, name)
        if value and (screened := screening.columns(row._meta.model, {name: value})[name]) != value:
            former[name] = value
            setattr(row, name, screened)
    return former


def count_texts(actor: Actor) -> int:
    return sum(model._base_manager.filter(actor_id=actor.pk).count() for model in screened_models())


def screen_actor(
    actor: Actor,
    *,
    by: Principal,
    now: datetime,
    batch_size: int,
    dry_run: bool = False,
    progress: Progress = lambda _count: None,
) -> Counter[str]:
    """Screen all texts of an actor, in steps that may be interrupted and run again; return what was removed."""
    total = Counter[str]()
    for model in screened_models():
        for keys in _batches(model, actor, batch_size):
            total.update(_screen_batch(model, actor, keys, by=by, now=now, dry_run=dry_run))
            progress(len(keys))
    _screen_reasons(actor, dry_run=dry_run)
    return total


def _batches(model: type[Any], actor: Actor, size: int) -> Iterator[list[Any]]:
    rows = model._base_manager.filter(actor_id=actor.pk).order_by("pk")
    keys = list(rows.values_list("pk", flat=True)[:size])
    while keys:
        yield keys
        keys = list(rows.filter(pk__gt=keys[-1]).values_list("pk", flat=True)[:size])


@transaction.atomic
def _screen_batch(
    model: type[Any], actor: Actor, keys: list[Any], *, by: Principal, now: datetime, dry_run: bool
) -> Mapping[str, int]:
    rows = model._base_manager.filter(actor_id=actor.pk, pk__in=keys).order_by("pk")
    if not dry_run:
        lock_actor(actor.pk)
        rows = rows.select_for_update(no_key=True)
    screening, loaded, changed = Screening(actor), list(rows), []
    for row in loaded:
        row.actor = actor
        if former := screen_row(row, screening):
            changed.append(row)
            if not dry_run:
                getattr(row, "before_screened_save", lambda _former: None)(former)
                row.save(update_fields=[*former, *getattr(row, "derived_from_texts", ())])
    if not dry_run:
        _index_again(model, loaded, changed)
        screening.record(by=by, row=actor, now=now)
    return screening.removed


def _index_again(model: type[Any], rows: list[Any], changed: list[Any]) -> None:
    """Rebuild the index rows of changed texts, and delete those of texts that searches do not find any more."""
    for index_model in index_models():
        if index_model._meta.get_field(index_model.owner_field).related_model is model:
            unfindable = [row for row in rows if not index_model.is_findable(row)]
            owners = {f"{index_model.owner_field}__in": [*unfindable, *changed]}
            index_model.objects.filter(actor_id=rows[0].actor_id, **owners).delete()
            index(rows[0].actor_id, changed)


def _screen_reasons(actor: Actor, *, dry_run: bool) -> None:
    """Screen the reasons in the audit trail, which outlives its rows."""
    entries = AuditEntry.objects.filter(agent_id=actor.agent_id, user_id=actor.user_id).exclude(reason="")
    screening = Screening(actor)
    for key, reason in entries.values_list("pk", "reason"):
        if (screened := screening.text(reason)) != reason and not dry_run:
            AuditEntry.objects.filter(pk=key).update(reason=screened)
