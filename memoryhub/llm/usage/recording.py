"""Record every call to a provider with its cost, whatever becomes of the change that it was made for (SPEC A9)."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from types import TracebackType
from typing import Self

from django.conf import settings
from django.db import Error, IntegrityError, connection, transaction
from django.utils import timezone

from memoryhub.llm.errors import BadAnswer, ProviderError
from memoryhub.llm.usage.calibration import calibrate_when_due
from memoryhub.llm.usage.domain import OK, Call, Payer, PriceList, Size
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.tenancy.models import Actor

log = logging.getLogger(__name__)


def record(call: Call, *, now: datetime) -> None:
    """Write a call that is over. An answer that was paid for is not lost because this fails: that is logged."""
    try:
        _store(_entry(call, now))
        if call.is_sample:
            calibrate_when_due(call.provider, call.model)
    except Error as error:  # also where the connection is broken, which is no DatabaseError
        log.error(
            "a call is missing in the ledger",
            extra={"operation": call.operation, "outcome": call.outcome, "error": type(error).__name__},
        )


def _entry(call: Call, now: datetime) -> LedgerEntry:
    raw = call.size.by_script
    return LedgerEntry(
        created_at=now, agent_id=call.payer.agent_id, actor_id=call.payer.actor_id, operation=call.operation,
        provider=call.provider, model=call.model, outcome=call.outcome, input_tokens=call.input_tokens,
        output_tokens=call.output_tokens, cache_read_tokens=call.cache_read_tokens,
        cache_write_tokens=call.cache_write_tokens, estimated_tokens=call.size.estimated_tokens,
        raw_latin=raw.get("latin", 0), raw_japanese=raw.get("japanese", 0), raw_code=raw.get("code", 0),
        raw_other=raw.get("other", 0), messages=call.size.messages, is_sample=call.is_sample,
        latency_ms=round(call.latency_ms, 2),
        cost=_cost(call),
    )  # fmt: skip


def _cost(call: Call) -> Decimal | None:
    if call.input_tokens is None:
        return None
    prices: PriceList = settings.PRICES
    return prices.cost(
        call.model, input_tokens=call.input_tokens, output_tokens=call.output_tokens or 0,
        cache_read_tokens=call.cache_read_tokens, cache_write_tokens=call.cache_write_tokens,
    )  # fmt: skip


def _store(entry: LedgerEntry) -> None:
    """Insert the row outside the caller's transaction: a rollback there must not forget what was spent."""
    try:
        _insert(entry)
    except RuntimeError:  # what `durable` raises within a transaction
        with ThreadPoolExecutor(1, "ledger") as elsewhere:
            elsewhere.submit(_insert_on_own_connection, entry).result()


def _insert(entry: LedgerEntry) -> None:
    try:
        with transaction.atomic(durable=True):
            entry.save(force_insert=True)
    except IntegrityError:  # the user was erased meanwhile; the call was made all the same
        entry.actor_id = None
        with transaction.atomic(durable=True):
            entry.save(force_insert=True)


def _insert_on_own_connection(entry: LedgerEntry) -> None:
    try:
        _insert(entry)
    finally:
        connection.close()


INTERRUPTED = "interrupted"
"""The outcome of a call whose caller went away, or was told to stop."""
CUT = "truncated"
REFUSED = "refused"
"""Codes of errors that a language model's answer ended in."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in and out; `is_told` as reported by the provider, else our own count. Cached tokens are part of the
    input.
    """

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    is_told: bool = True


def payer(actor: Actor) -> Payer:
    """Return who pays for what is done for an actor: its agent."""
    return Payer(actor.agent_id, actor.pk)


@dataclass(frozen=True, slots=True)
class Ending:
    """End of one attempt at a call."""

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
        self.started = time.perf_counter()

    def answered(self, usage: Usage) -> None:
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
        """Return whether an attempt runs; a cancellation during a pause interrupts none."""
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
