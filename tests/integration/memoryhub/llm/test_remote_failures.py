"""Every way to fail that was seen of a model's provider: one named error each, in time, and never a partial answer."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import Any

import pytest

from memoryhub.llm.answers import TruncatedAnswer
from memoryhub.llm.config import LLMConfig
from memoryhub.llm.errors import (
    BadAnswer,
    ProviderError,
    ProviderMisconfigured,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
)
from memoryhub.llm.remote import Clock
from memoryhub.llm.types import ChatMessage, Completion, CompletionRequest, Delta, LLMProvider, Operation
from tests.fakes.llm_server import FAILURES, SECRET, LLMServer, Reply
from tests.verification.contract import PROVIDERS, both_ways, last, streamed, whole

WORDS = "Good morning to all of you in Kyoto."
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
REQUEST = CompletionRequest(
    operation=Operation.SUMMARIZE,
    messages=(ChatMessage("user", "my secret words"),),
    max_output_tokens=200,
    deadline_seconds=30.0,
)
STRUCTURED = replace(REQUEST, json_schema=SCHEMA)
NEEDS_A_SCHEMA = ("wrong_schema", "truncated_text")

Kind = type[ProviderError]
EXPECTED: dict[str, tuple[Kind, str, str]] = {
    # failure: the error, its code after complete(), its code after stream()
    "400": (ProviderRejected, "rejected", "rejected"),
    "401": (ProviderMisconfigured, "unauthorized", "unauthorized"),
    "403": (ProviderMisconfigured, "unauthorized", "unauthorized"),
    "404": (ProviderMisconfigured, "not_found", "not_found"),
    "413": (ProviderRejected, "rejected", "rejected"),
    "429": (ProviderUnavailable, "rate_limited", "rate_limited"),
    "500": (ProviderUnavailable, "overloaded", "overloaded"),
    "503": (ProviderUnavailable, "overloaded", "overloaded"),
    "529": (ProviderUnavailable, "overloaded", "overloaded"),
    "billing": (ProviderUnavailable, "quota", "quota"),
    "quota": (ProviderUnavailable, "quota", "quota"),
    "retry_after_1": (ProviderUnavailable, "rate_limited", "rate_limited"),
    "retry_after_9": (ProviderUnavailable, "rate_limited", "rate_limited"),
    "retry_after_3600": (ProviderUnavailable, "rate_limited", "rate_limited"),
    "html": (BadAnswer, "not_json", "not_a_stream"),
    "not_json": (BadAnswer, "not_json", "not_a_stream"),
    "timeout": (ProviderTimeout, "timeout", "timeout"),
    "trickle": (ProviderTimeout, "timeout", "timeout"),
    "stall": (ProviderTimeout, "timeout", "timeout"),
    "huge": (BadAnswer, "too_large", "too_large"),
    "cut_stream": (BadAnswer, "unfinished", "cut_stream"),
    "dropped": (ProviderUnavailable, "connection", "connection"),
    "dropped_at_once": (ProviderUnavailable, "connection", "connection"),
    "empty": (BadAnswer, "empty", "empty"),
    "max_tokens": (TruncatedAnswer, "truncated", "truncated"),
    "overload_in_stream": (ProviderUnavailable, "overloaded", "overloaded"),
    "refusal": (ProviderRejected, "refused", "refused"),
    "truncated_json": (BadAnswer, "not_json", "not_json"),
    "truncated_text": (BadAnswer, "not_json", "not_json"),
    "wrong_schema": (BadAnswer, "wrong_schema", "wrong_schema"),
}
OF_ONE_VENDOR = {
    ("openai", "missing_fields"): (BadAnswer, "unfinished", "cut_stream"),
    ("anthropic", "missing_fields"): (BadAnswer, "unfinished", "unfinished"),
}
IN_THE_MIDDLE = ("cut_stream", "dropped", "overload_in_stream", "stall", "truncated_json")


@dataclass
class Asking:
    """A provider of one vendor that talks to the fake; pauses are noted, not made."""

    vendor: str
    server: LLMServer
    pauses: list[float] = field(default_factory=list)

    def provider(self, **changes: Any) -> LLMProvider:
        address = self.server.url if self.vendor == "anthropic" else self.server.base_url
        config = LLMConfig(self.vendor, "m", base_url=address, api_key=self.server.key)
        clock = Clock(sleep=self.pauses.append, sleep_in_loop=self.note)
        return PROVIDERS[self.vendor](replace(config, **changes), clock=clock)

    async def note(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def expected(self, failure: str) -> tuple[Kind, str, str]:
        return OF_ONE_VENDOR.get((self.vendor, failure)) or EXPECTED[failure]


@pytest.fixture(autouse=True)
def short_pauses() -> None:
    """Leave the pauses as they are: they are noted here, not made."""


@pytest.fixture(params=["anthropic", "openai"])
def asking(request: pytest.FixtureRequest, llm_server: LLMServer) -> Asking:
    """Both vendors, in turn."""
    return Asking(request.param, llm_server)


def for_failure(failure: str) -> CompletionRequest:
    return STRUCTURED if failure in NEEDS_A_SCHEMA else REQUEST


LONG_SECONDS = 60.0
"""For whoever answers: on a busy machine the first words take seconds."""

STALL_SECONDS = 5.0
"""Long enough for the first words to come there, before a server that then says nothing more is given up."""


def patience(failure: str) -> float:
    return 0.2 if failure in ("timeout", "trickle", "stall") else LONG_SECONDS


def test_every_failure_of_the_fake_is_expected() -> None:
    assert {*EXPECTED, *(failure for _, failure in OF_ONE_VENDOR)} == set(FAILURES)


@both_ways
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_one_named_error(
    asking: Asking, way: Callable[..., Completion], failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    asking.server.answer(Reply(WORDS, failure=failure))
    kind, *codes = asking.expected(failure)

    with caplog.at_level(logging.DEBUG), pytest.raises(ProviderError) as caught:
        way(asking.provider(attempt_timeout_seconds=patience(failure)), for_failure(failure))

    assert (type(caught.value), caught.value.code) == (kind, codes[way is last])
    shown = f"{caught.value!r} {caught.value.__cause__} {caplog.text}"
    assert [words for words in (SECRET, WORDS, "my secret words") if words in shown] == []


@pytest.mark.parametrize("failure", IN_THE_MIDDLE)
def test_what_was_streamed_before_a_failure_is_no_answer_and_is_not_asked_for_again(
    asking: Asking, failure: str
) -> None:
    asking.server.then(Reply(WORDS, failure=failure))
    seen: list[Delta | Completion] = []

    async def read() -> None:
        seconds = STALL_SECONDS if failure == "stall" else LONG_SECONDS
        provider = asking.provider(attempt_timeout_seconds=seconds)
        async for piece in provider.stream(REQUEST):
            seen.append(piece)

    with pytest.raises(ProviderError):
        asyncio.run(read())

    assert seen and all(isinstance(piece, Delta) for piece in seen)
    assert len(asking.server.asked) == 1


@both_ways
@pytest.mark.parametrize("failure", ["429", "529", "500", "dropped_at_once"])
def test_what_passes_is_tried_three_times(asking: Asking, way: Callable[..., Completion], failure: str) -> None:
    asking.server.then(Reply(failure=failure), Reply(failure=failure), Reply(WORDS))

    assert way(asking.provider(), REQUEST).text == WORDS
    assert len(asking.server.asked) == 3


@both_ways
@pytest.mark.parametrize("failure", ["wrong_schema", "truncated_text", "html", "empty"])
def test_a_bad_answer_is_asked_for_once_more(asking: Asking, way: Callable[..., Completion], failure: str) -> None:
    asking.server.answer(Reply(failure=failure))

    with pytest.raises(BadAnswer):
        way(asking.provider(), STRUCTURED)

    was_shown = way is last and failure in NEEDS_A_SCHEMA
    assert len(asking.server.asked) == (1 if was_shown else 2)


@both_ways
@pytest.mark.parametrize("odd", ["\x00", "\ud800"])
def test_characters_that_cannot_be_stored_are_replaced(
    asking: Asking, way: Callable[..., Completion], odd: str
) -> None:
    asking.server.answer(Reply(f"{WORDS}{odd}"))

    assert way(asking.provider(), REQUEST).text == f"{WORDS}\ufffd"


def test_a_second_answer_may_be_better(asking: Asking) -> None:
    asking.server.then(Reply(failure="wrong_schema"), Reply(data={"a": "b"}))

    assert asking.provider().complete(STRUCTURED).data == {"a": "b"}
    assert asking.pauses == [0.5]


@both_ways
def test_a_long_wait_is_told_and_not_waited_for(asking: Asking, way: Callable[..., Completion]) -> None:
    asking.server.answer(Reply(failure="retry_after_3600"))

    with pytest.raises(ProviderUnavailable) as caught:
        way(asking.provider(), REQUEST)

    assert (caught.value.retry_after_seconds, asking.pauses, len(asking.server.asked)) == (3600, [], 1)


@both_ways
@pytest.mark.parametrize("failure", ["400", "401", "404", "refusal", "max_tokens", "huge"])
def test_what_would_fail_again_is_not_tried_again(asking: Asking, way: Callable[..., Completion], failure: str) -> None:
    asking.server.answer(Reply(WORDS, failure=failure))

    with pytest.raises(ProviderError) as caught:
        way(asking.provider(), REQUEST)

    assert caught.value.permanent
    assert len(asking.server.asked) == 1


@both_ways
def test_a_deadline_that_is_over_before_the_first_attempt_asks_nothing(
    asking: Asking, way: Callable[..., Completion]
) -> None:
    with pytest.raises(ProviderTimeout):
        way(asking.provider(), replace(REQUEST, deadline_seconds=0.0))
    assert asking.server.asked == []


def test_a_stream_that_never_stops_writing_ends_at_its_deadline(asking: Asking) -> None:
    asking.server.answer(Reply(pieces=["word "] * 10_000, piece_delay_seconds=0.05))

    with pytest.raises(ProviderTimeout):
        streamed(asking.provider(), replace(REQUEST, deadline_seconds=0.5))


@pytest.mark.slow
def test_a_slow_reader_is_not_taken_for_a_stalled_provider(asking: Asking) -> None:
    asking.server.answer(Reply(pieces=["one ", "two ", "three"], piece_delay_seconds=0.1))

    async def read() -> list[Delta | Completion]:
        pieces = []
        async for piece in asking.provider(attempt_timeout_seconds=STALL_SECONDS).stream(REQUEST):
            if not pieces:
                await asyncio.sleep(STALL_SECONDS + 0.1)
            pieces.append(piece)
        return pieces

    assert isinstance(asyncio.run(read())[-1], Completion)


def test_a_reader_may_leave_in_the_middle(asking: Asking) -> None:
    asking.server.answer(Reply(WORDS, failure="stall"))

    async def read_one() -> Delta | Completion:
        pieces = asking.provider().stream(REQUEST)
        first = await anext(pieces)
        await pieces.aclose()  # type: ignore[attr-defined]
        return first

    assert isinstance(asyncio.run(read_one()), Delta)


def test_a_cancelled_reader_leaves_nothing_behind(asking: Asking) -> None:
    asking.server.answer(Reply(failure="timeout"))

    async def give_up() -> None:
        async with asyncio.timeout(0.1):
            await anext(asking.provider().stream(REQUEST))

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())


def test_one_provider_serves_many_loops_and_threads(asking: Asking) -> None:
    asking.server.answer(lambda asked: Reply(f"You said {asked.text}.", piece_delay_seconds=0.02))
    provider = asking.provider()
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        request = replace(REQUEST, messages=(ChatMessage("user", f"number {number}"),))
        answers[number] = (whole if number % 2 else last)(provider, request).text

    threads = [Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == {number: f"You said number {number}." for number in range(8)}


def test_fifty_streams_at_once_all_end_well(asking: Asking) -> None:
    asking.server.answer(lambda asked: Reply(f"You said {asked.text}.", piece_delay_seconds=0.02))
    provider = asking.provider()

    async def read(number: int) -> str:
        request = replace(REQUEST, messages=(ChatMessage("user", str(number)),))
        pieces = [piece async for piece in provider.stream(request)]
        assert isinstance(pieces[-1], Completion)
        return pieces[-1].text

    async def read_all() -> list[str]:
        return await asyncio.gather(*map(read, range(50)))

    assert asyncio.run(read_all()) == [f"You said {number}." for number in range(50)]


def test_an_address_where_nobody_listens_is_unavailable(asking: Asking) -> None:
    with pytest.raises(ProviderUnavailable) as caught:
        asking.provider(base_url="http://127.0.0.1:9").complete(REQUEST)
    assert caught.value.code == "connection"


@pytest.mark.parametrize(
    ("failure", "code"),
    [("401", "unauthorized"), ("529", "overloaded"), ("html", "not_json"), ("not_json", "not_json")],
)
def test_a_probe_fails_by_name(asking: Asking, failure: str, code: str) -> None:
    asking.server.listings.append(Reply(failure=failure))

    with pytest.raises(ProviderError) as caught:
        asking.provider().probe()
    assert caught.value.code == code
