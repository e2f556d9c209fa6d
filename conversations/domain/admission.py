"""Who may enter at all, before tokens are looked at: switches, roles, empty texts, duplicates, limits.

Every refusal has a stable code that a receipt shows (SPEC X9).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from conversations.domain.cleaning import is_blank, one_line
from conversations.domain.contents import blocks_of, plain_text
from conversations.domain.layers import (
    PINNED,
    PROJECT,
    RECALL,
    SEMANTIC,
    SESSION_SUMMARY,
    WORKING,
    Candidate,
)
from conversations.domain.phrases import ENGLISH
from conversations.domain.policy import ContextPolicy


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
