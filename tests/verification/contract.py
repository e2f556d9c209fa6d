"""Promises of every language model provider, as tests against a fake and against the live service alike.

A class inherits `LLMContract` and brings a fixture `vendor`. The questions are small: a run against a live service
costs less than a cent.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from memoryhub.llm.anthropic import AnthropicProvider
from memoryhub.llm.config import LLMConfig
from memoryhub.llm.errors import BadAnswer, ProviderMisconfigured, ProviderRejected
from memoryhub.llm.openai import OpenAIProvider
from memoryhub.llm.types import ChatMessage, Completion, CompletionRequest, Delta, LLMProvider, Operation

PROVIDERS: dict[str, type[AnthropicProvider] | type[OpenAIProvider]] = {
    "anthropic": AnthropicProvider,
    "openai": OpenAIProvider,
}

FACTS = {
    "type": "object",
    "properties": {
        "facts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "minLength": 1, "maxLength": 500},
                    "certainty": {"type": "number", "minimum": 0, "maximum": 1},
                    "place": {"type": ["string", "null"]},
                },
                "required": ["text", "certainty", "place"],
            },
            "maxItems": 20,
        }
    },
    "required": ["facts"],
}
"""With bounds and a nullable field, which the vendors take only in another form."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """How to build providers of one vendor."""

    config: LLMConfig

    def provider(self, **changes: str) -> LLMProvider:
        """Return a provider, configured as given."""
        return PROVIDERS[self.config.provider](replace(self.config, **changes))


def question(text: str, **changes: object) -> CompletionRequest:
    """Return a small request."""
    request = CompletionRequest(
        operation=Operation.EXTRACT,
        messages=(ChatMessage("user", text),),
        max_output_tokens=2000,
        deadline_seconds=60,
        system="Answer in one short sentence.",
    )
    return replace(request, **changes)  # type: ignore[arg-type]


def streamed(provider: LLMProvider, request: CompletionRequest) -> list[Delta | Completion]:
    """Return all that a stream yields, read in a loop of its own."""

    async def read() -> list[Delta | Completion]:
        return [piece async for piece in provider.stream(request)]

    return asyncio.run(read())


def whole(provider: LLMProvider, request: CompletionRequest) -> Completion:
    """Return the answer of a plain call."""
    return provider.complete(request)


def last(provider: LLMProvider, request: CompletionRequest) -> Completion:
    """Return the answer at the end of a stream."""
    answer = streamed(provider, request)[-1]
    assert isinstance(answer, Completion)
    return answer


Way = Callable[[LLMProvider, CompletionRequest], Completion]
both_ways = pytest.mark.parametrize("way", [whole, last], ids=["complete", "stream"])


class LLMContract:
    """The promises of `memoryhub.llm.types`."""

    @both_ways
    def test_an_answer_is_whole_and_tells_its_size(self, vendor: Vendor, way: Way) -> None:
        answer = way(vendor.provider(), question("What is the capital of Japan?"))

        assert "Tokyo" in answer.text
        assert answer.model
        assert 5 < answer.input_tokens < 200
        assert 0 < answer.output_tokens <= 2000
        assert not answer.usage_is_estimated

    @both_ways
    def test_japanese_comes_back_as_it_was_meant(self, vendor: Vendor, way: Way) -> None:
        asked = question("日本の首都はどこですか。漢字で答えてください。", system="短く答えてください。")

        assert "東京" in way(vendor.provider(), asked).text

    def test_the_pieces_of_a_stream_are_the_answer(self, vendor: Vendor) -> None:
        *pieces, answer = streamed(vendor.provider(), question("Count from 1 to 30, with commas."))

        assert len(pieces) > 1
        assert isinstance(answer, Completion)
        assert "".join(piece.text for piece in pieces) == answer.text

    @both_ways
    def test_an_answer_has_the_form_asked_for(self, vendor: Vendor, way: Way) -> None:
        asked = question(
            "Hiroki moved to Kyoto. He likes green tea.",
            system="List the facts in the message as JSON, with a certainty from 0 to 1 and a place or null.",
            json_schema=FACTS,
        )

        facts = way(vendor.provider(), asked).data["facts"]

        assert any("Kyoto" in fact["text"] for fact in facts)

    @both_ways
    def test_an_answer_cut_at_its_greatest_length_is_none(self, vendor: Vendor, way: Way) -> None:
        asked = question("Tell me a story of a thousand words.", max_output_tokens=20, system="Be long.")

        with pytest.raises(BadAnswer) as caught:
            way(vendor.provider(), asked)
        assert caught.value.code == "truncated"

    @both_ways
    def test_an_earlier_turn_is_known(self, vendor: Vendor, way: Way) -> None:
        turns = (
            ChatMessage("user", "My cat is called Tama."),
            ChatMessage("assistant", "A fine name!"),
            ChatMessage("user", "What is my cat called?"),
        )

        assert "Tama" in way(vendor.provider(), question("", messages=turns)).text

    @both_ways
    def test_a_wrong_key_is_the_operators_to_mend(self, vendor: Vendor, way: Way) -> None:
        with pytest.raises(ProviderMisconfigured) as caught:
            way(vendor.provider(api_key="wrong-key"), question("Hello"))
        assert caught.value.code == "unauthorized"
        assert "wrong-key" not in str(caught.value)

    @both_ways
    def test_an_unknown_model_is_the_operators_to_mend(self, vendor: Vendor, way: Way) -> None:
        with pytest.raises((ProviderMisconfigured, ProviderRejected)) as caught:
            way(vendor.provider(model="no-such-model"), question("Hello"))
        assert caught.value.permanent

    def test_a_probe_costs_nothing_and_tells_a_wrong_key(self, vendor: Vendor) -> None:
        vendor.provider().probe()

        with pytest.raises(ProviderMisconfigured):
            vendor.provider(api_key="wrong-key").probe()

    def test_a_count_is_what_the_answer_reports_or_none(self, vendor: Vendor) -> None:
        asked = question("東京とTokyo: the same city. " * 20)

        counted = vendor.provider().count_tokens(asked)

        if vendor.config.provider == "openai":
            assert counted is None
        else:
            assert counted == pytest.approx(vendor.provider().complete(asked).input_tokens, abs=10)
