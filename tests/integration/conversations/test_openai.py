"""OpenAI's SDK as a stranger would use it: a base address, a key, and the whole conversation with each question."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any
from uuid import UUID

import httpx2
import openai
import pytest
from pytest_django.fixtures import Settings

from conversations.models import ChatTurn, Message, MessageIndex, Receipt, Session
from memoryhub.jobs.models import Job
from memoryhub.llm.client import llm_provider
from memoryhub.llm.config import LLMConfig
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.tenancy.models import Actor
from strength.models import Memory
from summaries.models import Summary
from tests.conftest import client_with_key, run_jobs
from tests.fakes.llm_server import Asked, LLMServer, Reply, smallest
from tests.integration.conversations.test_chat import wait_until
from tests.serving import Web

API = "/api/v1"
DOOR = f"{API}/openai"
TOOL = {
    "type": "function",
    "function": {"name": "search", "description": "Find flights.", "parameters": {"type": "object", "properties": {}}},
}


def key_of(**options: Any) -> str:
    return str(client_with_key(**options)._credentials["HTTP_AUTHORIZATION"]).removeprefix("Bearer ")


def sdk_of(web: Web, key: str | None = None, **headers: str) -> openai.OpenAI:
    """Return OpenAI's client, which wants unknown agents created."""
    headers = {"X-Memoryhub-Create-Agent": "yes", **headers}
    return openai.OpenAI(base_url=web.url + DOOR, api_key=key or key_of(), default_headers=headers)


@pytest.fixture
def sdk(web: Web) -> Iterator[openai.OpenAI]:
    with sdk_of(web) as client:
        yield client


@pytest.fixture
def echo(llm: LLMServer) -> LLMServer:
    """A model that repeats the last thing that it is told, and says how often it was asked."""

    def reply(asked: Asked) -> Reply:
        last = asked.messages[-1]["content"]
        text = last if isinstance(last, str) else last[-1]["text"]
        return Reply(f"{text}! ({len(llm.asked)})")

    llm.answer(reply)
    return llm


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


class Talk:
    """A chat program: keeps the conversation, and sends all of it."""

    def __init__(self, sdk: openai.OpenAI, **options: Any) -> None:
        self.sdk = sdk
        self.options = {"model": "kana", "user": "hiroki", **options}
        self.messages: list[Any] = []

    def say(self, text: str) -> Any:
        return self.send([*self.messages, said("user", text)])

    def send(self, messages: list[Any]) -> Any:
        answer = self.sdk.chat.completions.create(messages=messages, **self.options)
        self.messages = [*messages, said("assistant", answer.choices[0].message.content)]
        return answer


def session_of(answer: Any) -> str:
    return str(answer.memoryhub["session_id"])


def texts_of(asked: Asked) -> list[str]:
    """Return the texts of the turns that a model read, without marks of caches."""
    contents = [each["content"] for each in asked.messages]
    return [each if isinstance(each, str) else " ".join(block["text"] for block in each) for each in contents]


def stored(session_id: str) -> list[str]:
    rows = Message.objects.filter(session_id=session_id).order_by("seq")
    return [row.content for row in rows]


def test_a_stranger_gets_memory_by_base_address_and_key(sdk: openai.OpenAI, llm: LLMServer) -> None:
    client = client_with_key()
    names = {"agent_id": "kana", "user_id": "hiroki"}
    client.post(f"{API}/agents", {"agent_id": "kana", "system_prompt": "You are Kana."})
    client.post(f"{API}/memories", {**names, "content": "likes green tea", "kind": "preference"})
    llm.answer(Reply("Green tea.", input_tokens=120, output_tokens=4))

    answer = sdk.chat.completions.create(
        model="kana",
        user="hiroki",
        temperature=0.2,
        seed=1,
        messages=[said("system", "Answer in one word."), said("user", "What tea do I like?")],  # type: ignore[list-item]
    )

    assert (answer.object, answer.model) == ("chat.completion", "kana")
    [choice] = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("Green tea.", "stop")
    assert answer.usage is not None and answer.usage.total_tokens == 124
    told: Any = answer.model_extra["memoryhub"]  # type: ignore[index]
    assert Receipt.objects.get().pk == UUID(told["receipt_id"])
    assert stored(told["session_id"]) == ["What tea do I like?", "Green tea."]
    asked = llm.asked[0]
    assert asked.system.startswith("You are Kana.\n\nAnswer in one word.\n\nFrom <remembered-CODE>")
    assert "likes green tea" in asked.text
    assert "one word" not in str(list(Message.objects.values_list("content"))), "instructions are no memory"


def test_models_are_the_agents_of_the_key(web: Web) -> None:
    for agent_id in ("kana", "yuno"):
        client_with_key().post(f"{API}/agents", {"agent_id": agent_id})
    with sdk_of(web, key_of(agent_ids=["yuno"])) as bound:
        assert [model.id for model in bound.models.list()] == ["yuno"]


def test_a_conversation_is_one_session_and_nothing_is_stored_twice(sdk: openai.OpenAI, echo: LLMServer) -> None:
    talk = Talk(sdk)
    sessions = {session_of(talk.say(text)) for text in ("hi", "yes", "yes", "yes")}
    assert len(sessions) == 1
    assert stored(sessions.pop()) == ["hi", "hi! (1)", "yes", "yes! (2)", "yes", "yes! (3)", "yes", "yes! (4)"]
    history = texts_of(echo.asked[-1])
    assert history[:-1] == ["hi", "hi! (1)", "yes", "yes! (2)", "yes", "yes! (3)"]


def test_two_conversations_that_begin_alike_stay_two(sdk: openai.OpenAI, echo: LLMServer) -> None:
    one, other = Talk(sdk), Talk(sdk)
    first, second = one.say("hi"), other.say("hi")
    assert session_of(first) != session_of(second)
    assert session_of(one.say("tea")) == session_of(first)
    assert session_of(other.say("coffee")) == session_of(second)
    assert session_of(one.say("green")) == session_of(first)
    assert "coffee" not in str([each["content"] for each in echo.asked[-1].messages if each["role"] == "assistant"])


def test_two_conversations_with_the_same_answers_are_told_apart(sdk: openai.OpenAI, llm: LLMServer) -> None:
    llm.answer(Reply("Hello!"))
    one, other = Talk(sdk), Talk(sdk)
    one.say("hi")
    other.say("hi")
    first, second = (session_of(one.say("tea")), session_of(other.say("coffee")))
    assert (session_of(one.say("green")), session_of(other.say("black"))) == (first, second)
    assert stored(first) == ["hi", "Hello!", "tea", "Hello!", "green", "Hello!"]
    assert stored(second) == ["hi", "Hello!", "coffee", "Hello!", "black", "Hello!"]


def test_a_regenerated_answer_does_not_see_the_one_that_it_replaces(sdk: openai.OpenAI, echo: LLMServer) -> None:
    talk = Talk(sdk)
    talk.say("I am Hiroki.")
    before = talk.messages
    first = talk.say("Which tea?")
    again = Talk(sdk)
    second = again.send([*before, said("user", "Which tea?")])

    assert session_of(first) == session_of(second)
    assert stored(session_of(first))[2:] == ["Which tea?", "Which tea?! (2)", "Which tea?! (3)"]
    assert [each["role"] for each in echo.asked[2].messages] == ["user", "assistant", "user"]
    assert "(2)" not in str(echo.asked[2].messages)
    again.say("And then?")
    assert "(3)" in str(echo.asked[3].messages[:-1]) and "(2)" not in str(echo.asked[3].messages[:-1])
    talk.say("Back to the first one.")
    assert "(2)" in str(echo.asked[4].messages[:-1]) and "(3)" not in str(echo.asked[4].messages[:-1])


def test_an_answer_that_comes_out_the_same_again_is_shown_once(sdk: openai.OpenAI, llm: LLMServer) -> None:
    llm.answer(Reply("Hello!"))
    talk = Talk(sdk, extra_headers={"X-Session-Id": "one"})
    talk.say("hi")
    session = session_of(talk.send([said("user", "hi")]))
    talk.say("tea")
    assert stored(session) == ["hi", "Hello!", "Hello!", "tea", "Hello!"]
    assert texts_of(llm.asked[-1])[:-1] == ["hi", "Hello!"]


def test_an_edited_question_leaves_the_branch_that_it_came_from(sdk: openai.OpenAI, echo: LLMServer) -> None:
    talk = Talk(sdk)
    talk.say("Hello.")
    before = talk.messages
    first = session_of(talk.say("Which coffee?"))
    talk.say("Black?")
    edited = talk.send([*before, said("user", "Which tea?")])
    assert session_of(edited) == first
    assert "Black?" not in str(echo.asked[-1].messages[:-1]) and "Hello." in str(echo.asked[-1].messages)
    talk.say("Green?")
    assert texts_of(echo.asked[-1])[:-1] == ["Hello.", "Hello.! (1)", "Which tea?", "Which tea?! (4)"]


@pytest.fixture
def reader(llm: LLMServer) -> LLMServer:
    """A model that answers in the shape that it is asked for."""

    def reply(asked: Asked) -> Reply:
        if asked.schema is not None:
            return Reply(data=smallest(asked.schema))
        return Reply("It was about salary." if "salary" in asked.text else "Noted.")

    llm.answer(reply)
    return llm


def read_in_background(llm: LLMServer, session: str) -> str:
    """End a session, run its jobs, and return all that the model was asked meanwhile."""
    before = len(llm.asked)
    assert client_with_key().post(f"{API}/sessions/{session}/end").status_code == 200
    for _ in range(4):
        Job.objects.filter(state="queued").update(due_at=datetime.now(UTC) - timedelta(seconds=1))
        run_jobs()
    return "\n".join(each.text for each in llm.asked[before:])


def found_by(query: str) -> list[str]:
    body = {"agent_id": "kana", "user_id": "hiroki", "query": query, "include_messages": True}
    results = client_with_key().post(f"{API}/memories/search", body).json()["results"]
    return [each["message"]["content"] for each in results if "message" in each]


def abandoned_in(session: str) -> list[int]:
    rows = client_with_key().get(f"{API}/sessions/{session}/messages").json()["results"]
    return [row["seq"] for row in rows if row["abandoned_at"]]


def test_an_abandoned_branch_is_neither_read_in_the_background_nor_found(sdk: openai.OpenAI, reader: LLMServer) -> None:
    talk = Talk(sdk)
    talk.say("Hello, I am Hiroki.")
    before = talk.messages
    session = session_of(talk.say("My salary is 5000 euros."))
    assert "My salary is 5000 euros." in found_by("salary")
    taken_back = talk.messages
    talk.send([*before, said("user", "My favourite tea is gyokuro.")])

    assert abandoned_in(session) == [3, 4]
    read = read_in_background(reader, session)
    assert "gyokuro" in read and "Hello, I am Hiroki." in read and "salary" not in read
    assert "My salary is 5000 euros." not in found_by("salary")
    assert "salary" not in Summary.objects.get(session_id=session).text

    talk.send([*taken_back, said("user", "That was right.")])
    assert abandoned_in(session) == [5, 6] and MessageIndex.repair() == 0
    assert "My salary is 5000 euros." in str(reader.asked[-1].messages[:-1])
    assert "My salary is 5000 euros." in found_by("salary")


def test_an_untrusted_key_abandons_nothing_that_is_trusted(sdk: openai.OpenAI, web: Web, echo: LLMServer) -> None:
    named = {"extra_headers": {"X-Session-Id": "7a4e", "X-Memoryhub-Task": ""}}
    talk = Talk(sdk, **named)
    session = session_of(talk.say("hi"))
    talk.say("tea")
    with sdk_of(web, key_of(is_trusted=False)) as other:
        assert session_of(Talk(other, **named).say("hello")) == session
        assert not abandoned_in(session)
        Talk(other, **named).say("good evening")
    assert abandoned_in(session) == [5, 6]


def test_what_was_drawn_before_an_edit_stays(sdk: openai.OpenAI, reader: LLMServer) -> None:
    talk = Talk(sdk)
    talk.say("Hello, I am Hiroki.")
    before = talk.messages
    session = session_of(talk.say("My salary is 5000 euros."))
    assert "salary" in read_in_background(reader, session)
    talk.send([*before, said("user", "My favourite tea is gyokuro.")])
    assert "salary" in Summary.objects.get(session_id=session).text
    assert "gyokuro" in read_in_background(reader, session)


def test_an_answer_that_comes_after_its_question_was_edited_is_abandoned(sdk: openai.OpenAI, llm: LLMServer) -> None:
    llm.answer(Reply("Hello!"))
    talk = Talk(sdk)
    session = session_of(talk.say("hi"))
    go_on = Event()
    llm.then(Reply("A slow answer.", pieces=["A slow ", "answer."], go_on=go_on), Reply("Green."))
    options = {"model": "kana", "user": "hiroki"}
    slow = sdk.chat.completions.create(messages=[*talk.messages, said("user", "coffee?")], stream=True, **options)  # type: ignore[call-overload]
    next(slow)
    talk.send([*talk.messages, said("user", "tea?")])
    go_on.set()
    list(slow)
    assert stored(session) == ["hi", "Hello!", "coffee?", "tea?", "Green.", "A slow answer."]
    assert abandoned_in(session) == [3, 6]


def test_an_answer_that_a_later_question_overtook_is_current(sdk: openai.OpenAI, llm: LLMServer) -> None:
    talk = Talk(sdk, extra_headers={"X-Session-Id": "desk"})
    llm.answer(Reply("Hello!"))
    session = session_of(talk.say("hi"))
    go_on = Event()
    llm.then(Reply("Arabica.", pieces=["Ara", "bica."], go_on=go_on), Reply("Green."))
    coffee, tea = said("user", "coffee?"), said("user", "tea?")
    slow: Any = sdk.chat.completions.create(messages=[*talk.messages, coffee], stream=True, **talk.options)
    next(slow)
    before = talk.messages
    talk.send([*before, coffee, tea])
    go_on.set()
    list(slow)
    assert stored(session) == ["hi", "Hello!", "coffee?", "tea?", "Green.", "Arabica."]
    assert not abandoned_in(session)

    # The client shows each answer below its question.
    talk.messages = [*before, coffee, said("assistant", "Arabica."), tea, said("assistant", "Green.")]
    talk.say("Thanks.")
    assert stored(session)[6:] == ["Thanks.", "Hello!"] and not abandoned_in(session)
    assert "Arabica." in str(llm.asked[-1].messages) and "Green." in str(llm.asked[-1].messages)


def test_the_rest_of_an_answer_that_was_stopped_is_abandoned(sdk: openai.OpenAI, llm: LLMServer) -> None:
    go_on, talk = Event(), Talk(sdk)
    llm.then(Reply("A long story.", pieces=["A long ", "story."], go_on=go_on), Reply("Going on."))
    options: Any = {"model": "kana", "user": "hiroki", "messages": [said("user", "A story?")]}
    slow = sdk.chat.completions.create(stream=True, **options)
    next(slow)
    talk.messages = [*options["messages"], said("assistant", "A long")]
    session = session_of(talk.say("Go on."))
    go_on.set()
    list(slow)
    assert stored(session) == ["A story?", "A long", "Go on.", "Going on.", "A long story."]
    assert abandoned_in(session) == [5]


def test_the_middle_of_a_conversation_that_is_not_shown_is_not_abandoned(sdk: openai.OpenAI, echo: LLMServer) -> None:
    talk = Talk(sdk)
    for text in ("one", "two", "three", "four"):
        session = session_of(talk.say(text))
    talk.send([*talk.messages[:2], *talk.messages[-2:], said("user", "five")])
    talk.send([*talk.messages[-2:], said("user", "six")])
    assert len(stored(session)) == 12 and not abandoned_in(session)


def test_a_conversation_from_elsewhere_is_stored_once_in_order(sdk: openai.OpenAI, echo: LLMServer) -> None:
    elsewhere = [
        said("user", "My cat is called Momo."),
        said("assistant", "A fine name."),
        said("user", "She is three."),
        said("assistant", "Young."),
    ]
    whole = {"extra_headers": {"X-Memoryhub-Store": "all"}}
    talk = Talk(sdk, **whole)
    first = session_of(talk.send([*elsewhere, said("user", "How old is she?")]))
    assert stored(first)[:5] == [*(each["content"] for each in elsewhere), "How old is she?"]
    assert session_of(Talk(sdk, **whole).send([*elsewhere, said("user", "How old is she?")])) == first
    assert session_of(talk.say("Thank you.")) == first
    assert len(stored(first)) == 9


def test_the_end_of_a_conversation_and_altered_answers_are_known(sdk: openai.OpenAI, echo: LLMServer) -> None:
    talk = Talk(sdk)
    for text in ("one", "two", "three", "four"):
        first = session_of(talk.say(text))
    window = Talk(sdk)
    assert session_of(window.send([*talk.messages[-4:], said("user", "five")])) == first
    assert len(stored(first)) == 10
    cleaned = [*window.messages[:-1], said("assistant", "cleaned")]
    assert session_of(window.send([*cleaned, said("user", "six")])) == first
    assert stored(first)[10:] == ["cleaned", "six", "six! (6)"]
    assert "cleaned" in str(echo.asked[-1].messages) and "(5)" not in str(echo.asked[-1].messages[1:])


def test_a_named_session_is_kept_within_agent_and_user(sdk: openai.OpenAI, echo: LLMServer) -> None:
    named = {"extra_headers": {"X-Session-Id": "talk 1"}}
    first = session_of(Talk(sdk, **named).say("hi"))
    assert session_of(Talk(sdk, metadata={"session_id": "talk 1"}).say("tea")) == first
    assert "hi! (1)" in str(echo.asked[-1].messages), "the session's record counts where no history is sent"
    for header in ("X-Conversation-Id", "X-OpenWebUI-Chat-Id", "X-Session-Id"):
        assert session_of(Talk(sdk, extra_headers={header: first}).say("more")) == first
    assert session_of(Talk(sdk, **named, user="aoi").say("hi")) != first
    assert session_of(Talk(sdk, **named, model="yuno").say("hi")) != first
    assert session_of(Talk(sdk, extra_headers={"X-Session-Id": "talk 2"}).say("hi")) != first


def test_the_first_answer_of_a_named_session_can_be_regenerated(sdk: openai.OpenAI, echo: LLMServer) -> None:
    named = {"extra_headers": {"X-OpenWebUI-Chat-Id": "7a4e"}}
    Talk(sdk, **named).say("hi")
    talk = Talk(sdk, **named)
    session = session_of(talk.say("hi"))
    talk.say("tea")
    assert stored(session) == ["hi", "hi! (1)", "hi! (2)", "tea", "tea! (3)"]
    assert texts_of(echo.asked[-1])[:-1] == ["hi", "hi! (2)"]


def test_a_greeting_repeated_in_a_named_session_abandons_nothing(sdk: openai.OpenAI, echo: LLMServer) -> None:
    named = {"extra_headers": {"X-Session-Id": "desk"}}
    for text in ("hi", "tea", "hi"):
        session = session_of(Talk(sdk, **named).say(text))
    assert stored(session) == ["hi", "hi! (1)", "tea", "tea! (2)", "hi", "hi! (3)"]
    assert not abandoned_in(session)


def test_the_user_comes_by_body_header_key_or_agent(web: Web, echo: LLMServer) -> None:
    def ask(key: str, model: str = "kana", **options: Any) -> None:
        with sdk_of(web, key) as sdk:
            sdk.chat.completions.create(model=model, messages=[said("user", "hi")], **options)  # type: ignore[list-item]

    everywhere = key_of()
    with pytest.raises(openai.BadRequestError, match="X-OpenWebUI-User-Id") as missing:
        ask(everywhere)
    assert (missing.value.param, missing.value.type) == ("user", "invalid_request_error")
    assert not Actor.objects.exists()
    ask(everywhere, user="body", extra_headers={"X-User-Id": "ignored"})
    ask(everywhere, extra_headers={"X-User-Id": "header"})
    ask(everywhere, extra_headers={"X-OpenWebUI-User-Id": "webui"})
    ask(key_of(user_id="keys-own"))
    client_with_key().post(f"{API}/agents", {"agent_id": "owned", "fixed_user_id": "owner"})
    ask(everywhere, "owned")
    users = ["body", "header", "keys-own", "owner", "webui"]
    assert sorted(Actor.objects.exclude(user_id="").values_list("user_id", flat=True)) == users
    with pytest.raises(openai.PermissionDeniedError):
        ask(key_of(user_id="keys-own"), user="another")


def test_other_tenants_conversations_are_unknown(sdk: openai.OpenAI, web: Web, echo: LLMServer) -> None:
    talk = Talk(sdk)
    session = session_of(talk.say("My cat is called Momo."))
    before = list(Message.objects.order_by("pk").values_list("pk", flat=True))
    with sdk_of(web, key_of(agent_ids=["kana"], user_id="aoi")) as other:
        stranger = Talk(other, user="aoi", metadata={"session_id": session})
        found = session_of(stranger.send([*talk.messages, said("user", "What is it called?")]))
        row = Session.objects.get(actor__user_id="aoi")
        assert (found, str(row.client_id)) == (session, session), "an id counts within its user, as a free one does"
        with pytest.raises(openai.PermissionDeniedError):
            Talk(other, model="yuno").say("hi")
    assert list(Message.objects.filter(session_id=session).order_by("pk").values_list("pk", flat=True)) == before


def test_a_stream_has_openais_chunks(sdk: openai.OpenAI, llm: LLMServer) -> None:
    llm.answer(Reply("Green tea, 緑茶。", pieces=["Green ", "tea, ", "緑茶。"], input_tokens=9, output_tokens=3))
    options: Any = {"model": "kana", "user": "hiroki", "messages": [said("user", "Which tea?")], "stream": True}
    chunks = list(sdk.chat.completions.create(**options, stream_options={"include_usage": True}))

    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(each.choices[0].delta.content or "" for each in chunks[:-1]) == "Green tea, 緑茶。"
    assert [each.choices[0].finish_reason for each in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], 12)
    assert len({each.id for each in chunks}) == 1
    assert stored(session_of(chunks[-2])) == ["Which tea?", "Green tea, 緑茶。"]
    with sdk.chat.completions.with_streaming_response.create(**options) as raw:
        text = "".join(raw.iter_text())
    assert raw.headers["X-Memoryhub-Receipt-Id"] in {str(each.pk) for each in Receipt.objects.all()}
    assert text.endswith("data: [DONE]\n\n") and '"usage"' not in text


@pytest.mark.parametrize("failure", ["cut_stream", "overload_in_stream"])
def test_a_broken_stream_is_an_error_of_the_sdk(failure: str, sdk: openai.OpenAI, llm: LLMServer) -> None:
    llm.answer(Reply("Half an answer that is long enough to be cut", failure=failure))
    options: Any = {"model": "kana", "user": "hiroki", "messages": [said("user", "hi")], "stream": True}
    with pytest.raises(openai.APIError, match="provider"):
        list(sdk.chat.completions.create(**options))
    assert [each.content for each in Message.objects.all()] == ["hi"]


@pytest.mark.parametrize("stream", [False, True])
def test_tools_are_called_and_answered(stream: bool, sdk: openai.OpenAI, llm: LLMServer) -> None:
    llm.then(Reply("I look.", calls=[("c1", "search", {"to": "京都"}), ("c2", "search", {})]), Reply("Three flights."))
    options: Any = {"model": "kana", "user": "hiroki", "tools": [TOOL], "tool_choice": "auto"}
    messages: list[Any] = [said("user", "Flights to Kyoto?")]
    if stream:
        with sdk.chat.completions.stream(messages=messages, **options) as events:
            choice = events.get_final_completion().choices[0]
    else:
        choice = sdk.chat.completions.create(messages=messages, **options).choices[0]

    assert choice.finish_reason == "tool_calls"
    calls = choice.message.tool_calls
    assert calls is not None and [each.id for each in calls] == ["c1", "c2"]
    assert json.loads(calls[0].function.arguments) == {"to": "京都"}
    messages.append(choice.message.model_dump(exclude_none=True))
    messages += [{"role": "tool", "tool_call_id": each.id, "content": f"result of {each.id}"} for each in calls]
    talk = Talk(sdk, tools=[TOOL])
    last = talk.send(messages)

    assert last.choices[0].message.content == "Three flights."
    sent = str(llm.asked[1].messages)
    assert "result of c1" in sent and "result of c2" in sent and "(no result)" not in sent
    assert sent.count("Flights to Kyoto?") == 1
    talk.say("Thank you.")
    assert [each.role for each in Message.objects.order_by("seq")] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    again = Talk(sdk, tools=[TOOL]).send(messages)
    assert session_of(again) == session_of(last)
    assert "Three flights." not in str(llm.asked[-1].messages), "a regenerated answer to results"


def test_an_answer_that_reaches_its_length_is_given(sdk: openai.OpenAI, llm: LLMServer) -> None:
    llm.answer(Reply("Half an answer that is cut", failure="max_tokens"))
    answer = Talk(sdk, max_completion_tokens=7).say("hi")
    assert answer.choices[0].finish_reason == "length"
    assert llm.asked[0].max_tokens == 7
    assert stored(session_of(answer)) == ["hi", answer.choices[0].message.content]


def test_images_are_shown_to_the_model(sdk: openai.OpenAI, llm: LLMServer) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8=", "detail": "low"}}
    Talk(sdk).send([{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}])
    assert "aGVsbG8=" in str(llm.asked[0].messages)


@pytest.mark.parametrize(
    ("values", "param"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"stop": ["\n"]}, "stop"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "book"}}, "tools": [TOOL]}, "tool_choice"),
        ({"tool_choice": "any", "tools": [TOOL]}, "tool_choice"),
        ({"stop": ["1", "2", "3", "4", "5"]}, "stop"),
        ({"stop": 1}, "stop"),
        ({"response_format": {"type": "grammar"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"model": "gpt 4"}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": [said("user", " ")]}, "messages"),
        ({"messages": [said("nobody", "hi")]}, "messages.0.role"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "c1"}], "tools": [TOOL]}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}], "tools": [TOOL]}, "messages.0.tool_call_id"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages.0.content.0.type"),
        ({"temperature": [1]}, "temperature"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}}, "tool_choice"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
    ],
)
def test_what_would_mean_something_else_is_refused(
    values: dict[str, Any], param: str, sdk: openai.OpenAI, llm: LLMServer
) -> None:
    options: Any = {"model": "kana", "user": "hiroki", "messages": [said("user", "hi")], **values}
    with pytest.raises(openai.BadRequestError) as refused:
        sdk.chat.completions.create(**options)
    assert refused.value.param == param or str(refused.value.param).startswith(f"{param}."), refused.value.body
    assert refused.value.code == "invalid" and not Message.objects.exists() and not llm.asked


SHAPE = {
    "type": "object",
    "properties": {"tea": {"type": "string"}},
    "required": ["tea"],
    "additionalProperties": False,
}
AS_SHAPE = {"type": "json_schema", "json_schema": {"name": "tea", "strict": True, "schema": SHAPE}}
DEMANDS: Any = {
    "stop": "END",
    "response_format": AS_SHAPE,
    "tools": [TOOL],
    "tool_choice": {"type": "function", "function": {"name": "search"}},
    "parallel_tool_calls": False,
}


def test_demands_reach_anthropic_in_its_form(sdk: openai.OpenAI, llm: LLMServer) -> None:
    Talk(sdk, **DEMANDS).say("hi")
    sent = llm.asked[0].body
    assert sent["stop_sequences"] == ["END"]
    assert sent["output_config"] == {"format": {"type": "json_schema", "schema": SHAPE}}
    assert sent["tool_choice"] == {"type": "tool", "name": "search", "disable_parallel_tool_use": True}
    Talk(sdk, tools=[TOOL], tool_choice="required").say("hi")
    assert llm.asked[1].body["tool_choice"] == {"type": "any"}
    tea = {"type": "string", "minLength": 1}
    loose = {"name": "tea", "schema": {"type": "object", "properties": {"tea": tea}, "required": ["tea"]}}
    Talk(sdk, response_format={"type": "json_schema", "json_schema": loose}).say("hi")
    assert llm.asked[2].body["output_config"]["format"]["schema"] == SHAPE


def test_demands_reach_openai_as_they_are(sdk: openai.OpenAI, llm: LLMServer, settings: Settings) -> None:
    settings.LLM = LLMConfig("openai", base_url=llm.base_url, api_key=llm.key)
    llm_provider.cache_clear()
    Talk(sdk, **DEMANDS).say("hi")
    sent = llm.asked[0].body
    assert {name: sent[name] for name in ("response_format", "tool_choice", "parallel_tool_calls")} == {
        name: DEMANDS[name] for name in ("response_format", "tool_choice", "parallel_tool_calls")
    }
    assert sent["stop"] == ["END"]
    Talk(sdk, response_format={"type": "json_object"}, stop=["\n"]).say("hi")
    assert (llm.asked[1].body["response_format"], llm.asked[1].body["stop"]) == ({"type": "json_object"}, ["\n"])
    sampling = {"seed": 1, "reasoning_effort": "low", "temperature": 0.3, "top_p": 1, "verbosity": "low"}
    Talk(sdk, parallel_tool_calls=False, store=False, **sampling).say("hi")
    assert not {"parallel_tool_calls", "stop", "response_format", "tool_choice"} & set(llm.asked[2].body)
    assert {name: llm.asked[2].body[name] for name in sampling} == sampling


@pytest.mark.parametrize("stream", [False, True])
def test_a_task_of_the_program_is_answered_and_nothing_of_it_is_stored(
    stream: bool, sdk: openai.OpenAI, llm: LLMServer
) -> None:
    talk = Talk(sdk, extra_headers={"X-OpenWebUI-Chat-Id": "7a4e", "X-Memoryhub-Task": ""})
    session = session_of(talk.say("I like green tea."))
    llm.answer(Reply('{"title": "Tea"}', input_tokens=9, output_tokens=3))
    options: Any = {
        "model": "kana",
        "user": "hiroki",
        "messages": [said("system", "Be brief."), said("user", "### Task: a title for: I like green tea.")],
        "extra_headers": {"X-OpenWebUI-Chat-Id": "7a4e", "X-Memoryhub-Task": "title_generation"},
    }
    if stream:
        chunks = list(sdk.chat.completions.create(**options, stream=True))
        text = "".join(each.choices[0].delta.content or "" for each in chunks)
    else:
        answer = sdk.chat.completions.create(**options)
        text = answer.choices[0].message.content
        assert answer.usage.total_tokens == 12 and answer.choices[0].finish_reason == "stop"
        assert answer.memoryhub["session_id"] is None and answer.memoryhub["answer_id"] is None

    assert text == '{"title": "Tea"}'
    assert llm.asked[-1].system == "Be brief."
    assert [each["content"] for each in llm.asked[-1].messages] == ["### Task: a title for: I like green tea."]
    assert len(stored(session)) == 2 == Message.objects.count() and not abandoned_in(session)
    assert (Session.objects.count(), ChatTurn.objects.count(), Receipt.objects.count()) == (1, 1, 1)
    # It is paid for all the same; the ledger is written after the answer.
    wait_until(lambda: LedgerEntry.objects.filter(operation="chat").count() == 2)


@pytest.mark.parametrize(
    "opening", ["### Task:\nGenerate a title.", "<role>\nContext Extraction Assistant\n</role>\n\n…"]
)
def test_a_task_of_a_known_program_is_not_stored_without_the_header(
    opening: str, sdk: openai.OpenAI, llm: LLMServer
) -> None:
    assert Talk(sdk).say(opening).memoryhub["session_id"] is None
    assert [each["content"] for each in llm.asked[-1].messages] == [opening] and not Session.objects.exists()
    client_with_key().patch(f"{API}/agents/kana", {"policy": {"task_openings": []}})
    assert Talk(sdk).say(opening).memoryhub["session_id"] is not None


@pytest.mark.parametrize("stream", [False, True])
def test_a_temporary_conversation_is_answered_without_memory_and_stored_nowhere(
    stream: bool, sdk: openai.OpenAI, llm: LLMServer
) -> None:
    client = client_with_key()
    client.post(f"{API}/agents", {"agent_id": "kana", "system_prompt": "You are Kana."})
    client.post(f"{API}/memories", {"agent_id": "kana", "user_id": "hiroki", "content": "likes green tea"})
    options: Any = {"model": "kana", "user": "hiroki", "extra_headers": {"X-Conversation-Id": "temporary:7a4e"}}
    options["messages"] = [said("user", "hi"), said("assistant", "Hello!"), said("user", "Which green tea?")]
    llm.answer(Reply("Gyokuro, the best.", pieces=["Gyokuro, ", "the best."]))
    if stream:
        chunks = list(sdk.chat.completions.create(**options, stream=True))
        assert [each.choices[0].delta.content for each in chunks][1:3] == ["Gyokuro, ", "the best."]
        assert len({each.id for each in chunks}) == 1 and chunks[-1].choices[0].finish_reason == "stop"
    else:
        assert sdk.chat.completions.create(**options).choices[0].message.content == "Gyokuro, the best."
    assert llm.asked[0].system == "You are Kana." and len(llm.asked[0].messages) == 3
    assert "likes" not in str(llm.asked[0].messages) and not Session.objects.exists()


def test_a_task_that_fails_is_an_error_of_openais_form(sdk: openai.OpenAI, llm: LLMServer) -> None:
    llm.answer(Reply(failure="401"))
    with pytest.raises(openai.InternalServerError) as failed:
        Talk(sdk, extra_headers={"X-Memoryhub-Task": "tags"}).say("### Task")
    assert failed.value.code == "llm_failed" and len(llm.asked) == 1 and not Message.objects.exists()
    with pytest.raises(openai.APIError, match="provider"):
        list(
            sdk.chat.completions.create(
                model="kana",
                user="hiroki",
                messages=[said("user", "### Task")],  # type: ignore[list-item]
                stream=True,
                extra_headers={"X-Memoryhub-Task": "tags"},
            )
        )


def test_the_first_question_can_be_edited_by_a_program_that_names_its_tasks(
    sdk: openai.OpenAI, echo: LLMServer
) -> None:
    named = {"extra_headers": {"X-OpenWebUI-Chat-Id": "7a4e", "X-Memoryhub-Task": ""}}
    talk = Talk(sdk, **named)
    session = session_of(talk.say("My salary is 5000 euros."))
    talk.say("And my tea?")
    again = Talk(sdk, **named)
    assert session_of(again.say("My favourite tea is gyokuro.")) == session
    assert abandoned_in(session) == [1, 2, 3, 4] and "salary" not in str(echo.asked[-1].messages)
    again.say("Which cake?")
    assert echo.asked[-1].messages[0]["content"] == "My favourite tea is gyokuro."
    assert abandoned_in(session) == [1, 2, 3, 4]


def test_what_asks_for_nothing_is_ignored(sdk: openai.OpenAI, llm: LLMServer) -> None:
    ignored: Any = {
        "n": 1, "logprobs": False, "stop": [], "response_format": {"type": "text"}, "temperature": 0.7, "top_p": 1,
        "presence_penalty": 0, "service_tier": "auto", "store": True, "tools": [TOOL], "tool_choice": "none",
        "extra_body": {"keep_alive": "5m", "user_tier": None, "max_tokens": None},
    }  # fmt: skip
    Talk(sdk, **ignored).send(
        [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": "hi", "name": "Hiroki", "id": "m1"},
            {"role": "assistant", "content": "", "refusal": None, "annotations": []},
            said("user", "hello?"),
        ]
    )
    assert "Be brief." in llm.asked[0].system and llm.asked[0].body["tool_choice"] == {"type": "none"}
    assert [each.content for each in Message.objects.order_by("seq")][:1] == ["hello?"], "nothing of it is known"


@pytest.mark.parametrize(("failure", "kind", "status"), [("401", "server_error", 502), ("529", "server_error", 502)])
def test_a_model_that_fails_is_not_asked_again_by_the_sdk(
    failure: str, kind: str, status: int, sdk: openai.OpenAI, llm: LLMServer
) -> None:
    llm.answer(Reply(failure=failure))
    talk = Talk(sdk)
    for _ in range(2):
        with pytest.raises(openai.InternalServerError) as failed:
            talk.say("hi")
    assert (failed.value.status_code, failed.value.type, failed.value.code) == (status, kind, "llm_failed")
    assert ChatTurn.objects.count() == 2, "the SDK did not try again by itself"
    llm.answer(Reply("Hello!"))
    assert stored(session_of(talk.say("hi"))) == ["hi", "Hello!"]
    assert Session.objects.count() == 1


def test_keys_that_may_not_are_refused_in_openais_form(web: Web) -> None:
    for key, kind in (
        ("mh_wrong", openai.AuthenticationError),
        (key_of(scopes=["read"]), openai.PermissionDeniedError),
    ):
        with sdk_of(web, key) as sdk, pytest.raises(kind) as refused:
            Talk(sdk).say("hi")
        assert refused.value.type in ("authentication_error", "permission_error") and refused.value.code
    answer = httpx2.post(
        f"{web.url}{DOOR}/chat/completions", content=b"{", headers={"Authorization": f"Bearer {key_of()}"}
    )
    assert answer.status_code in (400, 415) and answer.json()["error"]["message"]


def test_a_repeat_with_an_idempotency_key_gets_the_first_answer(sdk: openai.OpenAI, echo: LLMServer) -> None:
    once = {"extra_headers": {"Idempotency-Key": "one"}}
    talk = Talk(sdk)
    talk.say("hi")
    first = Talk(sdk, **once).send([*talk.messages, said("user", "tea")])
    second = Talk(sdk, **once).send([*talk.messages, said("user", "tea")])
    assert (first.id, first.choices) == (second.id, second.choices)
    assert (len(echo.asked), Message.objects.count()) == (2, 4)
    streamed = sdk.chat.completions.create(
        model="kana", user="hiroki", messages=[*talk.messages, said("user", "tea")], **once
    )
    assert streamed.id == first.id
    with pytest.raises(openai.UnprocessableEntityError):
        Talk(sdk, **once).say("coffee")


def test_calls_of_one_conversation_at_once_store_it_once(sdk: openai.OpenAI, echo: LLMServer) -> None:
    elsewhere = [said("user", "My cat is called Momo."), said("assistant", "A fine name.")]

    def ask(number: int) -> str:
        whole = {"extra_headers": {"X-Memoryhub-Store": "all"}}
        return session_of(Talk(sdk, **whole).send([*elsewhere, said("user", f"question {number % 2}")]))

    with ThreadPoolExecutor(8) as pool:
        sessions = set(pool.map(ask, range(8)))
    assert len(sessions) == 1
    contents = stored(sessions.pop())
    assert contents[:2] == ["My cat is called Momo.", "A fine name."]
    questions = [each for each in contents if each.startswith("question") and "!" not in each]
    assert sorted(questions) == ["question 0", "question 1"]
    assert len(contents) == 2 + 2 + 8


def test_questions_asked_at_once_in_a_named_session_abandon_no_other(sdk: openai.OpenAI, echo: LLMServer) -> None:
    def ask(number: int) -> str:
        message = said("user", f"question {number}")
        return session_of(Talk(sdk, extra_headers={"X-Session-Id": "desk"}).send([message]))

    with ThreadPoolExecutor(8) as pool:
        (session,) = set(pool.map(ask, range(8)))
    assert len(stored(session)) == 16 and not abandoned_in(session)


def test_what_is_said_here_is_remembered_over_every_door(sdk: openai.OpenAI, echo: LLMServer) -> None:
    Talk(sdk).say("My cat is called Momo.")
    client = client_with_key()
    body = {"agent_id": "kana", "user_id": "hiroki", "message": "What is my cat called?"}
    assert "called Momo" in client.post(f"{API}/context", body).content.decode()
    assert client.delete(f"{API}/actors?agent_id=kana&user_id=hiroki").status_code == 200
    assert not Message.objects.exists() and not Memory.objects.exists()


def test_a_call_that_is_not_there_says_what_is(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="there are chat/completions, responses and models only"):
        sdk.embeddings.create(model="kana", input="Hello")
