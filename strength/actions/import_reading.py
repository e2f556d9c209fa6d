"""Extraction of the conversations of an import: how far it is, pause and resume (SPEC L2, M12).

A pause passes over the messages that were not read yet, as a disabled strategy does; resuming returns to them.
"""

from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db import transaction

from conversations.actions.imported_sessions import SESSION_KIND
from memoryhub.auth import audit
from memoryhub.auth.principals import Principal
from memoryhub.importexport.foreign.imports import Reading
from memoryhub.importexport.foreign.models import Import, ImportedRow
from memoryhub.jobs.queue import enqueue
from strength.actions.extraction import EXTRACT_KEY
from strength.domain.extraction import EXTRACT_KIND, MESSAGE_STRATEGIES, enabled_strategies
from strength.sql import QUERIES, run_query


def reading(row: Import) -> Reading | None:
    """Return how far an import's conversations are read; None where nothing reads them."""
    if settings.LLM.provider == "none" or not enabled_strategies(row.actor.agent.strategies):
        return None
    values = {"import_id": row.pk, "kind": SESSION_KIND, "strategies": _strategies(row)}
    ((messages, waiting, skipped),) = run_query(QUERIES["reading_of_import"], values)
    return Reading(int(messages), int(waiting), int(skipped)) if messages else None


@transaction.atomic
def pause(*, row: Import, by: Principal, now: datetime) -> None:
    """Pass over an import's messages that were not read yet; an answer under way to some of them is discarded."""
    _move(row, QUERIES["pass_over_import"])
    audit.record(by=by, verb="pause", row=row, now=now)


@transaction.atomic
def resume(*, row: Import, by: Principal, now: datetime) -> None:
    """Return to an import's messages that were passed over, and enqueue their extraction."""
    for actor_id in _move(row, QUERIES["return_to_import"]):
        enqueue(EXTRACT_KIND, actor_id=actor_id, key=EXTRACT_KEY)
    audit.record(by=by, verb="resume", row=row, now=now)


def _move(row: Import, query: str) -> list[UUID]:
    """Move the cursors of each actor of an import; return the actors."""
    rows = ImportedRow.objects.filter(import_id=row.pk, kind=SESSION_KIND).order_by("actor_id")
    actors = list(rows.values_list("actor_id", flat=True).distinct())
    for actor_id in actors:
        values = {"import_id": row.pk, "kind": SESSION_KIND, "actor_id": actor_id, "strategies": _strategies(row)}
        run_query(query, values)
    return actors


def _strategies(row: Import) -> list[str]:
    enabled = enabled_strategies(row.actor.agent.strategies)
    return [strategy.value for strategy in MESSAGE_STRATEGIES if strategy in enabled]
