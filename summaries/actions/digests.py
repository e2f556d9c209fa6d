"""Digest of several of an actor's sessions from their summaries, made on request and not stored (SPEC U9)."""

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

MOST_CALLS: Final = 8
"""About as many model calls as the deadline allows."""

DEADLINE_SECONDS: Final = 60.0
"""The client waits for the answer."""


class NothingToDigest(DomainError):
    """No trusted summary of the actor lies in the time window or has the project."""


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
    rows = _matching_summaries(tenant, since, until, project)
    summaries = list(rows[:MOST_SESSIONS])[::-1]
    if tenant.actor is None or not summaries:
        raise NothingToDigest(_("There are no summaries to make a digest of."))
    policy = effective_policy(SummaryPolicy, tenant.agent, tenant.actor)
    summarizer = summarizer_for(tenant.actor, policy, task="digest")
    # The day as author, for the extractive summarizer: a digest shows when, a summary who.
    texts = [
        SpokenMessage(place, "", f"{each.end_time:%Y-%m-%d}", each.text, each.end_time)
        for place, each in enumerate(summaries)
    ]
    latest = latest_that_fit(MOST_CALLS, texts, summarizer.limits, summarizer.count)
    taken = summaries[-len(latest) :]
    result = _summarize_all(latest, summarizer)
    return Digest(
        text=result.text,
        generator=summarizer.generator,
        model=result.model,
        session_ids=[each.session_id for each in taken],
        left_out=rows.count() - len(latest),
        start_time=min(each.start_time for each in taken),
        end_time=max(each.end_time for each in taken),
    )


def _summarize_all(pending: Sequence[SpokenMessage], summarizer: Summarizer) -> SummaryText:
    """Return one text of summaries, each in exactly one call with the previous digest. Raises ProviderError."""
    ends_at = time.monotonic() + DEADLINE_SECONDS
    result = SummaryText("")
    while pending:
        if ends_at - time.monotonic() < LEAST_SECONDS:
            raise ProviderTimeout("The model was too slow for so many sessions.", code="timeout")
        call = next_call(result.text, pending, summarizer.limits, summarizer.count, line_of=digest_line)
        call, result = summarize_call(summarizer, call, seconds_left=lambda: ends_at - time.monotonic())
        pending = pending[len(call.messages) :]
    return result


def _matching_summaries(
    tenant: Tenant, since: datetime | None, until: datetime | None, project: str | None
) -> SummaryQuerySet:
    rows = Summary.objects.of(tenant.actor_id).trusted()
    if since is not None:
        rows = rows.filter(end_time__gte=since)
    if until is not None:
        rows = rows.filter(start_time__lte=until)
    return rows if project is None else rows.filter(session__metadata__project=project)
