"""Write the profile of a user; people edit, lock, restore and delete it (ADR 39).

The job reads the user's preferences and facts, asks the model outside any transaction, and writes only if the profile
is still the one that it read: a person's edit wins. What is shown is decided at each read.
"""

import sys
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext_lazy as _

from conversations.actions.generated_texts import WrittenTexts
from memoryhub.auth import audit
from memoryhub.auth.access import Tenant, UnknownRow, lock_actor
from memoryhub.auth.orders import job_principal, order_of
from memoryhub.auth.principals import Forbidden, Principal, TextVerb
from memoryhub.errors import stored_text
from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.queue import enqueue
from memoryhub.jobs.retries import FIRST_PAUSE_SECONDS, Postponed
from memoryhub.llm.client import complete_json, counter_in_use, llm_provider, material_limit
from memoryhub.llm.types import Operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from strength.actions.search import select_profile_memories, standing_memories
from strength.domain.memories import WrongState
from strength.domain.policy import ProfilePolicy
from strength.domain.profile import (
    JOB_KIND,
    MAX_LINES,
    SCHEMA,
    Entry,
    Generator,
    Line,
    ProfileMemory,
    Source,
    count_changes,
    entries_of,
    first_within,
    memory_blocks,
    parse_lines,
    remove_memories,
)
from strength.models import Memory, MemoryChange, Profile, ProfileVersion

JOB_KEY: Final = "actor"
MIN_INTERVAL: Final = timedelta(hours=1)
"""Minimum time between writings; each costs a model call."""

START_DELAY: Final = timedelta(minutes=5)
"""Delay after the first change, so that memories written together are read together."""


class ProfileLocked(WrongState):
    """The profile must be unlocked before a job writes it again."""

    code = "profile_locked"


def get_profile(actor_id: UUID) -> Profile | None:
    return Profile.objects.select_related("actor__agent").filter(actor_id=actor_id).first()


def profile_entries(
    *, tenant: Tenant, memories: Sequence[ProfileMemory], project: str | None, now: datetime
) -> tuple[Profile | None, list[Entry]]:
    """Return the written profile, if one is to be shown, and the entries that contexts are offered, best first."""
    profile = None
    if tenant.actor is not None and effective_policy(ProfilePolicy, tenant.agent, tenant.actor).write_profile:
        profile = get_profile(tenant.actor_id)
    lines = profile.written if profile else []
    missing = {key for line in lines for key in line.memory_ids} - {memory.pk for memory in memories}
    others = select_profile_memories(tenant=tenant, memory_ids=missing, project=project, now=now)
    return profile, list(entries_of(lines, memories, others))


def due_profiles(*, since: datetime, now: datetime) -> list[tuple[UUID, float]]:
    """Return the actors whose profiles may be due, since memories of theirs changed, and in how many seconds."""
    if settings.LLM.provider == "none":
        return []
    changes = MemoryChange.objects.filter(at__gte=since, actor__isnull=False).order_by()
    ids = list(changes.exclude(actor__user_id="").values_list("actor_id", flat=True).distinct())
    written_times = dict(Profile.objects.filter(actor_id__in=ids).values_list("actor_id", "written_at"))
    due = []
    for actor in Actor.objects.select_related("agent").filter(pk__in=ids).order_by("pk"):
        if effective_policy(ProfilePolicy, actor.agent, actor).write_profile:
            written_at = written_times.get(actor.pk)
            at = max(now + START_DELAY, written_at + MIN_INTERVAL) if written_at else now + START_DELAY
            due.append((actor.pk, (at - now).total_seconds()))
    return due


@transaction.atomic
def enqueue_profile(*, actor: Actor, by: Principal, now: datetime) -> UUID:
    """Enqueue the writing of a user's profile, due or not, and return the job.

    Raises Forbidden for an untrusted key, ProfileLocked, WrongState without a model or where the policy has it off.
    """
    lock_actor(actor.pk)
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not change trusted data; a curator can."))
    if settings.LLM.provider == "none" or not effective_policy(ProfilePolicy, actor.agent, actor).write_profile:
        raise WrongState(_("No language model is configured, or the policy `write_profile` is off."))
    profile = get_profile(actor.pk)
    if profile is not None and profile.locked:
        raise ProfileLocked(_("A person edited this profile, which locked it; unlock it first."))
    audit.record_each(by=by, verb="order", object_kind="profile", object_ids=[actor.pk], actor=actor, now=now)
    return enqueue(
        JOB_KIND, actor_id=actor.pk, key=f"asked:{by.id}", payload={"is_asked_for": True}, order=order_of(by)
    )


def write_profile(*, job: JobContext, now: datetime) -> Writes | None:
    """Let a model write the job's user's profile if that is due; return the function that stores it. Network.

    Raises ProviderError; contexts then hold the memories themselves.
    """
    actor = Actor.objects.select_related("agent").filter(id__in=[job.actor_id]).first()
    if actor is None or settings.LLM.provider == "none":
        return None
    policy, profile = effective_policy(ProfilePolicy, actor.agent, actor), get_profile(actor.pk)
    memories = standing_memories(actor, now=now)
    sources = [Source.of(memory) for memory in memories]
    change_count = count_changes(profile.sources if profile else [], sources)
    min_changes = 1 if job.payload.get("is_asked_for") else policy.write_profile_after
    if (
        not policy.write_profile
        or not memories
        or change_count < min_changes
        or (profile is not None and profile.locked)
    ):
        return None
    most = material_limit(Operation.SUMMARIZE, sys.maxsize)
    read = first_within(memories, most=most, count=counter_in_use(Operation.SUMMARIZE).count)
    data = complete_json(
        actor,
        Operation.SUMMARIZE,
        "profile",
        memory_blocks(read, language=actor.agent.language),
        SCHEMA,
        most=MAX_LINES,
    )
    lines, base = parse_lines(data, read), _profile_version(profile)
    return lambda: _write_profile(job, actor, lines, sources, base, now)


def _profile_version(profile: Profile | None) -> tuple[UUID | None, int]:
    return (profile.pk, profile.version) if profile else (None, 0)


def _write_profile(
    job: JobContext,
    actor: Actor,
    lines: list[Line],
    sources: Sequence[Source],
    base: tuple[UUID | None, int],
    now: datetime,
) -> None:
    """Write the profile and its version, in the transaction that completes the job."""
    profile = _locked_profile(actor.pk)
    present = Memory.objects.of([actor.pk]).filter(pk__in=[source.memory_id for source in sources])
    if _profile_version(profile) != base or present.count() < len(sources):
        reason = stored_text("The profile changed while it was written; it is looked at again.")
        raise Postponed(reason, seconds=FIRST_PAUSE_SECONDS)
    profile = profile or Profile(actor=actor, created_at=now, version=0)
    profile.written, profile.generator = lines, Generator.LLM
    profile.model = llm_provider().model_for(Operation.SUMMARIZE)[:255]
    profile.read_from = [source.as_json() for source in sources]
    profile.written_at = now
    by = job_principal(job)
    PROFILES.save_version(profile, verb=TextVerb.WRITE, by=by, reason="", now=now)


def _locked_profile(actor_id: UUID) -> Profile | None:
    """Lock the actor, so that a first profile is made once, and return its profile."""
    Actor.objects.select_for_update(no_key=True).filter(pk=actor_id).first()
    rows = Profile.objects.select_for_update(of=["self"]).select_related("actor__agent")
    return rows.filter(actor_id=actor_id).first()


class ProfileTexts(WrittenTexts[Profile]):
    versioned_fields = ("lines", "generator", "model")
    no_version = _("No version {number} of this profile.")

    def lock(self, row: Profile) -> Profile:
        locked = _locked_profile(row.actor_id)
        if locked is None or locked.pk != row.pk:
            raise UnknownRow(_("The user has no written profile."))
        return locked


PROFILES: Final = ProfileTexts()


def forget_in_profile(*, actor_id: UUID, memory_ids: Collection[UUID]) -> None:
    """Remove the lines that rest on deleted or rejected memories from the profile and all its versions."""
    deleted = [str(key) for key in memory_ids]
    profile = Profile.objects.select_for_update().filter(actor_id=actor_id).first() if deleted else None
    if profile is None:
        return
    versions = ProfileVersion.objects.filter(actor_id=actor_id, profile=profile)
    rows: list[Profile | ProfileVersion] = [profile, *versions]
    for row in rows:
        lines = remove_memories(row.written, memory_ids)
        if len(lines) < len(row.lines):
            row.written = lines
            row.save(update_fields=["lines"])
    profile.read_from = [source for source in profile.read_from if source["id"] not in deleted]
    profile.save(update_fields=["read_from"])
