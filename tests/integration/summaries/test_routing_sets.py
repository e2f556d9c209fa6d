"""Routing on the sets of `routing_sets.py`: by words, and by a model over HTTP that knows what it is shown.

The figures are exact, and those of bench/RESULTS.md: change both.
"""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from conversations.actions.sessions import open_session
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.tenancy.models import Actor
from summaries.actions.documents import append_entry
from summaries.actions.projects import create_project
from summaries.actions.routing import route_message
from summaries.domain.routing import Confidence, Prediction
from summaries.models import Project, RoutingDecision
from tests.examples import examples
from tests.factories.routing_sets import (
    HELD_OUT,
    NEW,
    SETS,
    TUNED_ON,
    Case,
    by_reader,
    by_words,
    case_figures,
    figures,
    found_again,
    in_language,
    profiles_of,
    read_begun,
    read_cases,
    read_question,
    read_set,
)
from tests.fakes.llm_server import Asked, LLMServer, Reply

BY = command("test")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_set_is_what_it_is_said_to_be(path: Path) -> None:
    loaded = read_set(path)
    assert len(loaded["projects"]) == 20 and len(loaded["messages"]) >= 120
    assert {each["channel"] for each in loaded["messages"]} == {"slack", "github", "terminal"}
    assert len({json.dumps(each["message"]) for each in loaded["messages"]}) == len(loaded["messages"])


FIGURES = {
    TUNED_ON: {
        "clear": 98, "clear_top_1": 0.908, "clear_sure": 62, "clear_sure_and_right": 62, "ambiguous_or_new": 48,
        "ambiguous_or_new_called_sure": 0, "new": 14, "new_proposed": 10, "among_other_projects": 146,
        "among_other_projects_routed": 15, "among_other_projects_called_sure": 0,
    },
    HELD_OUT: {
        "clear": 88, "clear_top_1": 0.92, "clear_sure": 33, "clear_sure_and_right": 33, "ambiguous_or_new": 39,
        "ambiguous_or_new_called_sure": 0, "new": 12, "new_proposed": 6, "among_other_projects": 127,
        "among_other_projects_routed": 10, "among_other_projects_called_sure": 0,
    },
}  # fmt: skip


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_words_find_clear_messages_and_are_not_sure_of_others(path: Path) -> None:
    assert figures(path) == FIGURES[path]


ROUTERS = {
    "words": (by_words, 1.0, 0.95),
    "a model": (by_reader, 1.0, 1.0),
    "a model that is shown no lines": (partial(by_reader, shows_lines=False), 0.6, 0.65),
}


@pytest.mark.parametrize("router", ROUTERS)
def test_words_and_a_model_route_or_ask_rightly(router: str) -> None:
    cases, profiles = read_cases(), profiles_of(NEW)
    route, *rights = ROUTERS[router]
    for half, right in enumerate(rights):  # tuned on, held out
        assert case_figures(cases[half::2], lambda case: route(case, profiles)) == {
            "messages": 60,
            "right_or_rightly_asked": right,
            "high_and_wrong": 0,
            "follow_ups_stay": 1.0,
            "new_proposed": 1.0,
        }


def test_what_the_router_made_is_found_again() -> None:
    profiles, begun = profiles_of(NEW), read_begun()
    for is_japanese, of_all, of_held_out in ((False, 1.0, 1.0), (True, 0.958, 0.875)):
        every = in_language([pair for pairs in begun.values() for pair in pairs], is_japanese=is_japanese)
        assert (len(every), found_again(every, profiles)) == (24, of_all)
        assert found_again(in_language(begun["held_out"], is_japanese=is_japanese), profiles) == of_held_out


@pytest.mark.property
def test_model_over_http_routes_what_it_can_read(db: None, llm: LLMServer) -> None:
    actor = gardeners()
    cases = read_cases()[:: 120 // examples(120)]
    verdicts = [routed_by_model(actor, llm, case) for case in cases]
    right = sum(case.is_right(verdict) for case, verdict in zip(cases, verdicts, strict=True))
    assert right / len(cases) >= 0.97
    assert len(llm.asked) == len(cases)


def gardeners() -> Actor:
    """Return a user with the projects of the new set."""
    actor = actor_for_writing(BY, "kana", "hiroki", now=NOW)
    for each in read_set(NEW)["projects"]:
        name = each["name"]
        project = create_project(actor=actor, name=name, description=each["description"], by=BY, now=NOW)
        for document, lines in {"MEMORY.md": each["memory"], **each["documents"]}.items():
            append_lines(project, document, lines)
    return actor


def append_lines(project: Project, document: str, lines: Sequence[str]) -> None:
    for line in lines:
        text = line.removeprefix("- ")
        append_entry(project=project, document_name=document, text=text, by=BY, now=NOW)


def routed_by_model(actor: Actor, llm: LLMServer, case: Case) -> Prediction:
    def answer(asked: Asked) -> Reply:
        blocks = re.findall(r"<([a-z-]+) (\w+)>\n(.*?)\n</\1 \2>", asked.text, re.DOTALL)
        read = read_question(case, {name: text for name, _code, text in blocks})
        return Reply(
            data={
                "project": read.project,
                "proposed_name": read.proposed_name,
                "confidence": read.confidence,
                "reason": "So.",
            }
        )

    llm.answer(answer)
    session = open_session(actor=actor, session_id=None, channel=case.channel, by=BY, now=NOW)[0]
    if case.kind == "after":
        RoutingDecision.objects.create(
            actor=actor,
            session=session,
            message=case.other,
            channel=case.channel,
            confidence="medium",
            action="route_and_disclose",
            project=Project.objects.get(name=case.project),
            created_at=NOW,
        )
    made = route_message(actor=actor, message=case.text, channel=case.channel, session=session, by=BY, now=NOW)
    return Prediction(
        made.project.name if made.project else None, made.proposed_name or None, Confidence(made.confidence)
    )
