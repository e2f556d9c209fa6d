"""Every call leaves a row, whatever becomes of it; no row holds a text."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from memoryhub.ledger.models import LedgerEntry
from memoryhub.providers.asking import ask, ask_streaming, size_of
from memoryhub.providers.errors import ProviderError
from memoryhub.providers.llm.base import ChatMessage, Completion, CompletionRequest, Operation
from memoryhub.tenants.models import Actor
from memoryhub.tokens import counter_for
from tests.fakes.llm_server import LLMServer, Reply

ROLLED_BACK = "rolled back"
SCHEMA = {
    "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False,
}  # fmt: skip


def question(
    *texts: str, operation: Operation = Operation.SUMMARIZE, system: Any = "Be brief.", **rest: Any
) -> CompletionRequest:
    messages = tuple(ChatMessage("user", text) for text in texts or ("抹茶 zincmark is green tea",))
    options = {"max_output_tokens": 100, "deadline_seconds": 3.0, **rest}
    return CompletionRequest(operation=operation, messages=messages, system=system, **options)


def test_an_answer_stands_with_what_it_read_wrote_and_cost(
    llm: LLMServer, actor: Actor, prices: None
) -> None:
    llm.answer(Reply("Green.", input_tokens=1000, output_tokens=200))
    ask(question(), actor=actor)
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
    ask(question(), actor=actor)
    row = LedgerEntry.objects.values().get()
    assert "zincmark" not in str(row) and "hiroki" not in str(row)
    assert "hiroki" not in str(LedgerEntry.objects.get())


@pytest.mark.parametrize(
    ("failure", "is_paid"),
    [
        ("429", False),
        ("500", False),
        ("401", False),
        ("dropped", False),
        ("refusal", True),
        ("truncated_json", None),
    ],
)
def test_a_call_that_fails_stands_with_its_code(
    llm: LLMServer, actor: Actor, prices: None, failure: str, is_paid: bool | None
) -> None:
    llm.answer(Reply("half", failure=failure))
    with pytest.raises(ProviderError) as raised:
        ask(question(), actor=actor)
    entry = LedgerEntry.objects.get()
    assert entry.outcome == raised.value.code != "ok"
    assert not entry.is_sample and entry.estimated_tokens > 0
    if is_paid is not None:
        assert (entry.cost is not None) is is_paid


def test_an_answer_cut_at_its_length_was_paid_for_in_full(llm: LLMServer, actor: Actor, prices: None) -> None:
    llm.answer(Reply("a long answ", stop="max_tokens"))
    with pytest.raises(ProviderError):
        ask(question(), actor=actor)
    entry = LedgerEntry.objects.get()
    assert (entry.outcome, entry.output_tokens) == ("truncated", 100)
    assert entry.input_tokens == entry.estimated_tokens


def test_a_schema_teaches_nothing_and_counts(llm: LLMServer, actor: Actor) -> None:
    ask(question(json_schema=SCHEMA), actor=actor)
    ask(question(), actor=actor)
    plain, asked_for_json = LedgerEntry.objects.all()
    assert not asked_for_json.is_sample and plain.is_sample
    assert asked_for_json.estimated_tokens > plain.estimated_tokens


def test_an_image_teaches_nothing() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    message = ChatMessage("user", [image, {"type": "text", "text": "tea?"}])
    request = CompletionRequest(
        operation=Operation.CHAT, messages=(message,), max_output_tokens=10, deadline_seconds=3.0
    )
    size = size_of(request, counter_for("claude"))
    assert not size.is_plain and size.estimated_tokens > counter_for("claude").count("tea?")


def test_blocks_of_text_are_plain_text(llm: LLMServer, actor: Actor) -> None:
    blocks = [{"type": "text", "text": "green tea", "cache_control": {"type": "ephemeral"}}]
    ask(question(system=blocks), actor=actor)
    assert LedgerEntry.objects.get().is_sample


def test_a_provider_that_tells_no_usage_teaches_nothing(llm: LLMServer, actor: Actor) -> None:
    llm.answer(Reply("Green.", input_tokens=-1, output_tokens=-1))
    ask(question(), actor=actor)
    entry = LedgerEntry.objects.get()
    assert entry.outcome == "ok" and entry.input_tokens and not entry.is_sample


def test_without_a_model_there_is_nothing_to_note(actor: Actor) -> None:
    with pytest.raises(ProviderError, match="No language model"):
        ask(question(), actor=actor)
    assert not LedgerEntry.objects.exists()


def test_without_caps_a_call_sends_few_statements(llm: LLMServer, actor: Actor) -> None:
    ask(question(), actor=actor)
    actor = Actor.objects.select_related("agent").get(pk=actor.pk)
    with CaptureQueriesContext(connection) as statements:
        ask(question(), actor=actor)
    sent = [each["sql"] for each in statements if "SAVEPOINT" not in each["sql"]]
    assert len(sent) == 2, sent  # the row, and whether enough samples have come


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_is_rolled_back_does_not_take_the_row_along(llm: LLMServer, actor: Actor) -> None:
    with pytest.raises(ValueError, match=ROLLED_BACK), transaction.atomic():
        ask(question(), actor=actor)
        raise ValueError(ROLLED_BACK)
    assert LedgerEntry.objects.get().actor_id == actor.pk


@pytest.mark.django_db(transaction=True)
def test_an_actor_that_was_erased_meanwhile_costs_no_row(llm: LLMServer, actor: Actor) -> None:
    def erasing(asked: Any) -> Reply:
        Actor.objects.filter(pk=actor.pk).delete()
        connection.close()
        return Reply("Too late.")

    llm.answer(erasing)
    assert ask(question(), actor=actor).text == "Too late."
    entry = LedgerEntry.objects.get()
    assert (entry.agent_id, entry.actor_id) == ("kana", None)


async def _streamed(request: CompletionRequest, actor: Actor, *, most: int = 10**6) -> list[Any]:
    pieces: list[Any] = []
    stream = ask_streaming(request, actor=actor)
    async for piece in stream:
        pieces.append(piece)
        if len(pieces) == most:
            await stream.aclose()  # type: ignore[attr-defined]
            break
    return pieces


@pytest.mark.django_db(transaction=True)
class TestStreams:
    def test_a_stream_stands_once(self, llm: LLMServer, actor: Actor, prices: None) -> None:
        llm.answer(Reply("Green tea.", pieces=["Green ", "tea."], input_tokens=30, output_tokens=5))
        pieces = async_to_sync(_streamed)(question(operation=Operation.CHAT), actor)
        assert isinstance(pieces[-1], Completion)
        entry = LedgerEntry.objects.get()
        assert (entry.operation, entry.outcome, entry.input_tokens, entry.output_tokens) == (
            "chat",
            "ok",
            30,
            5,
        )
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

    def test_without_a_model_nothing_is_noted(self, actor: Actor) -> None:
        with pytest.raises(ProviderError):
            async_to_sync(_streamed)(question(operation=Operation.CHAT), actor)
        assert not LedgerEntry.objects.exists()
