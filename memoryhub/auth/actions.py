"""Actions on agents, actors, API keys and jobs: atomic and audited."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.models import ApiKey
from memoryhub.auth.principals import Forbidden, NewKey, Principal, Scope, generate_key
from memoryhub.errors import DomainError, Message
from memoryhub.jobs.models import Job
from memoryhub.jobs.retries import State
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.policies import check_overrides, operator_keys
from memoryhub.tenancy.policy import AGENT_ID_PATTERN, PolicyError

CANCELLED: Final = "A person took it out of the queue; sent back, it is done after all."


class AgentExists(DomainError):
    """An agent with this id is there already."""

    code = "agent_exists"
    field = "agent_id"


class VersionMismatch(DomainError):
    code = "version_mismatch"

    def __init__(self, current: int, message: Message | None = None) -> None:
        self.current = current
        self.members = {"current": current}
        changed = _("The row has changed since you read it; read it again and repeat the edit.")
        super().__init__(changed if message is None else message)


@transaction.atomic
def create_agent(*, agent_id: str, values: Mapping[str, Any], by: Principal, now: datetime) -> Agent:
    """Create an agent.

    Raises AgentExists, PolicyError for overrides that cannot be used, and Forbidden for a key that
    may not touch all agents, or is untrusted.
    """
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not create agents."))
    if not by.may_touch_all_agents or by.user_id is not None:
        raise Forbidden(_("Only a key for all agents and users may create one."))
    if not AGENT_ID_PATTERN.match(agent_id):
        raise PolicyError({"agent_id": "must be 1 to 255 letters, digits, - or _"})
    check_overrides(values.get("policy", {}))
    try:
        with transaction.atomic():
            agent = Agent.objects.create(
                agent_id=agent_id, **{"name": agent_id, **values}, created_at=now, updated_at=now
            )
    except IntegrityError as error:
        raise AgentExists(format_lazy(_("There is an agent {agent} already."), agent=repr(agent_id))) from error
    audit.record(by=by, verb="create", row=agent, now=now)
    return agent


@transaction.atomic
def update_agent(
    *, agent_id: str, values: Mapping[str, Any], expected_version: int | None, by: Principal, now: datetime
) -> Agent:
    """Change an agent's fields.

    Raises UnknownRow, VersionMismatch, PolicyError for overrides that cannot be used, and Forbidden for
    a key that is bound to one user or untrusted.
    """
    by.check_agent(agent_id)
    if by.user_id is not None:
        raise Forbidden(_("A key that is bound to a user may not change what all users of the agent share."))
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not change agents."))
    agent = Agent.objects.select_for_update().filter(agent_id=agent_id).first()
    if agent is None:
        raise UnknownRow(format_lazy(_("No agent {agent}."), agent=repr(agent_id)))
    if expected_version is not None and agent.version != expected_version:
        raise VersionMismatch(agent.version)
    check_overrides(values.get("policy", {}))
    for name, value in values.items():
        setattr(agent, name, value)
    agent.version += 1
    agent.updated_at = now
    agent.save()
    audit.record(by=by, verb="update", row=agent, details={"fields": sorted(values)}, now=now)
    return agent


@transaction.atomic
def set_actor_policy(
    *, actor: Actor, policy: Mapping[str, Any], expected_version: int | None = None, by: Principal, now: datetime
) -> Actor:
    """Replace a user's policy overrides.

    Raises VersionMismatch, UnknownRow if the user was erased, PolicyError for invalid values, Forbidden for
    an untrusted key, or one without the scope `admin` that would change an operator's value: the prompt, or trust.
    """
    locked = Actor.objects.select_for_update(of=["self"]).select_related("agent").filter(pk=actor.pk).first()
    if locked is None:
        raise UnknownRow(_("The user was erased at the same time."))
    actor = locked
    if expected_version is not None and actor.version != expected_version:
        raise VersionMismatch(actor.version)
    policy = _permitted_overrides(by, actor.policy, policy)
    check_overrides(actor.agent.policy, policy)
    actor.policy, actor.version = dict(policy), actor.version + 1
    actor.save(update_fields=["policy", "version"])
    audit.record(by=by, verb="update", row=actor, details={"fields": sorted(policy)}, now=now)
    return actor


def _permitted_overrides(by: Principal, current: Mapping[str, Any], requested: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the overrides to store; without the scope `admin`, an operator's values stay and may not be changed."""
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not change policies."))
    if Scope.ADMIN in by.scopes:
        return requested
    operator_values = {key: current[key] for key in operator_keys() & set(current)}
    refused = sorted(key for key in operator_keys() & set(requested) if requested[key] != operator_values.get(key))
    if refused:
        raise Forbidden(
            format_lazy(_("Only a key with the scope `admin` may change {names}."), names=", ".join(refused))
        )
    return {**operator_values, **requested}


@transaction.atomic
def issue_key(
    *,
    name: str,
    scopes: Sequence[Scope],
    agent_ids: Sequence[str] | None = None,
    user_id: str | None = None,
    is_trusted: bool = True,
    expires_at: datetime | None = None,
    daily_token_cap: int | None = None,
    person: User | None = None,
    is_personal: bool = False,
    by: Principal,
    now: datetime,
) -> tuple[ApiKey, NewKey]:
    """Create a key; the returned NewKey holds the text that is shown once and never again.

    `person` is whose key it is if it is personal, else who made it.
    """
    new = generate_key()
    row = ApiKey.objects.create(
        name=name,
        prefix=new.prefix,
        digest=new.digest,
        scopes=[str(scope) for scope in scopes],
        agent_ids=list(agent_ids) if agent_ids else None,
        user_id=user_id or None,
        is_trusted=is_trusted,
        created_at=now,
        expires_at=expires_at,
        daily_token_cap=daily_token_cap,
        person=person,
        is_personal=is_personal,
    )
    details = {"prefix": row.prefix, **({"person": str(person.pk)} if person and is_personal else {})}
    audit.record(by=by, verb="issue", row=row, details=details, now=now)
    return row, new


@transaction.atomic
def revoke_key(*, key: ApiKey, reason: str = "", by: Principal, now: datetime) -> bool:
    revoked = ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now)
    if revoked:
        audit.record(by=by, verb="revoke", row=key, reason=reason, now=now)
    return bool(revoked)


@transaction.atomic
def retry_jobs(*, job_ids: Sequence[UUID], by: Principal, reason: str = "", now: datetime) -> int:
    """Put failed and dead jobs back into the queue, with three more attempts; return their number.

    Other jobs are left unchanged.
    """
    jobs = Job.objects.ended_badly().filter(pk__in=job_ids).order_by("pk").select_for_update()
    ids = list(jobs.values_list("pk", flat=True))
    Job.objects.filter(pk__in=ids).update(
        state=State.QUEUED, excused=F("attempts"), excused_since=None, due_at=now, finished_at=None
    )
    audit.record_each(by=by, verb="retry", object_kind="job", object_ids=ids, reason=reason, now=now)
    return len(ids)


@transaction.atomic
def cancel_jobs(*, job_ids: Sequence[UUID], by: Principal, reason: str = "", now: datetime) -> int:
    """Set queued jobs to failed; return their number. `retry_jobs` undoes it.

    Running jobs are left unchanged. An excused attempt is counted, so that a retried job does not take the place of its
    key's one waiting job without attempts.
    """
    jobs = Job.objects.filter(pk__in=job_ids, state=State.QUEUED).order_by("pk").select_for_update()
    ids = list(jobs.values_list("pk", flat=True))
    Job.objects.filter(pk__in=ids).update(
        state=State.FAILED, attempts=F("attempts") + 1, excused=F("excused") + 1, error=CANCELLED, finished_at=now
    )
    audit.record_each(by=by, verb="cancel", object_kind="job", object_ids=ids, reason=reason, now=now)
    return len(ids)
