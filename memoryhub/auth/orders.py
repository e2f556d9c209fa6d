"""Principals of jobs: a job acts with the trust, scopes and reach of the caller that ordered it (SPEC A10, M10).

An order is kept in the job's row, and the caller is read again before the job runs and where it writes: an order of a
revoked key, or of an account without the permission that the kind of job names, lapses, and trust that was taken away
since counts.
"""

from dataclasses import replace
from typing import Any

from django.contrib.auth import get_user_model
from django.utils import timezone

from memoryhub.auth import grants
from memoryhub.auth.models import ApiKey, OAuthGrant, agents_of
from memoryhub.auth.principals import Principal, PrincipalKind, background
from memoryhub.auth.roles import is_upheld
from memoryhub.errors import DomainError, _
from memoryhub.jobs.context import JobContext
from memoryhub.jobs.registry import job_kind
from memoryhub.tenancy.models import Actor


class OrderLapsed(DomainError):
    """The caller that ordered a job has no access any more; the job is not tried again."""

    permanent = True


def order_of(by: Principal) -> dict[str, Any]:
    """Return the part of a principal that a job's row keeps: no scopes or agents, which are read when it runs."""
    return {"kind": by.kind, "id": by.id, "name": by.name, "is_trusted": by.is_trusted}


def caller_of(job: JobContext) -> Principal | None:
    """Return the principal that ordered a job, with its present rights; None if none did. Raises OrderLapsed.

    An account must still have the permission that the kind of job names; a key's rights are its scopes.
    """
    if job.order is None:
        return None
    order, is_trusted = job.order, bool(job.order["is_trusted"])
    kind = PrincipalKind(order["kind"])
    if kind is PrincipalKind.KEY:
        key = ApiKey.objects.usable(timezone.now()).filter(pk=order["id"]).first()
        grant = OAuthGrant.objects.select_related("key", "person").filter(key=order["id"]).first()
        if key is None or not is_upheld(key) or (grant is not None and not grants.is_upheld(grant)):
            raise OrderLapsed(_("The key that ordered this was revoked or has expired; its work was stopped."))
        by = key.principal()
        if job.actor_id is not None and not _is_within(job, by.agent_ids):  # its person was limited since
            raise OrderLapsed(_("The account that ordered this no longer has access; its work was stopped."))
        return replace(by, is_trusted=by.is_trusted and is_trusted)
    agent_ids = None
    if kind is PrincipalKind.CURATOR:
        account = get_user_model().objects.filter(pk=order["id"], is_active=True).first()
        permission = job_kind(job.kind).permission_for(job.payload)
        agent_ids = agents_of(account)
        if account is None or not permission or not account.has_perm(permission) or not _is_within(job, agent_ids):
            raise OrderLapsed(_("The account that ordered this no longer has access; its work was stopped."))
    return Principal(kind=kind, id=order["id"], name=order["name"], is_trusted=is_trusted, agent_ids=agent_ids)


def _is_within(job: JobContext, agent_ids: frozenset[str] | None) -> bool:
    """Return whether a job is about an actor of these agents; None: of any, or of none."""
    if agent_ids is None or job.actor_id is None:
        return agent_ids is None
    return Actor.objects.filter(pk=job.actor_id, agent_id__in=agent_ids).exists()


def job_principal(job: JobContext) -> Principal:
    """Return the principal of a job's own changes: the server's, or where it was ordered, with the caller's rights.

    A job that no caller ordered reads rows that have a trust of their own, and writes by it. Raises OrderLapsed.
    """
    own, by = background(job.kind, job.id), caller_of(job)
    if by is None:
        return own
    return replace(own, scopes=by.scopes, agent_ids=by.agent_ids, user_id=by.user_id, is_trusted=by.is_trusted)
