"""Background jobs of memory: sleep, extraction, reflection, use detection, retention."""

import logging
from datetime import datetime, time, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from memoryhub.auth.orders import job_principal
from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.jobs.registry import After, job
from memoryhub.jobs.retries import Postponed, State
from memoryhub.llm.client import count_bad_attempts
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy, zone_of
from memoryhub.tenancy.policy import PolicyError
from memoryhub.zones import latest_at
from strength.actions import bulk_jobs, cues, expectations, forgetting, profiles, reflection, summary_memories
from strength.actions.extraction import ExtractionRun
from strength.actions.extraction import extract as extract_of
from strength.actions.revisions import thin_history
from strength.actions.sleep import SleepRequest, actor_batches, advance
from strength.actions.sleep import sleep as sleep_actor
from strength.actions.tasks import SLEEP_KEY, SLEEP_KIND
from strength.actions.usage import detect_turn_use, reinforce_turn, turns_to_inspect
from strength.domain.policy import StrengthPolicy
from strength.domain.profile import JOB_KIND as PROFILE_KIND
from strength.domain.sleep import RunState, Trigger
from strength.models import Task, Tombstone, UseReport
from strength.sql import SLEEP_QUERIES, run_query

BATCH_SIZE: Final = 500
NIGHT: Final = time(2, 30)
"""Local time at which an actor's night begins; a night that was missed is made up for."""

DUE_AFTER: Final = timedelta(hours=20)
"""Time since the last sleep after which one is due; less than a day, so that an early night is not skipped."""

USE_RETENTION: Final = timedelta(days=90)
"""Retention of use reports and of tasks with their outcomes."""

LIFTED_RETENTION: Final = timedelta(days=1)
"""Time in which the lifting of a block can be undone."""

EXTRACTION_SECONDS: Final = 420.0
"""Time for one more slice: a question about messages, up to five about known memories, and the writing."""

SLEEP_SECONDS: Final = 120.0
"""Time left when a sleep stops comparing memories; the next sleep continues."""

DETECTION_SECONDS: Final = 60.0
"""Time for one more answer: two attempts to ask a model."""

FIRST_LOOKBACK: Final = timedelta(days=1)
MAX_COMMIT_DELAY: Final = timedelta(minutes=2)
"""A change may be committed that long after its time."""

log = logging.getLogger(__name__)

NIL: Final = UUID(int=0)


@job("sleep", deadline_seconds=1800)
def sleep(job: JobContext) -> None:
    actor = _actor_of(job)
    if actor is None:
        return
    trigger = Trigger(job.payload.get("trigger", Trigger.SCHEDULE))
    request = SleepRequest(trigger=trigger, by=job_principal(job), now=timezone.now())
    sleep_actor(actor=actor, request=request, step=job.step, may_go_on=lambda: job.seconds_left > SLEEP_SECONDS)


@job("note_use", asks_model=True, after=[After("answer")])
def note_use(job: JobContext) -> None:
    """Reinforce the memories that a session's answers used, turn by turn (SPEC B1)."""
    assert job.actor_id is not None
    by = job_principal(job)
    turns = turns_to_inspect(actor_id=job.actor_id, session_id=UUID(job.payload["session_id"]))
    for turn in turns:
        used = detect_turn_use(turn=turn)
        with job.step():
            reinforce_turn(turn=turn, memories=used, by=by, now=timezone.now())
        if turn is not turns[-1] and job.seconds_left < DETECTION_SECONDS + settings.LLM.extra_seconds:
            raise Postponed("There are many answers; the next attempt goes on from here.", seconds=0)


@job(
    "extract",
    deadline_seconds=900,
    asks_model=True,
    after=[
        After("turn", key="actor", delay_seconds=20, needs_model=True),
        After("session", key="actor", delay_seconds=5, needs_model=True),
    ],
)
def extract(job: JobContext) -> None:
    actor = _actor_of(job)
    if actor is None:
        return
    first = job.payload.get("session_id")
    with count_bad_attempts(job) as bad_attempts:
        extract_of(
            run=ExtractionRun(actor, job_principal(job), timezone.now(), bad_attempts),
            first=UUID(first) if first else None,
            step=partial(job.step, cursor=bad_attempts),
            may_go_on=lambda: job.seconds_left > EXTRACTION_SECONDS + settings.LLM.extra_seconds,
        )


@job(
    bulk_jobs.JOB_KIND,
    deadline_seconds=1800,
    ordered_by="trusted",
    permissions={bulk_jobs.DELETE: "strength.delete_memory", "": "strength.change_memory"},
)
def curate_memories(job: JobContext) -> None:
    bulk_jobs.run_batch(job)


@job("reflect", asks_model=True)
def reflect(job: JobContext) -> None:
    actor = _actor_of(job)
    if actor is None:
        return
    by = job_principal(job)
    with count_bad_attempts(job) as bad_attempts:
        step = partial(job.step, cursor=bad_attempts)
        reflection.reflect(actor=actor, by=by, now=timezone.now(), bad_attempts=bad_attempts, step=step)


@job(PROFILE_KIND, asks_model=True, ordered_by="trusted", permissions={"": "strength.change_profile"})
def write_profile(job: JobContext) -> Writes | None:
    """Let a model write a user's profile from preferences and facts, if enough of them changed (ADR 39)."""
    return profiles.write_profile(job=job, now=timezone.now())


def _last_run(job: JobContext, now: datetime) -> datetime:
    """Return the time after which changes may not have been seen by the kind's last finished job."""
    earlier = Job.objects.filter(kind=job.kind, state=State.DONE).order_by("-created_at", "-id")
    last = earlier.values_list("created_at", flat=True).first()
    return (last or now - FIRST_LOOKBACK) - MAX_COMMIT_DELAY


@job("write_profiles_due", at_once=1, every_seconds=300, schedule="write what is due of profiles")
def write_profiles_due(job: JobContext) -> None:
    """Enqueue the profiles of users with memories that changed since the last run."""
    now = timezone.now()
    due = profiles.due_profiles(since=_last_run(job, now), now=now)
    for place in range(0, len(due), BATCH_SIZE):
        with job.step():
            for actor_id, seconds in due[place : place + BATCH_SIZE]:
                enqueue(PROFILE_KIND, actor_id=actor_id, key=profiles.JOB_KEY, delay_seconds=seconds)


@job(cues.CUES_KIND, asks_model=True)
def write_cues(job: JobContext) -> None:
    """Let a model write the cues of an actor's new memories that have none (ADR 69)."""
    actor = _actor_of(job)
    if actor is None:
        return
    since = datetime.fromisoformat(job.payload["since"])
    with count_bad_attempts(job) as bad_attempts:
        step = partial(job.step, cursor=bad_attempts)
        cues.write_cues(actor=actor, since=since, bad_attempts=bad_attempts, step=step)


@job("write_cues_due", at_once=1, every_seconds=3600, schedule="write cues")
def write_cues_due(job: JobContext) -> None:
    """Enqueue the writing of cues for actors with memories that were written since the last run."""
    since = _last_run(job, timezone.now())
    due = cues.actors_without_cues(since=since)
    for place in range(0, len(due), BATCH_SIZE):
        with job.step():
            for actor_id in due[place : place + BATCH_SIZE]:
                enqueue(cues.CUES_KIND, actor_id=actor_id, key=str(job.id), payload={"since": since.isoformat()})


@job("remember_summary", deadline_seconds=60, after=[After("summary")])
def remember_summary(job: JobContext) -> Writes | None:
    actor = _actor_of(job)
    if actor is None:
        return None
    by, session_id = job_principal(job), UUID(job.payload["session_id"])
    return lambda: summary_memories.write_summary_memory(actor=actor, session_id=session_id, by=by, now=timezone.now())


@job(
    "hold_forgotten",
    deadline_seconds=120,
    asks_model=True,
    after=[After("forget_request"), After("forget_cue", needs_model=True)],
)
def hold_forgotten(job: JobContext) -> None:
    """Let memories wait for review that the user asked to be forgotten (SPEC C9)."""
    if actor := _actor_of(job):
        session_id = UUID(job.payload["session_id"])
        forgetting.hold_for_request(actor=actor, session_id=session_id, by=job_principal(job), now=timezone.now())


def _actor_of(job: JobContext) -> Actor | None:
    return Actor.objects.select_related("agent").filter(id__in=[job.actor_id]).first()


@job("sleep_due", deadline_seconds=600, at_once=1, every_seconds=1800, schedule="sleep")
def sleep_due(job: JobContext) -> None:
    """Begin the sleep of each actor whose night has begun and who is due, a batch at a time (SPEC S7).

    A separate job continues those that have more to do.
    """
    after = UUID(job.cursor) if job.cursor else NIL
    now = timezone.now()
    request = SleepRequest(trigger=Trigger.SCHEDULE, by=job_principal(job), now=now)
    values = {"before": now - DUE_AFTER, "limit": BATCH_SIZE}
    while rows := run_query(SLEEP_QUERIES["due_actors"], {**values, "after": after}):
        moments = {actor_id: (slept_at, ran_at) for actor_id, slept_at, ran_at in rows}
        actors = Actor.objects.filter(id__in=moments).select_related("agent").order_by("id")
        for due in actor_batches([actor for actor in actors if _sleeps(actor, *moments[actor.id], now)]):
            with job.step(cursor=str(due[-1].id)):
                runs = advance(due, request)
                for actor in due:
                    if actor.id not in runs or runs[actor.id].state != RunState.DONE:
                        enqueue(SLEEP_KIND, actor_id=actor.id, key=SLEEP_KEY, payload={"trigger": Trigger.SCHEDULE})
        after = rows[-1][0]
        with job.step(cursor=str(after)):
            pass


def _sleeps(actor: Actor, slept_at: datetime | None, ran_at: datetime | None, now: datetime) -> bool:
    try:
        is_on = effective_policy(StrengthPolicy, actor.agent, actor).sleeps_nightly
        night = latest_at(now, zone_of(actor.agent, actor), NIGHT)
    except PolicyError as error:  # an invalid stored policy must not stop the other actors' sleep
        log.warning("policy not allowed", extra={"actor": str(actor.id), "keys": sorted(error.errors)})
        return False
    has_slept = slept_at >= night - DUE_AFTER if slept_at else actor.created_at >= night
    # An undone run counts too; otherwise it would be repeated within the hour.
    has_run = ran_at is not None and ran_at >= night - DUE_AFTER
    return is_on and not has_slept and not has_run


@job("forget_old_uses", deadline_seconds=600, at_once=1, daily_at="03:00")
def forget_old_uses(job: JobContext) -> None:
    """Delete old use reports, tasks and lifted tombstones, and thin out the history of strengths."""
    now, done = timezone.now(), 0
    unused = {"created_at__lt": now - USE_RETENTION}
    lifted = Tombstone.with_lifted.filter(lifted_at__lt=now - LIFTED_RETENTION)
    for old in (UseReport.objects.filter(**unused), Task.objects.filter(**unused), lifted):
        while keys := list(old.values_list("pk", flat=True)[:BATCH_SIZE]):
            with job.step(done=done):
                done += old.filter(pk__in=keys).delete()[0]
    while True:
        with job.step(done=done):
            thinned = thin_history(now=now, limit=BATCH_SIZE)
        done += thinned
        if not thinned:
            return


@job("check_expectations", deadline_seconds=1800, at_once=1, every_seconds=300)
def check_expectations(job: JobContext) -> None:
    """Check the expectations about contexts that a change may have touched (SPEC X14)."""
    by, done = job_principal(job), 0
    for rows in expectations.due(timezone.now()):
        done += len(rows)
        for _checked in expectations.check(rows, by=by, now=timezone.now(), step=partial(job.step, done=done)):
            pass
