"""Requests as real programs sent them, recorded before a scripted model: what is shown is read, what is said is stored.

Recorded with Aider 0.86.1 (its prompts shortened), OpenAI Agents 0.24.0 (a handoff, by both interfaces), LangGraph
1.2.24 (an agent with a tool and a response format), langchain-openai 1.7.4 (few-shot), LiteLLM 1.110.2, pydantic-ai
2.68.0 (a tool), Vercel's AI SDK (no tool, an image alone, a tool), Cline 3.0.65 (a run that is summarised half-way; its
prompts and the file shortened), LangChain 1.5.2 (its agent's summaries), DSPy 3.4.1 (few-shot), LlamaIndex 0.14.25 (a
chat engine), Claude Code 2.1.197 (its prompts shortened) and Open WebUI 0.12.4 (a question edited, an answer asked for
again, an image alone, its own tool and its titles; driven by a browser). LibreChat's are from the package that it asks
models with (@librechat/agents 3.2.21), with its titles. Codex 0.171.0 by the Responses: a compaction, tools, a subagent.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from conversations.models import Message, Session
from tests.conftest import client_with_key
from tests.fakes.llm_server import LLMServer, Reply

RECORDED = Path(settings.BASE_DIR) / "tests" / "data" / "programs"
LINES = "".join(f"def function_{number:03d}(): return {number}\n" for number in range(300))

CODE = [f"What does function_{number * 20:03d} return, asked as question number {number}?" for number in range(12)]
MOODS = [f"My train was late again, number {number}." for number in range(5)]
VISITS = [f"My sister visits me on day {number}." for number in range(5)]

FORM = (
    "\n\nRespond with the corresponding output fields, starting with the field `[[ ## mood ## ]]`, and then ending with "
    "the marker for `[[ ## completed ## ]]`."
)

PROGRAMS = {
    "aider": (1, CODE),
    "agents_chat": (1, ["Which flight to Lisbon is cheapest?", "And which one back on Sunday?"]),
    "agents_responses": (1, ["Which flight to Lisbon is cheapest?", "And which one back on Sunday?"]),
    "langgraph": (1, ["What is the weather like in Porto this morning?"]),
    "langchain": (10, [*MOODS, *VISITS]),
    "litellm": (
        1,
        ["My tea is gyokuro, from a farm in Uji.", *(f"And what goes well with it, idea {n}?" for n in range(3))],
    ),
    "pydantic": (1, ["What is gyokuro, in one sentence?", "And how is it brewed best?"]),
    "cline": (1, ["Read the whole log big.txt and tell how many workers there are."]),
    "summarizing": (1, [f"My tea number {n} is from the farm number {n} in Uji." for n in range(6)]),
    "dspy": (3, [f"[[ ## text ## ]]\n{mood}{FORM}" for mood in MOODS[:3]]),
    "llamaindex": (1, ["My tea is gyokuro, from a farm in Uji.", "Which tea do I like?", "And where is it from?"]),
    "claude": (1, ["What is in this repository, in short?"]),
    "vercel": (3, ["Which tea grows in Uji?", "", "Search for the tea of Uji."]),
}
"""Sessions and questions of each program."""


def texts_in(value: Any) -> list[str]:
    """Return the texts of messages or items, in their order, in any of the vendors' forms."""
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, list):
        return [text for each in value for text in texts_in(each)]
    if not isinstance(value, dict) or value.get("role") in ("system", "developer"):
        return []
    return texts_in(value.get("text") or value.get("content") or value.get("output"))


def replay(llm: LLMServer, program: str, headers: Mapping[str, str] | None = None) -> None:
    """Send a program's requests, and check that the model reads all that they show."""
    recorded = (RECORDED / f"{program}.json").read_text("utf-8").replace("{file}", json.dumps(LINES)[1:-1])
    client = client_with_key()
    client.post("/api/v1/agents", {"agent_id": "kana"}, format="json")
    headers = {"X-User-Id": "hiroki", **(headers or {})}
    for request in json.loads(recorded)["requests"]:
        answer = request["answer"]
        calls = [tuple(call) for call in answer["calls"]]
        llm.answer(Reply(answer["text"], calls=calls, stop="tool_use" if calls else "end_turn"))
        response = client.post(f"/api/v1/{request['path']}", request["body"], format="json", headers=headers)
        assert response.status_code == 200, response.content
        assert "X-Memoryhub-Trimmed-Messages" not in response.headers
        shown = texts_in(request["body"].get("messages") or request["body"].get("input"))
        assert _without(texts_in(llm.asked[-1].messages), shown) == shown
        said_by_system = [each for each in request["body"].get("messages", []) if each["role"] == "system"]
        assert all(text in str(llm.asked[-1].system) for each in said_by_system for text in _texts_of(each["content"]))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_programs_conversation_is_read_whole_and_stored_once(llm: LLMServer, db: None, program: str) -> None:
    replay(llm, program)
    sessions, questions = PROGRAMS[program]
    assert Session.objects.count() == sessions
    rows = Message.objects.order_by("created_at", "seq")
    said = [row.content.strip().removesuffix("\n\nReply in English.") for row in rows.filter(role="user")]
    assert said == questions
    assert not rows.exclude(abandoned_at=None).exists()


EDITED = {
    "openwebui": (
        [
            "Question 1: what should I cook on day 1?",
            "Question 2b: what should I bake on day 2?",
            "Question 3b: and on day 3, a cake?",
            "",  # an image alone
            "Question 5: what is in the picture?",
        ],
        [f"Question {number}: what should I cook on day {number}?" for number in (2, 3)],
        (1, 31, 11),
    ),
    "codex": (
        [
            "TYPED one",
            "TYPED two",
            "TYPED three",
            'TYPED CALL multi_agent_v1__spawn_agent {"agent_type":"default","message":"SUBPROMPT look"} END',
            "TYPED two",
            "TYPED one",
            "TYPED two",
            "TYPED two more",
        ],
        [],
        (3, 20, 2),  # an answer that the compaction leaves out, and a call that was interrupted
    ),
    "librechat": (
        [
            "My tea is gyokuro, from a farm in Uji.",
            'What does it cost in the shop? CALL search_shop {"q": "gyokuro"} END',
            "And which cake goes well with it?",
            "What is in this picture?",
        ],
        ["And what goes well with it?"],
        (1, 13, 3),
    ),
}
"""Questions that a program shows at last, those that were taken back, and the numbers of sessions, of rows, and of rows taken back."""


@pytest.mark.parametrize("headers", [{}, {"X-Conversation-Id": "f6b1aa6b-c8b6-4e4c-92ce-be9206b8799c"}])
@pytest.mark.parametrize("program", EDITED)
def test_edits_of_a_chat_program_leave_what_it_shows(
    llm: LLMServer, db: None, program: str, headers: dict[str, str]
) -> None:
    replay(llm, program, headers)
    shown, edited, counts = EDITED[program]
    rows = Message.objects.order_by("created_at", "seq")
    taken_back = rows.exclude(abandoned_at=None)
    assert [row.content for row in rows.current().filter(role="user")] == shown
    assert [row.content for row in taken_back.filter(role="user")] == edited
    assert (Session.objects.count(), rows.count(), taken_back.count()) == counts


def _texts_of(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [block["text"] for block in content]


def _without(read: list[str], shown: list[str]) -> list[str]:
    """Return what a model read, without the block of memory: the texts that are shown."""
    return [text for text in read if text in shown]
