"""Select what enters a context: admission rules, shares per layer, and the cuts that fit the token limit.

Every refusal has a stable code that a receipt shows (SPEC X9). The order of cuts does not depend on how many tokens
anything has, so the whole way from "all of it" to "nothing remembered" is one list, and fitting a limit means to find
how many of its cuts are needed. Counting a written context is expensive, so estimates per cut say where to look, and
the true total decides.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Final

from conversations.domain.layers import (
    GIVE_WAY_ORDER,
    PINNED,
    PRECEDENCE,
    PROJECT,
    RECALL,
    SEMANTIC,
    SESSION_SUMMARY,
    WORKING,
    Candidate,
    Content,
    Contents,
    GiveWay,
    How,
    steps_within_share,
)
from conversations.domain.policy import ContextPolicy
from conversations.domain.prompt import ENGLISH, attachments_given_way, blocks_of, plain_text
from conversations.domain.text import is_blank, one_line, sections_of
from memoryhub.errors import DomainError


class Reason(StrEnum):
    """Why something is in a context, or is not."""

    INCLUDED = "included"
    TRIMMED = "trimmed"
    OVER_BUDGET = "over_budget"
    TOO_LARGE = "too_large"
    LAYER_BUDGET = "layer_budget"
    LIMIT = "limit"
    DUPLICATE = "duplicate"
    EMPTY = "empty"
    SWITCHED_OFF = "switched_off"
    ROLE = "role"


COMPRESSED: Final = frozenset({Reason.TRIMMED, Reason.OVER_BUDGET, Reason.TOO_LARGE, Reason.LAYER_BUDGET})
"""The reasons that mean: tokens were short."""

TURN_ROLES: Final = frozenset({"user", "assistant"})

SWITCHES: Final[Mapping[str, str]] = {
    PINNED: "include_pinned",
    SEMANTIC: "include_semantic_memory",
    RECALL: "include_recall",
    PROJECT: "include_project",
    SESSION_SUMMARY: "include_session_summary",
}

LIMITS: Final[Mapping[str, str]] = {
    WORKING: "working_memory_limit",
    SEMANTIC: "semantic_memory_limit",
    RECALL: "recall_limit",
}

_KIND: Final[Mapping[str, str]] = {
    WORKING: "message",
    RECALL: "message",
    PINNED: "memory",
    SEMANTIC: "memory",
}


@dataclass(frozen=True, slots=True)
class Admission:
    """One layer's places that may enter, in their order, and why the others may not."""

    places: tuple[int, ...]
    refused: Mapping[int, Reason]


def admit(
    layer: str, candidates: Sequence[Candidate], *, policy: ContextPolicy, taken: frozenset[str]
) -> Admission:
    """Return which candidates of a layer may enter; `taken` holds the identities of dearer layers' entries.

    The limit counts what is left after all other rules, so that a duplicate takes nobody's place.
    """
    refused: dict[int, Reason] = {}
    places: list[int] = []
    seen = set(taken)
    for place, candidate in enumerate(candidates):
        if candidate.layer != layer:
            continue
        reason = _refusal(candidate, policy, seen)
        if reason is None:
            places.append(place)
            seen |= identities(candidate)
        else:
            refused[place] = reason
    return _within_limit(layer, places, refused, policy)


def identities(candidate: Candidate) -> frozenset[str]:
    """Return what makes a candidate the same as another: its id; for a memory also its text on one line."""
    kind = _KIND.get(candidate.layer, candidate.layer)
    names = set() if candidate.source_id is None else {f"{kind} {candidate.source_id}"}
    if kind == "memory":
        names.add(f"text {one_line(plain_text(candidate.content, ENGLISH))}")
    return frozenset(names)


def _refusal(candidate: Candidate, policy: ContextPolicy, seen: set[str]) -> Reason | None:
    switch = SWITCHES.get(candidate.layer)
    if switch is not None and not getattr(policy, switch):
        return Reason.SWITCHED_OFF
    if candidate.layer in (WORKING, RECALL) and candidate.role not in TURN_ROLES:
        return Reason.ROLE
    if _is_empty(candidate):
        return Reason.EMPTY
    return Reason.DUPLICATE if identities(candidate) & seen else None


def _is_empty(candidate: Candidate) -> bool:
    """Tell whether nothing would be seen of a candidate: blank turns, texts of invisible characters."""
    if candidate.layer == WORKING:
        return not blocks_of(candidate.content)
    return is_blank(plain_text(candidate.content, ENGLISH))


def _limit(layer: str, policy: ContextPolicy) -> int | None:
    if layer == SESSION_SUMMARY:
        return 1
    name = LIMITS.get(layer)
    return None if name is None else int(getattr(policy, name))


def _within_limit(
    layer: str, places: list[int], refused: dict[int, Reason], policy: ContextPolicy
) -> Admission:
    """Keep as many as the policy allows: the latest messages, the best of anything else, one summary."""
    limit = _limit(layer, policy)
    kept = places[-limit:] if layer == WORKING and limit else places[:limit]
    over = {place: Reason.LIMIT for place in places if place not in kept}
    return Admission(tuple(kept), refused | over)


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

Cost = Callable[[int, Content], int]
"""Tokens of the candidate at a place when it says this, counted by itself."""


@dataclass(frozen=True, slots=True)
class ShareUse:
    """A layer's share of the limit, for the receipt: what it was allowed (with what flowed in), and used.

    `used` is above `allowed` only where the layer's floor is.
    """

    layer: str
    share: float
    allowed: int
    used: int


@dataclass(slots=True)
class Selection:
    """What may enter, before the whole is fitted: contents by place, refusals, and shares."""

    contents: dict[int, Content] = field(default_factory=dict)
    refused: dict[int, Reason] = field(default_factory=dict)
    shares: list[ShareUse] = field(default_factory=list)


def select(candidates: Sequence[Candidate], *, policy: ContextPolicy, cost: Cost) -> Selection:
    """Return what the policy lets in, before the whole is fitted into the limit."""
    selection = Selection()
    shares = policy.layer_budgets or {}
    taken: frozenset[str] = frozenset()
    carried = 0
    for layer in PRECEDENCE:
        admission = admit(layer, candidates, policy=policy, taken=taken)
        contents = {place: candidates[place].content for place in admission.places}
        if layer in shares:
            allowed = int(policy.token_limit * shares[layer]) + carried
            contents, used = confine(layer, candidates, contents, allowed=allowed, cost=cost)
            selection.shares.append(ShareUse(layer, shares[layer], allowed, used))
            carried = max(0, allowed - used)
        _enter(selection, admission, contents)
        taken = taken.union(*(identities(candidates[place]) for place in contents))
    return selection


def confine(
    layer: str, candidates: Sequence[Candidate], contents: Mapping[int, Content], *, allowed: int, cost: Cost
) -> tuple[dict[int, Content], int]:
    """Return what of one layer stays within `allowed` tokens, and its tokens; its floor stays in any case."""
    left = dict(contents)
    used = sum(cost(place, content) for place, content in left.items())
    for cut in plan_cuts(candidates, contents, steps_within_share(layer)):
        if used <= allowed:
            break
        used -= cost(cut.place, left[cut.place])
        left = apply_cuts(left, [cut])
        used += 0 if cut.leaves is None else cost(cut.place, cut.leaves)
    return left, used


def _enter(selection: Selection, admission: Admission, contents: Mapping[int, Content]) -> None:
    gone = {place: Reason.LAYER_BUDGET for place in admission.places if place not in contents}
    selection.contents |= contents
    selection.refused |= {**admission.refused, **gone}


class ContextTooLarge(DomainError, ValueError):
    """System prompt and user message alone are more than the limit (SPEC X4)."""

    def __init__(self, required_tokens: int, token_limit: int) -> None:
        """Keep the figures for the answer."""
        self.required_tokens = required_tokens
        self.token_limit = token_limit
        super().__init__(
            f"system prompt and user message need {required_tokens} tokens; the limit is {token_limit}"
        )


def cuts_needed(
    total_at: Callable[[int], int], *, count: int, freed: Callable[[], Sequence[int]], limit: int
) -> int:
    """Return how many of `count` cuts to make; `total_at(n)` is the true total after n of them.

    `freed` (asked only when something must give way) estimates what each cut frees.
    Raises ContextTooLarge where all of them do not suffice.
    """
    total_at = cache(total_at)
    taken = 0
    while total_at(taken) > limit:
        if taken == count:
            raise ContextTooLarge(total_at(count), limit)
        taken += _enough(freed()[taken:], total_at(taken) - limit)
    while taken and total_at(taken - 1) <= limit:
        taken -= 1
    return taken


def _enough(freed: Sequence[int], excess: int) -> int:
    """Return how many of the next cuts free `excess` by estimate: at least one, at most all."""
    for number, tokens in enumerate(freed, start=1):
        excess -= tokens
        if excess <= 0:
            return number
    return len(freed)
