"""How well messages find their project by words alone, on `routing_set.json`: `python -m bench.routing`.

The set was written before the router: 20 projects, 146 messages in English and Japanese from three channels, a third
of them ambiguous or about something new. What counts: the right project first for the clear ones, and no ambiguous or
new one called sure.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summaries.domain.projects import described
from summaries.domain.routing import Action, Confidence, Verdict, action_of, profile_of, route_by_words

SET = Path(__file__).with_name("routing_set.json")


@dataclass(frozen=True)
class Routed:
    """One message of the set, and what the router said of it."""

    message: dict[str, Any]
    verdict: Verdict

    @property
    def is_right(self) -> bool:
        """Whether the project that the router names is the one that is expected."""
        return self.verdict.project == self.message.get("project")


def read_set() -> dict[str, Any]:
    """Return the projects and the messages."""
    loaded: dict[str, Any] = json.loads(SET.read_text(encoding="utf-8"))
    return loaded


def route_set() -> Iterator[Routed]:
    """Yield every message with its verdict."""
    loaded = read_set()
    profiles = [
        profile_of(
            each["name"],
            description=each["description"],
            texts=[
                described(each["name"], each["description"]) + "\n".join(each["memory"]),
                *("\n".join(lines) for lines in each["documents"].values()),
            ],
        )
        for each in loaded["projects"]
    ]
    for message in loaded["messages"]:
        yield Routed(message, route_by_words(message["message"], profiles, []))


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
        "by_channel": {
            channel: f"{right} of {of}" for channel, (right, of) in sorted(_by_channel(clear).items())
        },
    }


def _by_channel(clear: list[Routed]) -> dict[str, tuple[int, int]]:
    of = Counter(each.message["channel"] for each in clear)
    right = Counter(each.message["channel"] for each in clear if each.is_right)
    return {channel: (right[channel], of[channel]) for channel in of}


def main() -> None:
    """Print the figures, and each message that went wrong."""
    routed = list(route_set())
    for each in routed:
        wrong = (
            not each.is_right
            if each.message["expect"] == "clear"
            else each.verdict.confidence is Confidence.HIGH
        )
        if wrong:
            print(
                f"{each.message['message']!r}: {each.verdict.project or '-'} ({each.verdict.confidence}), "
                f"expected {each.message.get('project') or each.message['expect']}"
            )
    print(json.dumps(figures(routed), indent=1))


if __name__ == "__main__":
    main()
