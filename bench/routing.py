"""Measure how well messages find their project, by words and by a model: `python -m bench.routing`.

Two sets, each of 20 projects and more than 120 messages in English and Japanese from three channels, a third of them
ambiguous or about something new. The bounds of the router were tuned on `routing_set.json`; the other,
`routing_held_out_set.json`, was written afterwards by somebody who had not seen them, and nothing is to be tuned on
it. What counts: the right project first for the clear ones, and no ambiguous or new one called sure. Besides, each
set's messages are put to the other's projects, where all of them are about something else.

`routing_new_set.json` has 120 messages of every kind, with follow-ups and other languages than the project's. Its even
messages were tuned on, its odd ones not; likewise of its pairs of messages that begin a project and come back to it,
those of `begun.held_out` were not. It is also put to a reader that stands for a good model: it knows both
languages, and of the projects what a question shows it.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")

from memoryhub.llm.tokens import count_raw
from memoryhub.search.analysis import analyse, is_unspaced
from summaries.domain.documents import described
from summaries.domain.projects import LONGEST_DESCRIPTION, Listed, one_line
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
    """One message of the set, and what the router said of it."""

    message: dict[str, Any]
    verdict: Prediction

    @property
    def is_right(self) -> bool:
        return self.verdict.project == self.message.get("project")

    @property
    def went_wrong(self) -> bool:
        if self.message["expect"] == "clear":
            return not self.is_right
        return self.verdict.confidence is Confidence.HIGH


def read_set(path: Path = TUNED_ON) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def profiles_of(path: Path) -> list[Profile]:
    """Return what the router knows of a set's projects."""
    found = []
    for each in read_set(path)["projects"]:
        found.append(profile_of(each["name"], description=each["description"], texts=texts_of(each)))
    return found


def texts_of(project: dict[str, Any]) -> list[str]:
    memory = described(project["name"], project["description"]) + "\n".join(project["memory"])
    return [memory, *("\n".join(lines) for lines in project["documents"].values())]


def route_set(path: Path = TUNED_ON, *, among: Path | None = None) -> Iterator[Routed]:
    """Yield every message of a set with its verdict among the set's projects, or another set's."""
    profiles = profiles_of(among or path)
    for message in read_set(path)["messages"]:
        yield Routed(message, route_by_words(message["message"], profiles, []))


def route_elsewhere(path: Path) -> Iterator[Routed]:
    """Yield every message of a set with its verdict among the other set's projects, to none of which it belongs."""
    (other,) = (each for each in SETS if each != path)
    return route_set(path, among=other)


def figures(routed: list[Routed]) -> dict[str, Any]:
    """Return what the set is measured by."""
    clear = [each for each in routed if each.message["expect"] == "clear"]
    others = [each for each in routed if each.message["expect"] != "clear"]
    new = [each for each in others if each.message["expect"] == "new"]
    sure = [each for each in clear if each.verdict.confidence is Confidence.HIGH]
    return {
        "clear": len(clear),
        "clear_top_1": round(sum(each.is_right for each in clear) / len(clear), 3),
        "clear_sure": len(sure),
        "clear_sure_and_right": sum(each.is_right for each in sure),
        "ambiguous_or_new": len(others),
        "ambiguous_or_new_called_sure": sum(each.verdict.confidence is Confidence.HIGH for each in others),
        "ambiguous_or_new_routed": sum(each.verdict.project is not None for each in others),
        "new_proposed": sum(action_of(each.verdict) is Action.PROPOSE for each in new),
        "new": len(new),
        "ambiguous_proposed": sum(
            action_of(each.verdict) is Action.PROPOSE for each in others if each not in new
        ),
    }


def elsewhere(routed: list[Routed]) -> dict[str, int]:
    """Return how often messages that belong to no project were routed, and how often that was called sure."""
    return {
        "messages": len(routed),
        "routed": sum(each.verdict.project is not None for each in routed),
        "called_sure": sum(each.verdict.confidence is Confidence.HIGH for each in routed),
    }


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
    listed = [Listed(each["name"], each["description"]) for each in given]
    texts = {each["name"]: texts_of(each) for each in given} if shows_lines else {}
    current = case.project if case.kind == "after" else None
    blocks = question_blocks(
        case.text, case.channel, listed, profiles, texts, [], current=current, count=count_raw
    )
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


def case_figures(cases: Sequence[Case], verdicts: Sequence[Prediction]) -> dict[str, Any]:
    """Return the figures of messages of the new set."""
    pairs = list(zip(cases, verdicts, strict=True))
    kinds = {kind: [pair for pair in pairs if pair[0].kind == kind] for kind in ("new", "after")}
    right = sum(case.is_right(verdict) for case, verdict in pairs)
    return {
        "messages": len(pairs),
        "right_or_rightly_asked": round(right / len(pairs), 3),
        "high_and_wrong": sum(
            verdict.confidence is Confidence.HIGH and verdict.project != case.project
            for case, verdict in pairs
        ),
        "follow_ups_stay": round(
            sum(case.is_right(verdict) for case, verdict in kinds["after"]) / len(kinds["after"]), 3
        ),
        "new_proposed": round(
            sum(action_of(verdict) is Action.PROPOSE for _, verdict in kinds["new"]) / len(kinds["new"]), 3
        ),
    }


def read_begun() -> dict[str, list[tuple[str, str]]]:
    """Return messages that begin a project, each with a second one about it."""
    pairs: dict[str, list[tuple[str, str]]] = read_set(NEW)["begun"]
    return {
        "of_the_messages": [(case.text, case.other) for case in read_cases() if case.kind == "new"],
        **pairs,
    }


def found_again(pairs: Sequence[tuple[str, str]], profiles: Sequence[Profile]) -> float:
    """Return the share of new projects, described by their first message, that the second message finds."""
    found = 0
    for first, second in pairs:
        description = one_line(first)[:LONGEST_DESCRIPTION]
        memory = described("made-by-the-router", description)
        made = profile_of("made-by-the-router", description=description, texts=[memory])
        found += route_by_words(second, [*profiles, made], []).project == made.name
    return round(found / len(pairs), 3)


def in_language(pairs: Sequence[tuple[str, str]], *, is_japanese: bool) -> list[tuple[str, str]]:
    return [pair for pair in pairs if is_unspaced(pair[0]) == is_japanese]


def print_new_set() -> None:
    cases, profiles = read_cases(), profiles_of(NEW)
    ways: dict[str, Callable[[Case], Prediction]] = {
        "words": lambda case: by_words(case, profiles),
        "model": lambda case: by_reader(case, profiles),
        "model_with_catalog_only": lambda case: by_reader(case, profiles, shows_lines=False),
    }
    for way, router in ways.items():
        verdicts = [router(case) for case in cases]
        for case, verdict in zip(cases, verdicts, strict=True):
            if way == "words" and not case.is_right(verdict):
                print(
                    f"{case.kind} {case.text!r}: {verdict.project or action_of(verdict)}, {verdict.confidence}"
                )
        halves = {"all": slice(None), "tuned_on": slice(0, None, 2), "held_out": slice(1, None, 2)}
        told = {half: case_figures(cases[part], verdicts[part]) for half, part in halves.items()}
        print(json.dumps({way: told}, indent=1))
    again = {
        name: [found_again(in_language(pairs, is_japanese=each), profiles) for each in (False, True)]
        for name, pairs in read_begun().items()
    }
    print(json.dumps({"made_by_router_found_again_in_english_and_japanese": again}))


def main() -> None:
    """Print each set's figures, and each message that went wrong."""
    for path in SETS:
        routed = list(route_set(path))
        for each in filter(lambda each: each.went_wrong, routed):
            print(
                f"{each.message['message']!r}: {each.verdict.project or '-'} ({each.verdict.confidence}), "
                f"expected {each.message.get('project') or each.message['expect']}"
            )
        told = {**figures(routed), "among_other_projects": elsewhere(list(route_elsewhere(path)))}
        print(json.dumps({path.stem: told}, indent=1))
    print_new_set()


if __name__ == "__main__":
    main()
