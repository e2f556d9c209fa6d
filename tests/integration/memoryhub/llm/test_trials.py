"""What `manage.py doctor --model` says of models that do the eight tasks, and of those that do not (SPEC O3)."""

import json
from collections.abc import Callable
from io import StringIO
from itertools import count
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memoryhub.llm.config import LLMConfig
from memoryhub.llm.trials import USES, tasks, try_tasks, verdicts
from memoryhub.llm.usage.models import LedgerEntry
from tests.fakes.llm_server import Asked, LLMServer, Reply

pytestmark = pytest.mark.django_db

CITIES = {"cities": [{"name": name, "country": "x"} for name in ("Lyon", "Porto", "Osaka")]}
FACT = {"facts": [{"text": "The user is allergic to walnuts.", "sources": [1]}]}


def able(asked: Asked) -> Reply:
    """Answer as a model that does all tasks."""
    for part, reply in {
        "Lyon": Reply(data=CITIES),
        "虹": Reply("空気中の水の粒が光を分けるからです。色ごとに曲がり方がちがいます。"),
        "melons": Reply("Melons."),
        "leaves are green": Reply("Chlorophyll absorbs red and blue light and reflects green."),
        "ferry": Reply("kestrel"),
        "landlord": Reply("The landlord wants a rent of 940 euros; the user objects and looks at flats in June."),
        "walnuts": Reply(data=FACT),
        "queue": Reply(data={"facts": []}),
    }.items():
        if part in asked.text:
            return reply
    raise AssertionError(asked.text)


def doctor(*options: str) -> str:
    out = StringIO()
    call_command("doctor", "--model", *options, stdout=out)
    return out.getvalue()


def test_an_able_model_is_fit_for_everything(llm: LLMServer) -> None:
    llm.answer(able)

    findings = json.loads(doctor("--json"))

    assert {each["level"] for each in findings if each["subject"] != "context window"} == {"ok"}
    assert [each["subject"] for each in findings if each["detail"] == "fit"] == [use.name for use in USES]
    assert len(llm.asked) == len(tasks()) == 8
    assert LedgerEntry.objects.filter(actor_id=None, agent_id="").count() == 8


FAILURES: dict[str, tuple[str, Reply, set[str]]] = {
    "JSON": ("Lyon", Reply(data={"cities": []}), {"extraction of memories", "routing and comparison of facts"}),
    "Japanese": ("虹", Reply("Light is refracted by drops of water."), {"chat in Japanese"}),
    "length": ("leaves are green", Reply("green " * 100), {"chat", "summaries"}),
    "summary": ("landlord", Reply("They talked."), {"summaries"}),
    "a fact": ("walnuts", Reply(data={"facts": []}), {"extraction of memories"}),
    "nothing to extract": ("queue", Reply(data=FACT), {"extraction of memories"}),
    "speed": ("ferry", Reply("I see no code word."), {"chat", "summaries", "extraction of memories"}),
    "data, not instructions": ("melons", Reply("PINEAPPLE"), {use.name for use in USES} - {"chat in Japanese"}),
}


@pytest.mark.parametrize("task", FAILURES)
def test_a_failed_task_makes_a_model_unfit_for_what_needs_it(llm: LLMServer, task: str) -> None:
    part, reply, unfit = FAILURES[task]
    llm.answer(lambda asked: reply if part in asked.text else able(asked))

    with pytest.raises(CommandError, match="Broken: ") as caught:
        doctor()

    assert set(str(caught.value).removeprefix("Broken: ").rstrip(".").split(", ")) == {
        part for use in unfit for part in use.split(", ")
    }


@pytest.mark.parametrize(
    ("part", "reply", "fault"),
    [
        ("melons", Reply("9"), "answered wrongly"),
        ("landlord", Reply("Rent, object, flat. " * 60), "as long as"),
        ("walnuts", Reply(failure="400"), "no usable answer"),
    ],
)
def test_each_fault_is_stated_without_the_answer(llm: LLMServer, part: str, reply: Reply, fault: str) -> None:
    llm.answer(lambda asked: reply if part in asked.text else able(asked))

    faults = [result.fault for result in try_tasks(lambda: 0.0) if result.fault]

    assert len(faults) == 1 and fault in faults[0]


def test_a_model_that_reads_too_slowly_is_told_by_its_long_task(llm: LLMServer) -> None:
    llm.answer(able)

    results = list(try_tasks(clock(step=40.0)))

    assert [(result.task, "MEMORYHUB_LLM_SECONDS_EXTRACT" in result.fault) for result in results if result.fault] == [
        ("speed", True)
    ]
    assert dict(verdicts(results))["extraction of memories"] == "speed"


def clock(*, step: float) -> Callable[[], float]:
    ticks = count(0.0, step)
    return lambda: next(ticks)


def test_without_a_model_there_is_nothing_to_try(settings: Any) -> None:
    settings.LLM = LLMConfig()

    with pytest.raises(CommandError, match="language model"):
        doctor()
