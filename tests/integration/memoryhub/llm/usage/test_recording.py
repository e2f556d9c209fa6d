"""Every call leaves a row, whatever becomes of it; no row holds a text."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import InterfaceError, connection, transaction
from django.test.utils import CaptureQueriesContext

from memoryhub.llm.client import complete, size_of, stream
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.remote import pause_after
from memoryhub.llm.tokens import counter_for
from memoryhub.llm.types import ChatMessage, Completion, CompletionRequest, Operation
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.llm.usage.spending import spent_in
from memoryhub.prices import PriceList
from memoryhub.tenancy.models import Actor
from tests.fakes.llm_server import LLMServer, Reply

ROLLED_BACK = "rolled back"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def question(
    *texts: str, operation: Operation = Operation.SUMMARIZE, system: Any = "Be brief.", **rest: Any
) -> CompletionRequest:
    messages = tuple(ChatMessage("user", text) for text in texts or ("抹茶 zincmark is green tea",))
    options = {"max_output_tokens": 100, "deadline_seconds": 60.0, **rest}
    return CompletionRequest(operation=operation, messages=messages, system=system, **options)


def test_an_answer_stands_with_what_it_read_wrote_and_cost(llm: LLMServer, actor: Actor, prices: None) -> None:
    llm.answer(Reply("Green.", input_tokens=1000, output_tokens=200))
    complete(question(), actor=actor)
    entry = LedgerEntry.objects.get()
    assert (entry.agent_id, entry.actor_id, entry.operation) == ("kana", actor.pk, "summarize")
    assert (entry.provider, entry.outcome) == ("anthropic", "ok") and entry.model.startswith("claude")
    assert (entry.input_tokens, entry.output_tokens) == (1000, 200)
    assert entry.cost == Decimal("0.02")
    assert entry.raw_japanese > 0 and entry.raw_latin > 0 and entry.messages == 1 and entry.is_sample
    assert entry.estimated_tokens > entry.raw_latin + entry.raw_japanese
    assert entry.latency_ms > 0


def test_no_row_holds_a_text(llm: LLMServer, actor: Actor) -> None:
    llm.answer(Reply("The zincmark answer"))
    complete(question(), actor=actor)
    row = LedgerEntry.objects.values().get()
    assert "zincmark" not in str(row) and "hiroki" not in str(row)
    assert "hiroki" not in str(LedgerEntry.objects.get())


@pytest.mark.parametrize(
    ("failure", "attempts", "is_paid"),
    [
        ("429", 3, False),
        ("500", 3, False),
        ("401", 1, False),
        ("dropped", 3, False),
        ("refusal", 1, True),
        ("truncated_json", 2, True),
    ],
)
def test_each_attempt_that_fails_stands_with_its_code(
    llm: LLMServer, actor: Actor, prices: None, failure: str, attempts: int, is_paid: bool
) -> None:
    llm.answer(Reply("half", failure=failure))
    with pytest.raises(ProviderError) as raised:
        complete(question(), actor=actor)
    entries = LedgerEntry.objects.all()
    assert len(entries) == len(llm.asked) == attempts
    for entry in entries:
        assert entry.outcome == raised.value.code != "ok"
        assert not entry.is_sample and entry.estimated_tokens > 0
        assert (entry.cost is not None) is is_paid


def test_an_answer_that_was_asked_for_again_was_paid_for_twice(llm: LLMServer, actor: Actor, prices: None) -> None:
    llm.then(Reply("half", failure="truncated_json"), Reply(failure="529"))
    llm.answer(Reply("Green.", input_tokens=1000, output_tokens=200))
    complete(question(), actor=actor)
    unread, overloaded, answered = LedgerEntry.objects.order_by("created_at")
    assert [each.outcome for each in (unread, overloaded, answered)] == ["not_json", "overloaded", "ok"]
    assert overloaded.cost is None and overloaded.input_tokens is None
    assert (unread.input_tokens, unread.output_tokens) == (unread.estimated_tokens, 0)
    assert (answered.input_tokens, answered.cost) == (1000, Decimal("0.02"))
    assert spent_in(LedgerEntry.objects.all()).cost == answered.cost + (unread.cost or 0) > answered.cost


def test_a_pause_between_attempts_belongs_to_none(llm: LLMServer, actor: Actor) -> None:
    llm.then(Reply(failure="retry_after_1"))
    llm.answer(Reply("Green."))
    complete(question(), actor=actor)
    failed, answered = LedgerEntry.objects.order_by("created_at")
    between_ms = (answered.created_at - failed.created_at).total_seconds() * 1000
    assert answered.latency_ms <= between_ms - 1000


@pytest.mark.parametrize(("read", "written", "cost"), [(0, 0, "0.02"), (800, 0, "0.0128"), (800, 100, "0.01305")])
def test_what_the_cache_read_and_wrote_stands_apart_and_has_its_price(
    llm: LLMServer, actor: Actor, settings: Any, read: int, written: int, cost: str
) -> None:
    settings.PRICES = PriceList.from_json(
        '{"claude": {"input": 10, "output": 50, "cache_read": 1, "cache_write": 12.5}}'
    )
    llm.answer(Reply("Green.", input_tokens=1000, output_tokens=200, cached_tokens=read, cache_written_tokens=written))
    complete(question(), actor=actor)
    entry = LedgerEntry.objects.get()
    assert (entry.input_tokens, entry.cache_read_tokens, entry.cache_write_tokens) == (1000, read, written)
    assert entry.cost == Decimal(cost)
    assert entry.is_sample, "a count is a count, whatever it cost"


def test_a_broken_connection_loses_the_row_and_not_the_answer(
    llm: LLMServer, actor: Actor, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith('INSERT INTO "memoryhub_ledgerentry"'):
            raise InterfaceError("connection already closed")
        return execute(sql, *rest)

    llm.answer(Reply("Green."))
    with connection.execute_wrapper(broken):
        assert complete(question(), actor=actor).text == "Green."
    assert not LedgerEntry.objects.exists()
    assert "a call is missing in the ledger" in caplog.text


def test_an_answer_cut_at_its_length_was_paid_for_in_full(llm: LLMServer, actor: Actor, prices: None) -> None:
    llm.answer(Reply("a long answ", stop="max_tokens"))
    with pytest.raises(ProviderError):
        complete(question(), actor=actor)
    entry = LedgerEntry.objects.get()
    assert (entry.outcome, entry.output_tokens) == ("truncated", 100)
    assert entry.input_tokens == entry.estimated_tokens


def test_a_schema_teaches_nothing_and_counts(llm: LLMServer, actor: Actor) -> None:
    complete(question(json_schema=SCHEMA), actor=actor)
    complete(question(), actor=actor)
    plain, asked_for_json = LedgerEntry.objects.all()
    assert not asked_for_json.is_sample and plain.is_sample
    assert asked_for_json.estimated_tokens > plain.estimated_tokens


def test_an_image_teaches_nothing() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    message = ChatMessage("user", [image, {"type": "text", "text": "tea?"}])
    request = CompletionRequest(
        operation=Operation.CHAT, messages=(message,), max_output_tokens=10, deadline_seconds=60.0
    )
    size = size_of(request, counter_for("claude"))
    assert not size.is_plain and size.estimated_tokens > counter_for("claude").count("tea?")


def test_blocks_of_text_are_plain_text(llm: LLMServer, actor: Actor) -> None:
    blocks = [{"type": "text", "text": "green tea", "cache_control": {"type": "ephemeral"}}]
    complete(question(system=blocks), actor=actor)
    assert LedgerEntry.objects.get().is_sample


def test_a_provider_that_tells_no_usage_teaches_nothing(llm: LLMServer, actor: Actor) -> None:
    llm.answer(Reply("Green.", input_tokens=-1, output_tokens=-1))
    complete(question(), actor=actor)
    entry = LedgerEntry.objects.get()
    assert entry.outcome == "ok" and entry.input_tokens and not entry.is_sample


def test_without_a_model_there_is_nothing_to_note(actor: Actor) -> None:
    with pytest.raises(ProviderError, match="No language model"):
        complete(question(), actor=actor)
    assert not LedgerEntry.objects.exists()


def test_without_caps_a_call_sends_few_statements(llm: LLMServer, actor: Actor) -> None:
    complete(question(), actor=actor)
    actor = Actor.objects.select_related("agent").get(pk=actor.pk)
    with CaptureQueriesContext(connection) as statements:
        complete(question(), actor=actor)
    sent = [each["sql"] for each in statements if "SAVEPOINT" not in each["sql"]]
    assert len(sent) == 2, sent  # the row, and whether enough samples have come


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_is_rolled_back_does_not_take_the_row_along(llm: LLMServer, actor: Actor) -> None:
    with pytest.raises(ValueError, match=ROLLED_BACK), transaction.atomic():
        complete(question(), actor=actor)
        raise ValueError(ROLLED_BACK)
    assert LedgerEntry.objects.get().actor_id == actor.pk


@pytest.mark.django_db(transaction=True)
def test_an_actor_that_was_erased_meanwhile_costs_no_row(llm: LLMServer, actor: Actor) -> None:
    def erasing(asked: Any) -> Reply:
        Actor.objects.filter(pk=actor.pk).delete()
        connection.close()
        return Reply("Too late.")

    llm.answer(erasing)
    assert complete(question(), actor=actor).text == "Too late."
    entry = LedgerEntry.objects.get()
    assert (entry.agent_id, entry.actor_id) == ("kana", None)


async def _streamed(request: CompletionRequest, actor: Actor, *, most: int = 10**6) -> list[Any]:
    pieces: list[Any] = []
    answer = stream(request, actor=actor)
    async for piece in answer:
        pieces.append(piece)
        if len(pieces) == most:
            await answer.aclose()  # type: ignore[attr-defined]
            break
    return pieces


@pytest.mark.django_db(transaction=True)
class TestStreams:
    def test_a_stream_stands_once(self, llm: LLMServer, actor: Actor, prices: None) -> None:
        llm.answer(Reply("Green tea.", pieces=["Green ", "tea."], input_tokens=30, output_tokens=5))
        pieces = async_to_sync(_streamed)(question(operation=Operation.CHAT), actor)
        assert isinstance(pieces[-1], Completion)
        entry = LedgerEntry.objects.get()
        assert (entry.operation, entry.outcome, entry.input_tokens, entry.output_tokens) == ("chat", "ok", 30, 5)
        assert entry.is_sample

    def test_in_a_loop_of_its_own(self, llm: LLMServer, actor: Actor) -> None:
        asyncio.run(_streamed(question(operation=Operation.CHAT), actor))
        assert LedgerEntry.objects.get().outcome == "ok"

    def test_the_row_is_there_before_the_finished_answer(self, llm: LLMServer, actor: Actor) -> None:
        llm.answer(Reply("Green tea.", pieces=["Green ", "tea."]))
        pieces = async_to_sync(_streamed)(question(operation=Operation.CHAT), actor, most=3)
        assert isinstance(pieces[-1], Completion)
        assert LedgerEntry.objects.get().outcome == "ok"

    def test_a_caller_that_goes_away_leaves_a_row(self, llm: LLMServer, actor: Actor) -> None:
        llm.answer(Reply("Green tea.", pieces=["Green ", "tea ", "is ", "green."], piece_delay_seconds=0.05))
        async_to_sync(_streamed)(question(operation=Operation.CHAT), actor, most=1)
        entry = LedgerEntry.objects.get()
        assert entry.outcome == "interrupted" and entry.input_tokens == entry.estimated_tokens

    def test_a_stream_that_breaks_leaves_its_code(self, llm: LLMServer, actor: Actor) -> None:
        llm.answer(Reply("Green tea is.", failure="cut_stream"))
        with pytest.raises(ProviderError) as raised:
            async_to_sync(_streamed)(question(operation=Operation.CHAT), actor)
        assert LedgerEntry.objects.get().outcome == raised.value.code

    def test_attempts_before_the_first_piece_leave_rows(self, llm: LLMServer, actor: Actor, prices: None) -> None:
        llm.then(Reply(failure="html"), Reply(failure="529"))
        llm.answer(Reply("Green tea."))
        async_to_sync(_streamed)(question(operation=Operation.CHAT), actor)
        entries = LedgerEntry.objects.order_by("created_at")
        assert [(each.outcome, each.cost is not None) for each in entries] == [
            ("not_a_stream", True),
            ("overloaded", False),
            ("ok", True),
        ]

    def test_who_goes_away_between_two_attempts_breaks_off_none(
        self, llm: LLMServer, actor: Actor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        llm.answer(Reply(failure="retry_after_9"))
        pauses = []

        def noted(error: ProviderError, **options: Any) -> float | None:
            pauses.append(pause_after(error, **options))
            return pauses[-1]

        monkeypatch.setattr("memoryhub.llm.remote.pause_after", noted)

        async def impatient() -> None:
            streaming = asyncio.create_task(_streamed(question(operation=Operation.CHAT), actor))
            while not pauses:
                await asyncio.sleep(0.01)
            streaming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await streaming

        async_to_sync(impatient)()
        assert pauses == [9]
        assert [entry.outcome for entry in LedgerEntry.objects.all()] == ["rate_limited"]

    def test_without_a_model_nothing_is_noted(self, actor: Actor) -> None:
        with pytest.raises(ProviderError):
            async_to_sync(_streamed)(question(operation=Operation.CHAT), actor)
        assert not LedgerEntry.objects.exists()
