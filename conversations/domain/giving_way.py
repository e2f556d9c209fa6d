"""What goes, in which order: the table of `layers` spelt out for the candidates at hand.

The order does not depend on how many tokens anything has. So the whole way from "all of it" to
"nothing remembered" is one list of cuts, and fitting a limit means to find how many of them are needed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from conversations.domain.cleaning import is_blank
from conversations.domain.contents import attachments_given_way, plain_text
from conversations.domain.layers import GIVE_WAY_ORDER, Candidate, Content, GiveWay, How
from conversations.domain.phrases import ENGLISH
from conversations.domain.sections import sections_of

Contents = Mapping[int, Content]
"""What is (still) in the context: a candidate's place among all candidates → what it says."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One step of giving way: the candidate at `place` keeps only `leaves`, or goes (None)."""

    place: int
    leaves: Content | None


def plan_cuts(
    candidates: Sequence[Candidate], contents: Contents, steps: Iterable[GiveWay] = GIVE_WAY_ORDER
) -> tuple[Cut, ...]:
    """Return the cuts that the steps make, first to go first, as if all were needed."""
    cuts: list[Cut] = []
    left = dict(contents)
    for step in steps:
        places = [place for place in left if candidates[place].layer == step.layer]
        new = list(_WAYS[step.how](places, step.floor, candidates, left))
        left = apply_cuts(left, new)
        cuts += new
    return tuple(cuts)


def apply_cuts(contents: Contents, cuts: Iterable[Cut]) -> dict[int, Content]:
    """Return contents after the cuts; the order of the places stays."""
    left = dict(contents)
    for cut in cuts:
        if cut.leaves is None:
            del left[cut.place]
        else:
            left[cut.place] = cut.leaves
    return left


def _removed(victims: Sequence[int], floor: int) -> Iterator[Cut]:
    return (Cut(place, None) for place in victims[: max(0, len(victims) - floor)])


def _attachments(places: Sequence[int], _: int, __: Sequence[Candidate], left: Contents) -> Iterator[Cut]:
    return (Cut(place, content) for place in places for content in attachments_given_way(left[place]))


def _sections(places: Sequence[int], _: int, __: Sequence[Candidate], left: Contents) -> Iterator[Cut]:
    for place in reversed(places):
        sections = sections_of(plain_text(left[place], ENGLISH))
        beginnings = ("".join(sections[:kept]) for kept in range(len(sections) - 1, 0, -1))
        yield from (Cut(place, text) for text in beginnings if not is_blank(text))
        yield Cut(place, None)


def _least_relevant(
    places: Sequence[int], floor: int, candidates: Sequence[Candidate], _: Contents
) -> Iterator[Cut]:
    """Order by relevance itself, not by the layer's order, which strength and recency decide too."""

    def worth(place: int) -> tuple[float, int]:
        relevance = candidates[place].relevance
        return (-1.0 if relevance is None else relevance, -place)

    return _removed(sorted(places, key=worth), floor)


def _oldest(places: Sequence[int], floor: int, _: Sequence[Candidate], __: Contents) -> Iterator[Cut]:
    return _removed(places, floor)


def _last(places: Sequence[int], floor: int, _: Sequence[Candidate], __: Contents) -> Iterator[Cut]:
    return _removed(places[::-1], floor)


_Way = Callable[[Sequence[int], int, Sequence[Candidate], Contents], Iterator[Cut]]

_WAYS: Final[Mapping[How, _Way]] = {
    How.ATTACHMENTS: _attachments,
    How.SECTIONS: _sections,
    How.LEAST_RELEVANT: _least_relevant,
    How.OLDEST: _oldest,
    How.LAST: _last,
}
