"""Calls that cost something: a cap before, a row of the ledger after, whatever became of the call (SPEC A9)."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import TracebackType
from typing import Self

from django.utils import timezone

from memoryhub.llm.usage.domain import OK, Call, LedgerPolicy, Payer, Size
from memoryhub.llm.usage.recording import record
from memoryhub.llm.usage.spending import Standing, standing_of
from memoryhub.providers.errors import BadAnswer, ProviderError, ProviderUnavailable
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy

INTERRUPTED = "interrupted"
"""The outcome of a call whose caller went away, or was told to stop."""
CUT = "truncated"
REFUSED = "refused"
"""Codes of errors that a language model's answer ended in."""


class SpendCapReached(ProviderUnavailable):
    """The agent has used up what it may use in a day; a job that raises it waits for the next."""

    def __init__(self, standing: Standing, *, now: datetime) -> None:
        super().__init__(
            standing.detail,
            code="spend_cap",
            permanent=False,
            retry_after_seconds=(standing.ends_at - now).total_seconds(),
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call read and wrote; `is_told` by the provider, or as we count it. The cache's are among the input."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    is_told: bool = True


def payer(actor: Actor) -> Payer:
    """Return who pays for what is done for an actor: its agent."""
    return Payer(actor.agent_id, actor.pk)


def check_cap(actor: Actor, *, now: datetime) -> None:
    """Raise SpendCapReached where the actor's agent has used up its day; without a cap nothing is summed.

    What is under way at the same moment is not counted yet: a cap is passed by as many calls as run at once, at most.
    """
    if not effective_policy(LedgerPolicy, actor.agent, None).has_cap:
        return
    standing = standing_of(actor.agent_id, actor.agent, now=now)
    if standing.reached:
        raise SpendCapReached(standing, now=now)


@dataclass(frozen=True, slots=True)
class Ending:
    """How one attempt at a call ended."""

    outcome: str
    was_paid: bool
    latency_ms: float
    at: datetime


@dataclass
class Meter:
    """Times a call with all its attempts and writes each into the ledger when its block ends, answered or not.

    `size` is asked for afterwards: nobody who waits for an answer waits for a count, or between two attempts for the
    database. What was answered, and could not be used, was paid for all the same: it stands in the ledger with our own
    count (`most_output` where it was cut).
    """

    payer: Payer
    operation: str
    provider: str
    model: str
    size: Callable[[], Size]
    most_output: int = 0
    answer: Usage | None = field(default=None, init=False)
    failures: list[Ending] = field(default_factory=list, init=False)
    started: float = field(default=0.0, init=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(error)

    def start(self) -> None:
        """Begin to count the time."""
        self.started = time.perf_counter()

    def answered(self, usage: Usage) -> None:
        """Note what the provider said that it read and wrote."""
        self.answer = usage

    def failed(self, error: ProviderError, pause_seconds: float) -> None:
        """Note an attempt that failed; the next begins after the pause."""
        self.failures.append(self._ending(error))
        self.started = time.perf_counter() + pause_seconds

    def stop(self, error: BaseException | None) -> None:
        """Write all attempts into the ledger, the last with the error that it ended in."""
        endings = [*self.failures]
        if self._is_under_way() or outcome_of(error) != INTERRUPTED:
            endings.append(self._ending(error))
        size = self.size()
        for ending in endings:
            record(self._call(ending, size), now=ending.at)

    def _is_under_way(self) -> bool:
        """Whether an attempt runs; who went away during a pause broke off none."""
        return not self.failures or time.perf_counter() >= self.started

    def _ending(self, error: BaseException | None) -> Ending:
        latency_ms = max(0.0, time.perf_counter() - self.started) * 1000
        was_paid = error is None or _was_answered(error)
        return Ending(outcome_of(error), was_paid, latency_ms, timezone.now())

    def _call(self, ending: Ending, size: Size) -> Call:
        told = self.answer if ending.outcome == OK else None
        written = self.most_output if ending.outcome == CUT else 0
        usage = told or Usage(size.estimated_tokens, written, is_told=False)
        paid = usage if ending.was_paid else None
        return Call(
            payer=self.payer, operation=self.operation, provider=self.provider, model=self.model,
            size=size if usage.is_told else replace(size, is_plain=False), latency_ms=ending.latency_ms,
            outcome=ending.outcome,
            input_tokens=paid.input_tokens if paid else None, output_tokens=paid.output_tokens if paid else None,
            cache_read_tokens=usage.cache_read_tokens, cache_write_tokens=usage.cache_write_tokens,
        )  # fmt: skip


def outcome_of(error: BaseException | None) -> str:
    """Return how a call ended, in one word."""
    if error is None:
        return OK
    return error.code if isinstance(error, ProviderError) else INTERRUPTED


def _was_answered(error: BaseException) -> bool:
    return isinstance(error, BadAnswer) or outcome_of(error) in (REFUSED, INTERRUPTED)
