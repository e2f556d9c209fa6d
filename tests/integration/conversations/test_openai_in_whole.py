"""What a client shows reaches the vendor unchanged and in its order, whatever it is made of (SPEC B5)."""

from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from memoryhub.llm.client import llm_provider
from memoryhub.llm.config import LLMConfig
from tests.conftest import client_with_key
from tests.fakes.llm_server import LLMServer, Reply

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cf"]), min_size=1, max_size=60).filter(
    lambda text: text.strip()
)
IMAGES = st.sampled_from(["aGVsbG8=", "d29ybGQ="]).map(
    lambda data: {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
)
PARTS = st.lists(st.one_of(IMAGES, TEXTS.map(lambda text: {"type": "text", "text": text})), min_size=1, max_size=3)
QUESTIONS = st.one_of(TEXTS, PARTS).map(lambda content: {"role": "user", "content": content})
ANSWERS = TEXTS.map(lambda content: {"role": "assistant", "content": content})


@st.composite
def called(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return calls of tools and their results."""
    keys = [f"call_{uuid4().hex}" for _ in range(draw(st.integers(1, 3)))]
    arguments = draw(st.sampled_from(["{}", '{"word": "tea"}', '{"word": "お茶"}']))
    calls = [{"id": key, "type": "function", "function": {"name": "search", "arguments": arguments}} for key in keys]
    said = draw(st.one_of(st.none(), TEXTS))
    results = [{"role": "tool", "tool_call_id": key, "content": draw(TEXTS)} for key in keys]
    return [{"role": "assistant", "content": said, "tool_calls": calls}, *results]


TURNS = st.tuples(QUESTIONS, st.one_of(st.just([]), called()), ANSWERS).map(lambda turn: [turn[0], *turn[1], turn[2]])
HISTORIES = st.tuples(st.lists(TURNS, max_size=6), QUESTIONS, st.one_of(st.just([]), called())).map(
    lambda parts: [*(message for turn in parts[0] for message in turn), parts[1], *parts[2]]
)


def plain(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages with texts as lists of parts, as both forms mean the same; without empty members."""
    shown = []
    for message in messages:
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []
        parts = [{key: value for key, value in part.items() if key != "cache_control"} for part in parts]
        parts = [part for part in parts if not part.get("text", "").startswith(("(Now: ", "（現在: "))]
        shown.append(
            {
                **{key: message[key] for key in ("role", "tool_calls", "tool_call_id") if message.get(key)},
                "parts": parts,
            }
        )
    return shown


@pytest.mark.property
@pytest.mark.django_db
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(history=HISTORIES)
def test_a_history_reaches_the_vendor_as_it_is(
    llm: LLMServer, settings: Settings, history: list[dict[str, Any]]
) -> None:
    settings.LLM = LLMConfig("openai", base_url=llm.base_url, api_key=llm.key)
    llm_provider.cache_clear()
    llm.answer(Reply("Done."))
    client = client_with_key()
    body = {"model": "kana", "user": uuid4().hex, "messages": history}
    answer = client.post(
        "/api/v1/openai/chat/completions", body, format="json", headers={"X-Memoryhub-Create-Agent": "yes"}
    )
    assert answer.status_code == 200, answer.content
    # The time of day is all that memory adds for a new user.
    sent = [message for message in llm.asked[-1].body["messages"] if message["role"] != "system"]
    assert plain(sent) == plain(history)
