"""A digest over several of an actor's sessions, from their summaries: made when asked for, not kept (SPEC U9)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from memoryhub.access.tenancy import Tenant
from memoryhub.tenants.policies import effective_policy
from summaries.actions.writers import writer_for
from summaries.domain.digesting import digest_call
from summaries.domain.policy import SummaryPolicy
from summaries.domain.rolling import Said
from summaries.domain.summaries import Generator
from summaries.models import Summary, SummaryQuerySet

MOST_SESSIONS: Final = 100
"""Of the latest sessions; more would hardly fit into one question."""

DEADLINE_SECONDS: Final = 30.0
"""Somebody waits for it."""

PROJECT: Final = "session__metadata__project"


class NothingToDigest(Exception):
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

    Network, so outside any transaction. Raises NothingToDigest, ProviderError.
    """
    if tenant.actor is None:
        raise NothingToDigest("There are no summaries to make a digest of.")
    rows = _asked_for(tenant, since, until, project)
    summaries = list(rows[:MOST_SESSIONS])[::-1]
    if not summaries:
        raise NothingToDigest("There are no summaries to make a digest of.")
    policy = effective_policy(SummaryPolicy, tenant.agent, tenant.actor)
    writer = writer_for(tenant.actor, policy, task="digest")
    said = [Said(place, "", "", each.text, each.end_time) for place, each in enumerate(summaries)]
    call = digest_call(said, writer.limits, writer.count)
    written = writer.write(call, deadline_seconds=DEADLINE_SECONDS)
    taken = summaries[-len(call.said) :]
    return Digest(
        text=written.text,
        generator=writer.generator,
        model=written.model,
        session_ids=[each.session_id for each in taken],
        left_out=rows.count() - len(taken),
        start_time=min(each.start_time for each in taken),
        end_time=max(each.end_time for each in taken),
    )


def _asked_for(
    tenant: Tenant, since: datetime | None, until: datetime | None, project: str | None
) -> SummaryQuerySet:
    rows = Summary.objects.of(tenant.actor_id).believed()
    if since is not None:
        rows = rows.filter(end_time__gte=since)
    if until is not None:
        rows = rows.filter(start_time__lte=until)
    return rows if project is None else rows.filter(**{PROJECT: project})
