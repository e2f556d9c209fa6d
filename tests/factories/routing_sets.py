"""Messages and the projects they belong to, put to the router by words and to a reader that stands for a model.

Two sets, each of 20 projects and more than 120 messages in English and Japanese from three channels, a third of them
ambiguous or about something new. The limits of the router were tuned on `routing_set.json`; the other,
`routing_held_out_set.json`, was written afterwards by somebody who had not seen them, and nothing is to be tuned on
it. Besides, each set's messages are put to the other's projects, where all of them are about something else.

`routing_new_set.json` has 120 messages of every kind, with follow-ups and other languages than the project's. Its even
messages were tuned on, its odd ones not; likewise of its pairs of messages that begin a project and come back to it,
those of `begun.held_out` were not. The reader knows both languages, and of the projects what a question shows it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryhub.llm.tokens import count_raw
from memoryhub.search.analysis import analyse, is_unspaced
from summaries.domain.documents import described
from summaries.domain.projects import MAX_DESCRIPTION_LENGTH, CatalogEntry, one_line
from summaries.domain.routing import Action, Confidence, Prediction, action_of, usable_prediction
from summaries.domain.word_router import Profile, evidence, profile_of, question_blocks, route_by_words

TUNED_ON = Path(__file__).with_name("routing_set.json")
HELD_OUT = Path(__file__).with_name("routing_held_out_set.json")
SETS = (TUNED_ON, HELD_OUT)
NEW = Path(__file__).with_name("routing_new_set.json")
READABLE = 0.5
"""Evidence from which a good reader sees the connection: one telling word."""


@dataclass(frozen=True)
class Routed:
    """One message of a set, and what the router said of it."""

    message: dict[str, Any]
    verdict: Prediction

    @property
    def is_right(self) -> bool:
        return self.verdict.project == self.message.get("project")

    @property
    def is_sure(self) -> bool:
        return self.verdict.confidence is Confidence.HIGH


def read_set(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def profiles_of(path: Path) -> list[Profile]:
    """Return what the router knows of a set's projects."""
    return [
        profile_of(each["name"], description=each["description"], texts=texts_of(each))
        for each in read_set(path)["projects"]
    ]


def texts_of(project: dict[str, Any]) -> list[str]:
    memory = described(project["name"], project["description"]) + "\n".join(project["memory"])
    return [memory, *("\n".join(lines) for lines in project["documents"].values())]


def route_set(path: Path, *, among: Path) -> list[Routed]:
    """Return every message of a set with its verdict among a set's projects."""
    profiles = profiles_of(among)
    return [Routed(message, route_by_words(message["message"], profiles, [])) for message in read_set(path)["messages"]]


def figures(path: Path) -> dict[str, Any]:
    """Return what a set is measured by: among its own projects, and among the other set's, where none is right."""
    routed, (other,) = route_set(path, among=path), (each for each in SETS if each != path)
    clear = [each for each in routed if each.message["expect"] == "clear"]
    others = [each for each in routed if each.message["expect"] != "clear"]
    new = [each for each in others if each.message["expect"] == "new"]
    strangers = route_set(path, among=other)
    return {
        "clear": len(clear),
        "clear_top_1": share([each.is_right for each in clear]),
        "clear_sure": sum(each.is_sure for each in clear),
        "clear_sure_and_right": sum(each.is_sure and each.is_right for each in clear),
        "ambiguous_or_new": len(others),
        "ambiguous_or_new_called_sure": sum(each.is_sure for each in others),
        "new": len(new),
        "new_proposed": sum(action_of(each.verdict) is Action.PROPOSE for each in new),
        "among_other_projects": len(strangers),
        "among_other_projects_routed": sum(each.verdict.project is not None for each in strangers),
        "among_other_projects_called_sure": sum(each.is_sure for each in strangers),
    }


def share(holds: Sequence[bool]) -> float:
    return round(sum(holds) / len(holds), 3)


@dataclass(frozen=True)
class Case:
    """Message of the new set. `kind` is clear, foreign, ask, new or after; `other` is said before or after it."""

    channel: str
    text: str
    project: str | None
    kind: str
    other: str = ""

    def is_right(self, verdict: Prediction) -> bool:
        """Return whether it was routed where it belongs, or asked about where that can only be asked.

        Words cannot know what is said in another language than its project's.
        """
        if self.kind == "ask":
            return action_of(verdict) is Action.ASK
        return verdict.project == self.project or (self.kind == "foreign" and verdict.project is None)


def read_cases() -> list[Case]:
    return [
        Case(channel, text, None, goal, *rest[1:])
        if goal in ("ask", "new")
        else Case(channel, text, goal, *(rest or ["clear"]))
        for channel, text, goal, *rest in read_set(NEW)["messages"]
    ]


def by_words(case: Case, profiles: Sequence[Profile]) -> Prediction:
    """Return the verdict by words; a follow-up comes in a session whose first message was a guess that stood."""
    current = case.project if case.kind == "after" else None
    return route_by_words(case.text, profiles, [], current=current)


def by_reader(case: Case, profiles: Sequence[Profile], *, shows_lines: bool = True) -> Prediction:
    """Return the verdict of a reader who is shown what a model is shown."""
    given = read_set(NEW)["projects"]
    listed = [CatalogEntry(each["name"], each["description"]) for each in given]
    texts = {each["name"]: texts_of(each) for each in given} if shows_lines else {}
    current = case.project if case.kind == "after" else None
    blocks = question_blocks(case.text, case.channel, listed, profiles, texts, [], current=current, count=count_raw)
    return usable_prediction(read_question(case, blocks), [each.name for each in listed], current=current)


def read_question(case: Case, blocks: Mapping[str, str]) -> Prediction:
    """Answer like a good model: by shared words that are shown, by meaning across languages, else with a question."""
    if case.kind == "after" and case.project == blocks.get("session"):
        return Prediction(case.project, None, Confidence.MEDIUM)
    if case.kind == "new":
        return Prediction(None, "something-new", Confidence.HIGH)
    shown = [line.partition(" - ")[::2] for line in blocks["projects"].splitlines()]
    known = {head.split("**")[1]: description for head, description in shown}
    if case.kind == "foreign" and not known[str(case.project)].endswith("…"):
        return Prediction(case.project, None, Confidence.HIGH)
    lines: dict[str, list[str]] = {name: [] for name in known}
    for name, _, line in (line.partition(": ") for line in blocks.get("lines-of-documents", "").splitlines()):
        lines[name].append(line)
    profiles = [profile_of(name, description=known[name], texts=lines[name]) for name in known]
    found = evidence(analyse(case.text), profiles)
    best, second = sorted(found, key=lambda name: -found[name])[:2]
    if case.kind == "ask" or found[best] < READABLE or found[best] == found[second]:
        return Prediction(None, None, Confidence.LOW)
    return Prediction(best, None, Confidence.HIGH if best == case.project else Confidence.MEDIUM)


def case_figures(cases: Sequence[Case], router: Callable[[Case], Prediction]) -> dict[str, Any]:
    """Return the figures of messages of the new set."""
    pairs = [(case, router(case)) for case in cases]
    return {
        "messages": len(pairs),
        "right_or_rightly_asked": share([case.is_right(verdict) for case, verdict in pairs]),
        "high_and_wrong": sum(
            verdict.confidence is Confidence.HIGH and verdict.project != case.project for case, verdict in pairs
        ),
        "follow_ups_stay": share([case.is_right(verdict) for case, verdict in pairs if case.kind == "after"]),
        "new_proposed": share([action_of(verdict) is Action.PROPOSE for case, verdict in pairs if case.kind == "new"]),
    }


def read_begun() -> dict[str, list[tuple[str, str]]]:
    """Return messages that begin a project, each with a second one about it."""
    new = [(case.text, case.other) for case in read_cases() if case.kind == "new"]
    return {"of_the_messages": new, **read_set(NEW)["begun"]}


def found_again(pairs: Sequence[tuple[str, str]], profiles: Sequence[Profile]) -> float:
    """Return the share of new projects, described by their first message, that the second message finds."""
    found = []
    for first, second in pairs:
        description = one_line(first)[:MAX_DESCRIPTION_LENGTH]
        memory = described("made-by-the-router", description)
        made = profile_of("made-by-the-router", description=description, texts=[memory])
        found.append(route_by_words(second, [*profiles, made], []).project == made.name)
    return share(found)


def in_language(pairs: Sequence[tuple[str, str]], *, is_japanese: bool) -> list[tuple[str, str]]:
    return [pair for pair in pairs if is_unspaced(pair[0]) == is_japanese]
