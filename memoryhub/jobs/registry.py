"""The registry of background jobs: functions marked with `@job` in the `jobs` module of each app."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from django.conf import settings

from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.retries import Recurrence, recurrence

Run = Callable[[JobContext], Writes | None]
Event = Literal["turn", "answer", "session", "summary", "forget_request", "forget_cue"]
"""Events of a session: a message was added, an answer was given, it ended, its summary was written, something is to be
forgotten."""


OrderedBy = Literal["server", "trusted", "anyone"]
"""Callers that may order a job: none, as only events, schedules and other changes cause it; trusted ones; or any."""


class UnknownKind(LookupError):
    """No job is registered under this name."""


LEASE_SECONDS: Final = 60
DEADLINE_SECONDS: Final = 300
CALLS_OF_AN_ATTEMPT: Final = 4
"""Calls of a slow model for which the deadlines leave room."""


ASKS_MODEL: Final = "asks_model"
"""Name of the common limit of the kinds that ask a model."""


@dataclass(frozen=True)
class After:
    """A trigger: enqueue the job in the transaction of an event.

    One job is queued at a time for each `session` or each `actor` (`key`); it waits `delay_seconds` for further events.
    With `needs_model` it is skipped if no language model is configured. The payload holds the session's id.
    """

    event: Event
    key: Literal["session", "actor"] = "session"
    delay_seconds: float = 0.0
    needs_model: bool = False


@dataclass(frozen=True)
class Schedule:
    name: str
    recurrence: Recurrence


@dataclass(frozen=True)
class JobKind:
    """A registered job.

    `run` is called outside any transaction and returns a function that writes the results, or None. A lost worker is
    noticed after `lease_seconds`; an attempt may take `deadline_seconds`; at most `at_once` run at a time over all
    workers. What a caller in `ordered_by` orders is done with the caller's rights; see memoryhub/auth/orders.py.
    `permissions` are what an account needs to order it, by the `verb` of its payload; without one under "". One that
    `asks_model` may take longer where the model is slow.
    """

    name: str
    run: Run
    lease_seconds: int = LEASE_SECONDS
    deadline_seconds: int = DEADLINE_SECONDS
    at_once: int | None = None
    schedule: Schedule | None = None
    after: tuple[After, ...] = ()
    ordered_by: OrderedBy = "server"
    permissions: Mapping[str, str] = field(default_factory=dict)
    asks_model: bool = False

    @property
    def limit_seconds(self) -> int:
        """Return how long an attempt may take: more where it asks a model that takes minutes an answer."""
        extra = settings.LLM.extra_seconds if self.asks_model else 0.0
        return self.deadline_seconds + int(CALLS_OF_AN_ATTEMPT * extra)

    def permission_for(self, payload: Mapping[str, Any]) -> str:
        """Return the permission that an account needs for a job with this payload; empty: none suffices."""
        return self.permissions.get(payload.get("verb", ""), self.permissions.get("", ""))


KINDS: Final[dict[str, JobKind]] = {}

ROUNDS: Final[list[Callable[[], object]]] = []
"""Called each second by each pool of workers; they enqueue what neither an event nor a schedule does."""

ORDER_CHECKS: Final[list[Callable[[JobContext], object]]] = []
"""Called before a job begins; they raise where its caller may not order it any more."""


def job(
    name: str,
    *,
    lease_seconds: int = LEASE_SECONDS,
    deadline_seconds: int = DEADLINE_SECONDS,
    at_once: int | None = None,
    every_seconds: int | None = None,
    daily_at: str | None = None,
    schedule: str = "",
    after: Sequence[After] = (),
    ordered_by: OrderedBy = "server",
    permissions: Mapping[str, str] | None = None,
    asks_model: bool = False,
) -> Callable[[Run], Run]:
    """Register the decorated function as a job; see `JobKind` and `After`.

    `every_seconds` or `daily_at` ("03:30", UTC) schedule it under the name `schedule` (by default the job's own).
    Missed times are made up for once. Raises ValueError.
    """
    recurring = None
    if every_seconds is not None or daily_at is not None:
        when = recurrence(every_seconds=every_seconds, daily_at=daily_at)
        recurring = Schedule(schedule or name.replace("_", " "), when)

    def register(run: Run) -> Run:
        if name in KINDS:
            raise ValueError(f"There are two jobs {name!r}.")
        limits = (lease_seconds, deadline_seconds, at_once)
        KINDS[name] = JobKind(
            name, run, *limits, recurring, tuple(after), ordered_by, permissions or {}, asks_model=asks_model
        )
        return run

    return register


@dataclass(frozen=True)
class RunningLimit:
    """Maximum number of jobs of some kinds that run at a time, over all workers."""

    name: str
    kinds: list[str]
    most: int


def limits_of(kind: JobKind) -> list[RunningLimit]:
    """Return the limits of a kind: its own, and that of a model server which answers few calls at once.

    A job that waits for the server is not claimed yet, so that its deadline does not run.
    """
    limits = [] if kind.at_once is None else [RunningLimit(kind.name, [kind.name], kind.at_once)]
    if kind.asks_model and settings.LLM.parallel is not None:
        asking = [each.name for each in KINDS.values() if each.asks_model]
        limits.append(RunningLimit(ASKS_MODEL, asking, settings.LLM.parallel))
    return limits


def job_kind(name: str) -> JobKind:
    try:
        return KINDS[name]
    except KeyError:
        raise UnknownKind(f"There is no job {name!r}; one of {', '.join(sorted(KINDS))}.") from None


def schedules() -> dict[str, tuple[str, Recurrence]]:
    return {kind.schedule.name: (kind.name, kind.schedule.recurrence) for kind in KINDS.values() if kind.schedule}
