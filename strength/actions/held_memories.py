"""Memories that a sleep would have archived beyond its allowance, and a person's decision about them (SPEC S5)."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet, Sum
from django.utils.translation import gettext_lazy as _
from prometheus_client.core import GaugeMetricFamily

from memoryhub.auth import audit
from memoryhub.auth.principals import Forbidden, Principal
from memoryhub.jobs.status import DatabaseCollector
from strength.domain.memories import WrongState
from strength.domain.sleep import RunState
from strength.models import SleepRun


def held_runs() -> QuerySet[SleepRun]:
    """Return the latest sleeps of actors that left memories to a person, who has not decided yet."""
    return SleepRun.objects.filter(
        held_count__gt=0, held_decided_at=None, dry_run=False, state=RunState.DONE, number=F("actor__sleep_state__runs")
    )


@transaction.atomic
def leave_held(*, run: SleepRun, by: Principal, reason: str = "", now: datetime) -> None:
    """Note that the next sleeps continue with what a sleep left. Raises WrongState, Forbidden."""
    _decide(held_runs().filter(pk=run.pk, actor_id=run.actor_id), now, "leave", run=run, by=by, reason=reason, now=now)


@transaction.atomic
def reopen_held(*, run: SleepRun, by: Principal, reason: str = "", now: datetime) -> None:
    """Undo `leave_held`. Raises WrongState, Forbidden."""
    rows = SleepRun.objects.filter(pk=run.pk, actor_id=run.actor_id, held_decided_at__isnull=False)
    _decide(rows, None, "reopen", run=run, by=by, reason=reason, now=now)


def _decide(
    rows: QuerySet[SleepRun], at: datetime | None, verb: str, *, run: SleepRun, by: Principal, **change: Any
) -> None:
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not decide about a sleep; a curator can."))
    keys = list(rows.select_for_update(of=["self"]).values_list("pk", flat=True))
    if not SleepRun.objects.filter(pk__in=keys, actor_id=run.actor_id).update(held_decided_at=at):
        raise WrongState(_("It was decided already, or a later sleep has continued with them."))
    audit.record(by=by, verb=verb, row=run, **change)


def _families(now: datetime | None) -> Iterator[GaugeMetricFamily]:
    held = GaugeMetricFamily("memoryhub_memories_held", "Memories that sleeps left to a person instead of archiving.")
    if now is not None:
        held.add_metric([], held_runs().aggregate(sum=Sum("held_count", default=0))["sum"])
    yield held


HELD = DatabaseCollector(_families)
