"""Principals of jobs: a job acts with the trust, scopes and reach of the caller that ordered it (SPEC A10, M10).

An order is kept in the job's row, and the caller is read again when the job runs: an order of a revoked key, or of an
account without access, lapses, and trust that was taken away since counts.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.contrib.auth import get_user_model
from django.utils import timezone

from memoryhub.auth.models import ApiKey
from memoryhub.auth.principals import Principal, PrincipalKind, background
from memoryhub.errors import DomainError, _
from memoryhub.jobs.context import JobContext


class OrderLapsed(DomainError):
    """The caller that ordered a job has no access any more; the job is not tried again."""

    permanent = True


def order_of(by: Principal) -> dict[str, Any]:
    """Return the part of a principal that a job's row keeps: no scopes or agents, which are read when it runs."""
    return {"kind": by.kind, "id": by.id, "name": by.name, "is_trusted": by.is_trusted}


def caller_of(order: Mapping[str, Any], *, permission: str = "") -> Principal:
    """Return the principal that gave an order, with its present rights. Raises OrderLapsed.

    An account must still have `permission`; a key's rights are its scopes.
    """
    kind, is_trusted = PrincipalKind(order["kind"]), bool(order["is_trusted"])
    if kind is PrincipalKind.KEY:
        key = ApiKey.objects.usable(timezone.now()).filter(pk=order["id"]).first()
        if key is None:
            raise OrderLapsed(_("The key that ordered this was revoked or has expired; its work was stopped."))
        by = key.principal()
        return replace(by, is_trusted=by.is_trusted and is_trusted)
    if kind is PrincipalKind.CURATOR and not _has_access(order["id"], permission):
        raise OrderLapsed(_("The account that ordered this no longer has access; its work was stopped."))
    return Principal(kind=kind, id=order["id"], name=order["name"], is_trusted=is_trusted)


def _has_access(account_id: str, permission: str) -> bool:
    account = get_user_model().objects.filter(pk=account_id, is_active=True).first()
    return account is not None and (not permission or account.has_perm(permission))


def job_principal(job: JobContext) -> Principal:
    """Return the principal of a job's own changes: the server's, or where it was ordered, with the caller's rights.

    A job that no caller ordered reads rows that have a trust of their own, and writes by it. Raises OrderLapsed.
    """
    own = background(job.kind, job.id)
    if job.order is None:
        return own
    by = caller_of(job.order)
    return replace(own, scopes=by.scopes, agent_ids=by.agent_ids, user_id=by.user_id, is_trusted=by.is_trusted)
