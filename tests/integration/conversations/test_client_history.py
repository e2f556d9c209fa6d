"""Conversations that clients keep: what is stored against a model of what was said (ADR 51)."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from conversations.actions.answers import store_answer
from conversations.actions.chat import prepare_turn
from conversations.actions.client_history import Store, place_question
from conversations.actions.questions import Question
from conversations.domain.client_talk import Unstored, talk_of
from conversations.domain.messages import NewMessage, Role
from conversations.models import Message
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import Principal, command
from memoryhub.llm.types import Completion
from memoryhub.tenancy.models import Actor

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
UNSTORED = Unstored(("environment_details", "system-reminder"))


class Program:
    """A chat program of one user. It keeps conversations, and counts what was asked and answered in them."""

    def __init__(self, actor: Actor, by: Principal) -> None:
        self.actor, self.by, self.now = actor, by, NOW
        self.said: Counter[tuple[str, str]] = Counter()
        self.number = 0

    def ask(
        self, history: list[NewMessage], text: str, *, answer: str | None = None, again: bool = False, **options: Any
    ) -> list[NewMessage]:
        """Ask a question, count it unless it is asked again, and return the conversation with its answer."""
        self.now += timedelta(minutes=3)
        asked = NewMessage(role=Role.USER, content=text)
        talk = talk_of([*history, asked], UNSTORED)
        assert talk is not None
        values = {"channel": "openai", "body": repr((history, text)), "is_retry": options.pop("is_retry", False)}
        question = Question(message=text, **values)
        name, store = options.pop("name", None), options.pop("store", Store.NEW)
        question = place_question(
            actor=self.actor, question=question, talk=talk, name=name, store=store, now=self.now, **options
        )
        prepared = prepare_turn(actor=self.actor, question=question, by=self.by, now=self.now)
        if prepared.request is not None:
            self.number += 1
            given = answer or f"Answer {self.number}, of a length by which it is known."
            completion = Completion(text=given, model="m", input_tokens=1, output_tokens=1)
            turn = store_answer(turn=prepared.turn, completion=completion, by=self.by, now=self.now)
            self.said["assistant", given] += 1
            self.said["user", text] += not again
        else:
            turn = prepared.turn
        assert turn.answer is not None
        return [*history, asked, NewMessage(role=Role.ASSISTANT, content=turn.answer.content)]

    @property
    def stored(self) -> Counter[tuple[str, str]]:
        return Counter((row.role, row.content) for row in Message.objects.of([self.actor.pk]))

    @property
    def sessions(self) -> int:
        return Message.objects.of([self.actor.pk]).values("session").distinct().count()


def program_of(user_id: str) -> Program:
    by = command("test")
    return Program(actor_for_writing(by, "kana", user_id, now=NOW), by)


@pytest.fixture
def program() -> Program:
    return program_of("hiroki")


@given(seed=st.integers(0, 10**9))
@hypothesis_settings(suppress_health_check=[HealthCheck.too_slow])
def test_what_is_stored_is_what_was_said(seed: int) -> None:
    choose, program = Random(seed), program_of(f"user {uuid4()}")
    devices: list[list[NewMessage]] = [program.ask([], f"Beginning {seed}, by which it is known.")]
    for step in range(8):
        device = choose.randrange(len(devices))
        talk = devices[device]
        # What two devices ask alike at the same place is one question.
        text = choose.choice(
            [f"yes {device}", f"Go on, {device}.", f"Question {step}", f"Question {step}", f"質問{step}"]
        )
        answer = choose.choice([None, None, "Done."])
        match choose.choice(["append", "append", "edit", "regenerate", "truncate", "compact", "retry", "fork"]):
            case "append":
                talk = program.ask(talk, text, answer=answer)
            case "edit":
                places = [place for place, each in enumerate(talk) if each.role == Role.USER and place > 0]
                talk = program.ask(talk[: choose.choice(places)], f"Edited {step}") if places else talk
            case "regenerate" if len(talk) > 2:
                talk = program.ask(talk[:-2], talk[-2].content, again=True)
            case "truncate" if len(talk) > 4:
                talk = program.ask(talk[-4:], text)
            case "compact" if len(talk) > 4:
                talk = program.ask([NewMessage(role=Role.USER, content=f"Summary {step}"), *talk[-2:]], text)
            case "retry":
                before = talk
                talk = program.ask(before, f"Retried {step}")
                assert program.ask(before, f"Retried {step}", is_retry=True) == talk
            case "fork":
                devices.append(list(talk))
        devices[device] = talk
    assert program.stored == program.said


def test_examples_are_never_stored_and_real_questions_are(program: Program) -> None:
    examples = [
        NewMessage(role=Role.USER, content="2 and 2?"),
        NewMessage(role=Role.ASSISTANT, content="This is the form of an answer: 4."),
    ]
    for number in range(5):
        program.ask(examples, f"And {number} and {number}?")
    named = [
        NewMessage(role=Role.USER, content="The capital of France?", author="example_user"),
        NewMessage(role=Role.ASSISTANT, content="Paris, which is in France.", author="example_assistant"),
    ]
    talk = program.ask(named, "The capital of Italy?", store=Store.ALL)
    program.ask(talk, "And of Spain?", store=Store.ALL)
    assert program.stored == program.said and not Message.objects.exclude(abandoned_at=None).exists()
    assert program.sessions == 6


def test_a_first_question_that_is_asked_again_is_one(program: Program) -> None:
    program.ask([], "Which tea do I like?")
    program.now -= timedelta(minutes=3)
    program.ask([], "Which tea do I like?", again=True)
    assert program.sessions == 1 and program.stored == program.said
    program.ask([], "Which tea do I like?")
    assert program.sessions == 2, "minutes later it is another conversation"
    program.ask([], "hi")
    program.now -= timedelta(minutes=3)
    program.ask([], "hi")
    assert program.sessions == 4, "many conversations begin so"


def test_of_an_unknown_conversation_the_question_is_stored_or_what_the_client_wants(program: Program) -> None:
    elsewhere = [NewMessage(role=Role.USER, content="From elsewhere."), NewMessage(role=Role.ASSISTANT, content="Yes.")]
    talk = program.ask(elsewhere, "What did I say?")
    program.ask(talk, "And before?")
    assert program.stored == program.said and program.sessions == 1
    program.ask(elsewhere, "What was it?", store=Store.ALL)
    program.said.update([("user", "From elsewhere."), ("assistant", "Yes.")])
    assert program.stored == program.said
    program.ask([NewMessage(role=Role.USER, content="Older."), *elsewhere], "More?", name="its name")
    program.said.update([("user", "Older."), ("user", "From elsewhere."), ("assistant", "Yes.")])
    assert program.stored == program.said
    program.ask([NewMessage(role=Role.USER, content="Never.")], "Only this?", name="other", store=Store.LAST)
    assert program.stored == program.said


def test_notes_of_programs_are_not_stored(program: Program) -> None:
    def noted(number: int) -> str:
        return f"Question {number}\n<environment_details>\nfile {number}\n</environment_details>"

    talk: list[NewMessage] = []
    for number in range(4):
        program.said["user", f"Question {number}"] += 1
        talk = program.ask(talk, noted(number), again=True)
        talk[-2] = NewMessage(role=Role.USER, content=noted(number).replace("file", "files"))
    assert program.stored == program.said and program.sessions == 1
