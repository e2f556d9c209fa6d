"""A digest over several of an actor's sessions, from their summaries: made when asked for, not kept (SPEC U9)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from memoryhub.auth.tenancy import Tenant
from memoryhub.errors import DomainError
from memoryhub.llm.errors import ProviderTimeout
from memoryhub.tenancy.policies import effective_policy
from summaries.actions.summarizers import (
    LEAST_SECONDS,
    Summarizer,
    SummaryText,
    summarize_call,
    summarizer_for,
)
from summaries.domain.policy import SummaryPolicy
from summaries.domain.rolling import SpokenMessage, digest_line, latest_that_fit, next_call
from summaries.domain.summaries import Generator
from summaries.models import Summary, SummaryQuerySet

MOST_SESSIONS: Final = 100
"""Of the latest sessions."""

MOST_CALLS: Final = 8
"""About as many questions to a model as the time is enough for."""

DEADLINE_SECONDS: Final = 60.0
"""Somebody waits for it."""

PROJECT: Final = "session__metadata__project"


class NothingToDigest(DomainError):
    """No trusted summary of the actor lies in the time, or project, asked for."""


@dataclass(frozen=True, kw_only=True)
class Digest:
    """One text about several sessions; `left_out` is how many of them did not fit, the oldest."""

    text: str = field(repr=False)
    generator: Generator
    model: str
    session_ids: list[UUID]
    left_out: int
    start_time: datetime
    end_time: datetime


def digest(
    *,
    tenant: Tenant,
    since: datetime | None = None,
    until: datetime | None = None,
    project: str | None = None,
) -> Digest:
    """Return a digest of the trusted summaries of sessions that lie in a time, or have `project` in their metadata.

    Network, so outside any transaction. Raises NothingToDigest, NoRoom, ProviderError.
    """
    if tenant.actor is None:
        raise NothingToDigest(_("There are no summaries to make a digest of."))
    rows = _asked_for(tenant, since, until, project)
    summaries = list(rows[:MOST_SESSIONS])[::-1]
    if not summaries:
        raise NothingToDigest(_("There are no summaries to make a digest of."))
    policy = effective_policy(SummaryPolicy, tenant.agent, tenant.actor)
    writer = summarizer_for(tenant.actor, policy, task="digest")
    # By the day, for whoever chooses sentences: a digest tells when, a summary who.
    said = [
        SpokenMessage(place, "", f"{each.end_time:%Y-%m-%d}", each.text, each.end_time)
        for place, each in enumerate(summaries)
    ]
    latest = latest_that_fit(MOST_CALLS, said, writer.limits, writer.count)
    taken, left_out = summaries[-len(latest) :], rows.count() - len(latest)
    written = _rolled(latest, writer)
    return Digest(
        text=written.text,
        generator=writer.generator,
        model=written.model,
        session_ids=[each.session_id for each in taken],
        left_out=left_out,
        start_time=min(each.start_time for each in taken),
        end_time=max(each.end_time for each in taken),
    )


def _rolled(waiting: Sequence[SpokenMessage], writer: Summarizer) -> SummaryText:
    """Return one text of summaries, each in exactly one question with the digest so far. Raises ProviderError."""
    ends_at = time.monotonic() + DEADLINE_SECONDS
    done = SummaryText("")
    while waiting:
        if ends_at - time.monotonic() < LEAST_SECONDS:
            raise ProviderTimeout("The model was too slow for so many sessions.", code="timeout")
        call = next_call(done.text, waiting, writer.limits, writer.count, line_of=digest_line)
        call, done = summarize_call(writer, call, seconds_left=lambda: ends_at - time.monotonic())
        waiting = waiting[len(call.said) :]
    return done


def _asked_for(
    tenant: Tenant, since: datetime | None, until: datetime | None, project: str | None
) -> SummaryQuerySet:
    rows = Summary.objects.of(tenant.actor_id).believed()
    if since is not None:
        rows = rows.filter(end_time__gte=since)
    if until is not None:
        rows = rows.filter(start_time__lte=until)
    return rows if project is None else rows.filter(**{PROJECT: project})
