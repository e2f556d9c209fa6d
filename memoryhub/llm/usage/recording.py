"""Writing calls into the ledger, whatever becomes of the change that they were made for."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.db import Error, IntegrityError, connection, transaction

from memoryhub.llm.usage.calibrating import calibrate_when_due
from memoryhub.llm.usage.domain import Call, PriceList
from memoryhub.llm.usage.models import LedgerEntry

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
