"""Errors of SDKs, errors in the middle of a stream, and what `none` says to everything."""

import asyncio
from collections.abc import Callable
from types import ModuleType

import anthropic
import openai
import pytest

from memoryhub.llm.client import NoneProvider
from memoryhub.llm.errors import ProviderUnavailable
from memoryhub.llm.remote import from_event, translate_sdk_errors
from memoryhub.llm.types import ChatMessage, CompletionRequest, LLMProvider, Operation

REQUEST = CompletionRequest(Operation.CHAT, (ChatMessage("user", "Hello"),), 100, 10.0)


@pytest.mark.parametrize(
    ("error", "code", "permanent"),
    [
        ({"type": "overloaded_error"}, "overloaded", False),
        ({"type": "api_error"}, "overloaded", False),
        ({"type": "server_error"}, "overloaded", False),
        ({}, "overloaded", False),
        (None, "overloaded", False),
        (["no", "object"], "overloaded", False),
        ({"type": ["no", "name"]}, "overloaded", False),
        ({"type": "rate_limit_error"}, "rate_limited", False),
        ({"code": "rate_limit_exceeded"}, "rate_limited", False),
        ({"code": 429}, "rate_limited", False),
        ({"type": "billing_error"}, "quota", False),
        ({"type": "insufficient_quota"}, "quota", False),
        ({"type": "authentication_error"}, "unauthorized", True),
        ({"type": "not_found_error"}, "not_found", True),
        ({"code": "content_filter"}, "refused", True),
        ({"type": "invalid_request_error"}, "rejected", True),
        ({"code": "context_length_exceeded"}, "rejected", True),
    ],
)
def test_an_error_event_has_a_name(error: object, code: str, permanent: bool) -> None:
    named = from_event(error)

    assert (named.code, named.permanent) == (code, permanent)


async def first_of(provider: LLMProvider) -> object:
    return await anext(provider.stream(REQUEST))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ask",
    [lambda none: none.complete(REQUEST), lambda none: asyncio.run(first_of(none)), lambda none: none.probe()],
    ids=["complete", "stream", "probe"],
)
def test_without_a_model_every_way_of_asking_says_what_to_set(ask: Callable[[LLMProvider], object]) -> None:
    none = NoneProvider()

    with pytest.raises(ProviderUnavailable, match="ANTHROPIC_API_KEY") as caught:
        ask(none)

    assert (caught.value.permanent, caught.value.code) == (True, "not_configured")
    assert (none.model_for(Operation.CHAT), none.count_tokens(REQUEST)) == ("", None)


@pytest.mark.parametrize(
    ("sdk", "error"),
    [(openai, openai.OpenAIError), (anthropic, anthropic.AnthropicError), (anthropic, anthropic.CredentialsError)],
)
def test_whatever_an_sdk_raises_is_a_providers_error_without_its_words(sdk: ModuleType, error: type[Exception]) -> None:
    with pytest.raises(ProviderUnavailable) as told, translate_sdk_errors(sdk):
        raise error("what a user said")
    assert told.value.code == "sdk_error" and "user" not in str(told.value)
