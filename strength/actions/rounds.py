"""Sleeps of one actor, or of an agent and all its users as one (SPEC S7)."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import datetime
from typing import Final

from memoryhub.auth.domain import Forbidden, Principal
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.errors import DomainError, told
from memoryhub.tenancy.models import Actor
from strength.actions.curate import WrongState
from strength.actions.preview import preview_sleep
from strength.actions.sleep import Waking, sleep
from strength.actions.undo import undo_sleep
from strength.models import SleepRun

MOST_AT_ONCE: Final = 200
"""Actors whose memory sleeps while a request waits."""

MOST_COMPARED: Final = 200
"""New memories that are compared while a request waits; the nightly sleep has all the time it needs."""


class TooMany(DomainError):
    """More actors than one request can wait for."""


def actors_of(actor: Actor, *, all_users: bool) -> list[Actor]:
    """Return the actor, or its agent's own actor and all its users'."""
    if not all_users:
        return [actor]
    return list(Actor.objects.filter(agent_id=actor.agent_id).select_related("agent").order_by("user_id"))


def sleep_round(
    *,
    actor: Actor,
    waking: Waking,
    all_users: bool,
    dry_run: bool,
    most: int | None = None,
    most_compared: int | None = MOST_COMPARED,
    may_go_on: Callable[[], bool] = lambda: True,
    done: Callable[[SleepRun], object] = lambda run: None,
) -> list[SleepRun]:
    """Let an actor's memory sleep, or of all users of its agent, or preview that; return the runs.

    Where `may_go_on` says no, what is new is not compared any further; the next sleep goes on with it. `waking.group`
    binds them, so that they can be read and undone together.
    Raises TooMany beyond `most` actors, Forbidden for an untrusted key, and for one user's key that names all users.
    """
    if not waking.by.is_trusted:
        raise Forbidden(told("An untrusted key may not let what is believed fade; a curator can."))
    if all_users and waking.by.user_id is not None:
        raise Forbidden(told("This key is bound to one user; it cannot speak for all."))
    actors = actors_of(actor, all_users=all_users)
    if most is not None and len(actors) > most:
        raise TooMany(
            told(
                "The agent has %(count)s actors, and one request does %(most)s at most; use the command "
                "`manage.py sleep_phase`, or leave it to the nightly schedule.",
                count=len(actors),
                most=most,
            )
        )
    runs = []
    for each in actors:
        with suppress(UnknownRow) if len(actors) > 1 else nullcontext():  # erased meanwhile; the others sleep
            if dry_run:
                run = preview_sleep(actor=each, waking=waking)
            else:
                asleep = sleep(actor=each, waking=waking, most_compared=most_compared, may_go_on=may_go_on)
                run = _of_round(asleep, waking)
            runs.append(run)
            done(run)
    return runs


def _of_round(run: SleepRun, waking: Waking) -> SleepRun:
    """Count a run that had just ended for another reason to the round that would have begun it."""
    if waking.group is not None and run.group is None:
        run.group = waking.group
        run.save(update_fields=["group"])
    return run


def undo_round(*, runs: list[SleepRun], by: Principal, reason: str, now: datetime) -> list[SleepRun]:
    """Undo one run, or those of a round that are not undone yet; return them as they are then.

    Raises WrongState where a single run cannot be undone, or none of a round can; Forbidden.
    """
    if len(runs) == 1:
        return [undo_sleep(run=runs[0], by=by, reason=reason, now=now)]
    undone, refused = [], []
    for run in runs:
        try:
            undone.append(undo_sleep(run=run, by=by, reason=reason, now=now))
        except WrongState as error:
            undone.append(run)
            refused.append(error)
    if len(refused) == len(runs):
        raise refused[0]
    return undone
