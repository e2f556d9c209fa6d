"""Measure how well messages find their project by words alone: `python -m bench.routing`.

Two sets, each of 20 projects and more than 120 messages in English and Japanese from three channels, a third of them
ambiguous or about something new. The bounds of the router were tuned on `routing_set.json`; the other,
`routing_held_out_set.json`, was written afterwards by somebody who had not seen them, and nothing is to be tuned on
it. What counts: the right project first for the clear ones, and no ambiguous or new one called sure. Besides, each
set's messages are put to the other's projects, where all of them are about something else.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summaries.domain.documents import described
from summaries.domain.routing import (
    Action,
    Confidence,
    Prediction,
    Profile,
    action_of,
    profile_of,
    route_by_words,
)

TUNED_ON = Path(__file__).with_name("routing_set.json")
HELD_OUT = Path(__file__).with_name("routing_held_out_set.json")
SETS = (TUNED_ON, HELD_OUT)


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
        memory = described(each["name"], each["description"]) + "\n".join(each["memory"])
        texts = [memory, *("\n".join(lines) for lines in each["documents"].values())]
        found.append(profile_of(each["name"], description=each["description"], texts=texts))
    return found


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


if __name__ == "__main__":
    main()
