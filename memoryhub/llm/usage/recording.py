"""Record every call to a provider with its cost, even where the caller's transaction rolls back (SPEC A9)."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Self
from uuid import UUID

from django.conf import settings
from django.db import Error, IntegrityError, connection, transaction
from django.utils import timezone

from memoryhub.jobs.context import KEY_ID
from memoryhub.llm.errors import BadAnswer, ProviderError
from memoryhub.llm.types import Completion, Operation
from memoryhub.llm.usage.calibration import calibrate_when_due
from memoryhub.llm.usage.caps import OK, Payer, Size
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.prices import PriceList
from memoryhub.telemetry.spans import NONE, Span, span
from memoryhub.tenancy.models import Actor

log = logging.getLogger(__name__)


def record(entry: LedgerEntry) -> None:
    """Write a call that is over, with its cost; where that fails, the answer that was paid for is not lost."""
    prices: PriceList = settings.PRICES
    if entry.input_tokens is not None:
        entry.cost = prices.cost(
            entry.model,
            input_tokens=entry.input_tokens,
            output_tokens=entry.output_tokens or 0,
            cache_read_tokens=entry.cache_read_tokens,
            cache_write_tokens=entry.cache_write_tokens,
        )
    try:
        _store(entry)
        if entry.is_sample:
            calibrate_when_due(entry.provider, entry.model)
    except Error as error:  # includes broken connections, which are not DatabaseErrors
        log.error(
            "a call is missing in the ledger",
            extra={"operation": entry.operation, "outcome": entry.outcome, "error": type(error).__name__},
        )


def _store(entry: LedgerEntry) -> None:
    """Insert the row outside the caller's transaction: a rollback there must not forget what was spent."""

    def insert_on_own_connection() -> None:
        try:
            _insert(entry)
        finally:
            connection.close()

    try:
        _insert(entry)
    except RuntimeError:  # raised by `durable` within a transaction
        with ThreadPoolExecutor(1, "ledger") as elsewhere:
            elsewhere.submit(insert_on_own_connection).result()


def _insert(entry: LedgerEntry) -> None:
    try:
        with transaction.atomic(durable=True):
            entry.save(force_insert=True)
    except IntegrityError:  # the user was erased during the call, which was made nevertheless
        entry.actor_id = None
        with transaction.atomic(durable=True):
            entry.save(force_insert=True)


GENAI_PROVIDERS: Final = {"azure": "azure.ai.openai"}
"""Names of providers in OpenTelemetry's conventions, where they differ."""

INTERRUPTED = "interrupted"
"""Outcome of a call after its caller disconnected or stopped."""
TRUNCATED = "truncated"
REFUSED = "refused"
"""Codes of errors that a language model's answer ended in."""


def payer(actor: Actor) -> Payer:
    return Payer(actor.agent_id, actor.pk)


@dataclass(frozen=True, slots=True)
class CallEnding:
    outcome: str
    was_paid: bool
    latency_ms: float
    at: datetime


@dataclass
class Meter:
    """Times a call with all its attempts and writes each into the ledger when its block ends, answered or not.

    `size` is asked for afterwards: callers wait for an answer, not for a count, or between two attempts for the
    database. What was answered, and could not be used, was paid for all the same: it stands in the ledger with our own
    count (`most_output` where it was cut).
    """

    payer: Payer
    operation: str
    provider: str
    model: str
    size: Callable[[], Size]
    most_output: int = 0
    answer: Completion | None = field(default=None, init=False)
    key_id: UUID | None = field(default_factory=KEY_ID.get, init=False)
    failures: list[CallEnding] = field(default_factory=list, init=False)
    started: float = field(default=0.0, init=False)
    span: Span = field(default=NONE, init=False, repr=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.stop(error)

    def start(self) -> None:
        self.started = time.perf_counter()
        values = {"memoryhub.operation": self.operation, "gen_ai.operation.name": self._genai_operation}
        values |= {"gen_ai.provider.name": GENAI_PROVIDERS.get(self.provider, self.provider)}
        name = f"{self._genai_operation} {self.model}"
        self.span = span(name, values | {"gen_ai.request.model": self.model}, kind="client")

    def failed(self, error: ProviderError, pause_seconds: float) -> None:
        """Note an attempt that failed; the next begins after the pause."""
        self.failures.append(self._ending(error))
        self.started = time.perf_counter() + pause_seconds

    def stop(self, error: BaseException | None) -> None:
        """Write all attempts into the ledger, the last with the error that it ended in."""
        self._end_span(error)
        endings = [*self.failures]
        # A cancellation during a pause interrupts no attempt.
        is_under_way = not self.failures or time.perf_counter() >= self.started
        if is_under_way or outcome_of(error) != INTERRUPTED:
            endings.append(self._ending(error))
        size = self.size()
        for ending in endings:
            record(self._entry(ending, size))

    @property
    def _genai_operation(self) -> str:
        return "chat" if self.operation in set(Operation) else "embeddings"

    def _end_span(self, error: BaseException | None) -> None:
        if error is not None:
            self.span.fail(outcome_of(error))
        if self.failures:
            self.span.set({"memoryhub.failed_attempts": len(self.failures)})
        if self.answer is not None:
            self.span.set(
                {
                    "gen_ai.response.model": self.answer.model,
                    "gen_ai.usage.input_tokens": self.answer.input_tokens,
                    "gen_ai.usage.output_tokens": self.answer.output_tokens,
                    "gen_ai.usage.cache_read.input_tokens": self.answer.cache_read_tokens,
                }
            )
        self.span.end()

    def _ending(self, error: BaseException | None) -> CallEnding:
        latency_ms = max(0.0, time.perf_counter() - self.started) * 1000
        outcome = outcome_of(error)
        was_paid = isinstance(error, BadAnswer) or outcome in (OK, REFUSED, INTERRUPTED)
        return CallEnding(outcome, was_paid, latency_ms, timezone.now())

    def _entry(self, ending: CallEnding, size: Size) -> LedgerEntry:
        answer = self.answer if ending.outcome == OK else None
        is_reported = answer is not None and not answer.usage_is_estimated
        read: int | None = None
        written: int | None = None
        if answer is not None:
            read, written = answer.input_tokens, answer.output_tokens
        elif ending.was_paid:
            read, written = size.estimated_tokens, self.most_output if ending.outcome == TRUNCATED else 0
        raw = size.by_script
        return LedgerEntry(
            created_at=ending.at, agent_id=self.payer.agent_id, actor_id=self.payer.actor_id,
            key_id=self.payer.key_id or self.key_id,
            operation=self.operation, provider=self.provider, model=self.model, outcome=ending.outcome,
            input_tokens=read, output_tokens=written,
            cache_read_tokens=answer.cache_read_tokens if answer else 0,
            cache_write_tokens=answer.cache_write_tokens if answer else 0,
            estimated_tokens=size.estimated_tokens, raw_latin=raw.get("latin", 0),
            raw_japanese=raw.get("japanese", 0), raw_code=raw.get("code", 0), raw_other=raw.get("other", 0),
            messages=size.messages, is_sample=is_reported and size.is_plain and bool(read),
            latency_ms=round(ending.latency_ms, 2),
        )  # fmt: skip


def outcome_of(error: BaseException | None) -> str:
    if error is None:
        return OK
    return error.code if isinstance(error, ProviderError) else INTERRUPTED
