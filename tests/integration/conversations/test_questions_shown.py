"""What a client shows over OpenAI's endpoint is what the model reads, in its order (ADR 51)."""

import json
import random
from typing import Any

import openai
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from conversations.models import Receipt
from tests.conftest import client_with_key
from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.integration.conversations.test_openai import Talk, said, sdk, sdk_of  # noqa: F401
from tests.serving import Web

pytestmark = pytest.mark.django_db(transaction=True)
TOOLS = [
    {
        "type": "function",
        "function": {"name": "search", "description": "Find.", "parameters": {"type": "object", "properties": {}}},
    }
]
FILE = "\n".join(f"line {number} = {number * 7}" for number in range(300))


def texts_of(asked: Asked) -> list[tuple[str, str]]:
    """Return role and text of every part that the vendor was sent, in order, results of tools as their own role."""
    found: list[tuple[str, str]] = []
    for message in asked.messages:
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
            if part["type"] == "text":
                found.append((message["role"], part["text"]))
            elif part["type"] == "tool_result":
                inner = part["content"]
                found.append(("tool", inner if isinstance(inner, str) else inner[0]["text"]))
        found += [("call", call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
    return found


def holds_in_order(asked: Asked, expected: list[str]) -> bool:
    sent = iter(text for _role, text in texts_of(asked))
    return all(any(each == text for text in sent) for each in expected)


def test_a_file_in_the_first_message_stays_before_the_model(
    sdk: openai.OpenAI,  # noqa: F811
    llm: LLMServer,
) -> None:
    llm.answer(lambda asked: Reply(f"Done {len(llm.asked)}."))
    talk = Talk(sdk)
    talk.say(f"This is the file that we edit:\n{FILE}")
    for number in range(2, 13):
        answer = talk.sdk.chat.completions.with_raw_response.create(
            messages=[*talk.messages, said("user", f"Question {number}")], **talk.options
        )
        assert "X-Memoryhub-Trimmed-Messages" not in answer.headers
        text = answer.parse().choices[0].message.content
        talk.messages += [said("user", f"Question {number}"), said("assistant", str(text))]
        asked = llm.asked[-1]
        assert FILE in json.dumps(asked.messages, ensure_ascii=False).replace("\\n", "\n"), number
        assert holds_in_order(asked, [each["content"] for each in talk.messages[:-1]])
    receipt = Receipt.objects.latest("created_at")
    working = [item for item in receipt.items if item["layer"] == "working"]
    assert len(working) == 22 and all(item["included"] and item["source_id"] for item in working)


def test_what_does_not_fit_is_trimmed_from_the_oldest_and_counted(
    sdk: openai.OpenAI,  # noqa: F811
    llm: LLMServer,
) -> None:
    client_with_key().post("/api/v1/agents", {"agent_id": "kana", "policy": {"max_tokens": 2_000}})
    llm.answer(Reply("Yes."))
    history = [said(("user", "assistant")[place % 2], f"{place} " + "word " * 200) for place in range(20)]
    raw = sdk.chat.completions.with_raw_response.create(
        model="kana", user="hiroki", messages=[*history, said("user", "And now?")]
    )
    trimmed = int(raw.headers["X-Memoryhub-Trimmed-Messages"])
    sent = [text for _role, text in texts_of(llm.asked[-1])]
    kept = [each["content"] for each in history if any(text.startswith(each["content"].strip()) for text in sent)]
    assert 10 <= trimmed <= 19 and kept == [each["content"] for each in history[trimmed:]]


def test_conversations_that_are_alike_are_shown_whole(web: Web, llm: LLMServer) -> None:
    llm.answer(Reply("Yes."))
    choice = random.Random(3)
    with sdk_of(web) as client:
        for _ in range(40):
            history = [said(role, choice.choice("abc")) for role in ["user", "assistant"] * choice.randint(1, 4)]
            asked: Any = [*history, said("user", choice.choice("abc"))]
            client.chat.completions.create(model="kana", user="hiroki", messages=asked)
            assert holds_in_order(llm.asked[-1], [each["content"] for each in asked])


words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=30)
sentences = st.lists(words, min_size=1, max_size=6).map(" ".join)


def _history(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return a conversation with answers, calls of tools and their results, as a client keeps it."""
    messages: list[dict[str, Any]] = []
    for place in range(draw(st.integers(1, 6))):
        messages.append(said("user", draw(sentences)))
        if draw(st.booleans()):
            call = {"id": f"call_{place}", "type": "function", "function": {"name": "search", "arguments": "{}"}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"call_{place}", "content": draw(sentences)})
        messages.append(said("assistant", draw(sentences)))
    return messages


@given(st.composite(_history)(), sentences, st.booleans())
@hypothesis_settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_every_message_reaches_the_model_unchanged_and_in_order(
    web: Web, llm: LLMServer, history: list[dict[str, Any]], question: str, has_name: bool
) -> None:
    llm.answer(Reply("Yes."))
    named = {"X-Session-Id": f"s{random.random()}"} if has_name else {}
    with sdk_of(web, **named) as client:
        client.chat.completions.create(
            model="kana",
            user=f"u{random.random()}",
            tools=TOOLS,
            messages=[*history, said("user", question)],  # type: ignore[arg-type]
        )
    expected = [each["content"] for each in history if each["content"]]
    assert holds_in_order(llm.asked[-1], [*expected, question]), (texts_of(llm.asked[-1]), expected)
