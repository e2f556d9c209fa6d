"""A model that lies, through the whole extraction: what is stored active, what waits with its reason (SPEC L6, L7)."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from bench.extraction import LANGUAGES, SAID_AT, Story, stories
from conversations.actions.messages import add_messages
from conversations.actions.sessions import open_session
from conversations.domain.messages import NewMessage, Role
from conversations.domain.statements.grounding import UNRELIABLE
from memoryhub.auth.access import actor_for_writing, tenant_for_reading
from memoryhub.tenancy.models import Actor
from strength.actions.tasks import Completion, execute_task
from strength.models import Memory
from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.integration.strength.conftest import BY, NOW
from tests.integration.strength.talking import Model, item, read, sources_of, talk, texts

pytestmark = pytest.mark.django_db


def tell(story: Story, number: int) -> Actor:
    """Store a story's messages as a session of an actor of its own."""
    actor = actor_for_writing(BY, "kana", f"teller-{number}", now=SAID_AT)
    session = open_session(actor=actor, session_id=None, channel="web", by=BY, now=SAID_AT)[0]
    batch = [
        NewMessage(
            role=Role.USER if each.is_users else Role.ASSISTANT, content=each.text, author=each.author,
            created_at=SAID_AT + timedelta(seconds=place),
        )
        for place, each in enumerate(story.messages)
    ]  # fmt: skip
    add_messages(session=session, batch=batch, by=BY, now=SAID_AT)
    return actor


def doubt_of(memory: Memory) -> str | None:
    doubt = memory.revisions.get(number=1).beside.get("doubt")
    return doubt[0] if doubt else None


def answers(story: Story) -> Callable[[Asked], Mapping[str, Any]]:
    """Return a model's answer: all statements of a story, each as the user's own and in both lists."""
    true = [item(text, *(place + 1 for place in places)) for places, text in story.true]
    false = [item(text, place + 1) for place, _kind, text in story.false]
    return lambda asked: {"facts": [*true, *false][:20], "preferences": [*true, *false][:20]}


@pytest.mark.parametrize("language", LANGUAGES)
def test_of_a_model_that_lies_only_what_is_true_passes_the_checks(llm: LLMServer, language: str) -> None:
    passed, waiting, wrong = Counter[str](), Counter[str](), list[str]()
    for number, story in enumerate(stories("tuning", language)):
        actor = tell(story, number)
        Model(llm, answers(story))
        read(actor, now=SAID_AT + timedelta(days=1))
        true, false = [text for _places, text in story.true], [text for _place, _kind, text in story.false]
        rows = Memory.objects.of([actor.id]).filter(superseded_by=None)
        for memory in rows:
            content = memory.content.partition(": ")[2] if memory.content.partition(": ")[2] in true else memory.content
            passes = doubt_of(memory) in {None, UNRELIABLE}
            (passed if passes else waiting)["true" if content in true else "false"] += 1
            wrong += [content] if passes and content in false else []
        assert len({memory.content for memory in rows}) == rows.count(), "what two lists hold is one memory"
    assert wrong == []
    assert passed["true"] >= 55 and waiting["true"] <= 2 and waiting["false"] > 50


def test_what_waits_has_its_reason_and_a_wrong_citation_is_corrected(actor: Actor, llm: LLMServer) -> None:
    talk(actor, "Hello.", "I live in Otaru.", ("assistant", "Nice."))
    Model(llm, {"facts": [item("The user lives in Otaru.", 1), item("The user lives in Osaka.", 2)]})
    read(actor)
    assert texts(actor) == ["The user lives in Otaru."]
    right, wrong = Memory.objects.get(content__contains="Otaru"), Memory.objects.get(content__contains="Osaka")
    assert sources_of(right) == {"I live in Otaru."}
    assert wrong.status == "pending"
    assert wrong.revisions.get().beside["doubt"] == ["name", "Osaka"]


def test_what_is_said_later_confirms_what_waited(actor: Actor, llm: LLMServer) -> None:
    Model(llm, {"facts": [item("The user lives in Osaka.")]})
    talk(actor, "Is life in the city good?")
    read(actor)
    assert texts(actor) == []
    talk(actor, "I live in Osaka now.")
    read(actor)
    assert texts(actor) == ["The user lives in Osaka."]


@pytest.mark.parametrize("agent", ["en", "ja"])
def test_a_mixed_session_gives_mixed_memories(actor: Actor, llm: LLMServer, agent: str) -> None:
    actor.agent.language = agent
    actor.agent.save()
    talk(actor, "I work as a nurse in the city.", "小樽に住んでいます。")
    drawn = [item("The user works as a nurse in the city.", 1), item("ユーザーは小樽に住んでいる。", 2)]
    swapped = [item("ユーザーは街で看護師として働いている。", 1), item("The user lives in Otaru.", 2)]
    Model(llm, {"facts": [*drawn, *swapped]})
    read(actor)
    assert texts(actor) == [each["text"] for each in drawn]
    assert {row.revisions.get().beside["doubt"][0] for row in Memory.objects.filter(status="pending")} == {"language"}


@pytest.mark.parametrize(
    ("setting", "asked_for", "kept"),
    [
        ("auto", "日本語の", "ユーザーは小樽で看護師をしている。"), ("agent", "in English", "The user is a nurse in the city of the harbour."),
        ("en", "in English", "The user is a nurse in the city of the harbour."),
    ],
)  # fmt: skip
def test_the_language_is_a_policy(actor: Actor, llm: LLMServer, setting: str, asked_for: str, kept: str) -> None:
    actor.agent.policy = {"memory_language": setting}
    actor.agent.save()
    talk(actor, "小樽で看護師をしています。")
    model = Model(
        llm,
        {
            "facts": [
                item("ユーザーは小樽で看護師をしている。"),
                item("The user is a nurse in the city of the harbour."),
            ]
        },
    )
    read(actor)
    assert texts(actor) == [kept]
    assert asked_for in model.server.asked[0].system


def test_the_operators_instructions_end_the_prompt(actor: Actor, llm: LLMServer) -> None:
    actor.agent.policy = {"extraction_instructions": "Write down allergies first."}
    actor.agent.save()
    talk(actor, "Hello.")
    model = Model(llm, {})
    read(actor)
    assert model.server.asked[0].system.endswith("Write down allergies first.")


def test_a_learning_that_names_what_nobody_said_waits(actor: Actor, llm: LLMServer) -> None:
    llm.answer(Reply(data={"content": "Purchases take 45 days in Osaka.", "learning": "Because of customs."}))
    execute_task(
        tenant=tenant_for_reading(BY, "kana", "hiroki"), actor=actor, query="purchases", run=lambda _: "They take a while.",
        by=BY, clock=lambda: NOW, completion=Completion(extract_learning=True),
    )  # fmt: skip
    learning = Memory.objects.get(kind="learning")
    assert (learning.status, learning.revisions.get().beside["doubt"]) == ("pending", ["name", "Osaka"])
