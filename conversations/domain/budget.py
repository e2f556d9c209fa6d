"""Select what enters a context: admission, shares per layer, and the cuts that fit the token limit (SPEC X3).

The order of cuts does not depend on token counts: all cuts, from the full context to an empty one, are one list, and
fitting a limit means to find how many of them are needed. As counting a written context is expensive, estimates per cut
guide the search, and the true total decides. Every rejection has a stable code that receipts show (SPEC X9).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from conversations.domain.content import (
    Content,
    attachment_reductions,
    blocks_of,
    has_tools,
    one_line,
    plain_text,
    sections_of,
    shortened_results,
)
from conversations.domain.formats import PromptWriter
from conversations.domain.layers import (
    BY_NAME,
    PINNED,
    PRECEDENCE,
    PROFILE,
    PROJECT,
    RECALL,
    SEMANTIC,
    SESSION_SUMMARY,
    STABLE,
    WORKING,
    Candidate,
    Contents,
)
from conversations.domain.passages import passages
from conversations.domain.policy import ContextPolicy
from memoryhub.errors import DomainError
from memoryhub.look_alikes import is_blank


class CutOrder(StrEnum):
    DOUBTED = "quoted messages of untrusted writers, oldest first"
    ATTACHMENTS = "images and files become a word, oldest message first"
    RESULTS = "long results of tools keep their beginning and end, oldest first"
    SECTIONS = "last Markdown section of the last document first, its title and first section longest"
    LEAST_RELEVANT = "least relevant first"
    OLDEST = "oldest first"
    SHORTENED = "long ones of earlier sessions keep their beginning, oldest first"
    EARLIER = "those of earlier sessions, oldest first"
    LAST = "last (weakest) first"


@dataclass(frozen=True, slots=True)
class CutStep:
    """One step of `CUT_ORDER`: `layer` shrinks in `order` down to `floor` entries."""

    layer: str
    order: CutOrder
    floor: int = 0
    breaks_floor: bool = False


CUT_ORDER: Final = (
    CutStep(WORKING, CutOrder.DOUBTED),
    CutStep(WORKING, CutOrder.ATTACHMENTS),
    CutStep(WORKING, CutOrder.RESULTS),
    CutStep(SESSION_SUMMARY, CutOrder.LAST),
    CutStep(PROJECT, CutOrder.SECTIONS),
    CutStep(WORKING, CutOrder.SHORTENED),
    CutStep(WORKING, CutOrder.EARLIER, floor=2),
    CutStep(RECALL, CutOrder.LEAST_RELEVANT, floor=5),
    CutStep(PROFILE, CutOrder.LAST),
    CutStep(SEMANTIC, CutOrder.LEAST_RELEVANT, floor=1),
    CutStep(WORKING, CutOrder.OLDEST, floor=4),
    CutStep(RECALL, CutOrder.LEAST_RELEVANT),
    CutStep(WORKING, CutOrder.OLDEST, floor=2),
    CutStep(SEMANTIC, CutOrder.LEAST_RELEVANT, floor=0, breaks_floor=True),
    CutStep(WORKING, CutOrder.OLDEST, floor=0, breaks_floor=True),
    CutStep(PINNED, CutOrder.LAST),
)
"""In order; a step begins when the one before has nothing left to cut. System prompt and user message are never cut."""

STABLE_FIRST: Final = (*STABLE, *(layer for layer in PRECEDENCE if layer not in STABLE))
"""Precedence in contexts with a stable block, which does not depend on what the message finds."""

MAX_EARLIER_BYTES: Final = 600
"""Bytes that a shortened message keeps, about 150 tokens."""


class Reason(StrEnum):
    INCLUDED = "included"
    TRIMMED = "trimmed"
    OVER_BUDGET = "over_budget"
    TOO_LARGE = "too_large"
    LAYER_BUDGET = "layer_budget"
    LIMIT = "limit"
    DUPLICATE = "duplicate"
    REPEATS_OMITTED = "repeats_omitted"
    EMPTY = "empty"
    SWITCHED_OFF = "switched_off"
    ROLE = "role"
    ORPHAN = "orphan"


COMPRESSION_REASONS: Final = frozenset({Reason.TRIMMED, Reason.OVER_BUDGET, Reason.TOO_LARGE, Reason.LAYER_BUDGET})
"""Reasons that indicate a shortage of tokens."""


class ContextTooLarge(DomainError, ValueError):
    """System prompt and user message alone are more than the limit (SPEC X4)."""

    code = "context_too_large"

    def __init__(self, required_tokens: int, token_limit: int) -> None:
        self.required_tokens = required_tokens
        self.token_limit = token_limit
        self.members = {"required_tokens": required_tokens, "token_limit": token_limit}
        super().__init__(f"system prompt and user message need {required_tokens} tokens; the limit is {token_limit}")


@dataclass(frozen=True, slots=True)
class ShareUse:
    """A layer's share of the limit, and its allowed tokens, including unused ones of others, and used tokens."""

    layer: str
    share: float
    allowed: int
    used: int


@dataclass(frozen=True, slots=True)
class Selection:
    """The contents that enter by place among the candidates, and the reason for every place."""

    contents: Contents
    reasons: Mapping[int, Reason]
    shares: Sequence[ShareUse]


@dataclass(frozen=True, slots=True)
class Cut:
    """One cut: the candidate at `place` is reduced to `leaves`, or removed (None)."""

    place: int
    leaves: Content | None


def select_within_budget(writer: PromptWriter) -> Selection:
    """Return the largest selection within the token limit. Raises ContextTooLarge if even an empty one exceeds it."""
    candidates, limit = writer.candidates, writer.frame.policy.token_limit
    identities = [_identities(candidate) for candidate in candidates]
    contents, reasons, shares = _admit_layers(writer, identities)
    orphans = contents.keys() - without_orphans(candidates, contents).keys()
    for place in orphans:
        del contents[place]
        reasons[place] = Reason.ORPHAN
    fitted: Contents = contents
    if writer.total(contents) > limit:
        # Otherwise one huge message would displace all others.
        available = limit - writer.total({})
        too_large = [
            place
            for place, content in contents.items()
            if candidates[place].layer != PROJECT  # its text is cut section by section
            and not candidates[place].is_current
            and writer.cost(place, shortened_results([content, *attachment_reductions(content)][-1])) > available
        ]
        for place in too_large:
            del contents[place]
            reasons[place] = Reason.TOO_LARGE
        fitted = _fit(contents, limit, writer)
    for place in contents:
        if place not in fitted:
            reasons[place] = Reason.OVER_BUDGET
        elif fitted[place] == candidates[place].content:
            reasons[place] = Reason.INCLUDED
        else:
            reasons[place] = Reason.TRIMMED
    for place in _false_repeats(candidates, reasons, identities, fitted):
        reasons[place] = Reason.REPEATS_OMITTED
    return Selection(fitted, reasons, shares)


def _false_repeats(
    candidates: Sequence[Candidate],
    reasons: Mapping[int, Reason],
    identities: Sequence[frozenset[str]],
    fitted: Contents,
) -> list[int]:
    """Return the duplicates of what was left out after all; those of the profile are in no receipt."""
    included = frozenset[str]().union(*(identities[place] for place in fitted))
    return [
        place
        for place, reason in reasons.items()
        if reason == Reason.DUPLICATE and candidates[place].layer != PROFILE and not identities[place] & included
    ]


def _admit_layers(
    writer: PromptWriter, identities: Sequence[frozenset[str]]
) -> tuple[dict[int, Content], dict[int, Reason], list[ShareUse]]:
    """Admit the layers by precedence, each within its share of the tokens, if set.

    Of duplicates the layer with precedence keeps its own; unused tokens of a share are added to the next.
    """
    candidates, policy = writer.candidates, writer.frame.policy
    admitted: dict[int, Content] = {}
    reasons: dict[int, Reason] = {}
    shares: list[ShareUse] = []
    budgets = policy.layer_budgets or {}
    known: frozenset[str] = frozenset()
    unused = 0
    for layer in STABLE_FIRST if policy.has_stable_block else PRECEDENCE:
        places, rejected = _admit(layer, known, identities, writer)
        contents = {place: candidates[place].content for place in places}
        if layer in budgets:
            allowed = int(policy.token_limit * budgets[layer]) + unused
            contents, used = _limit_to_share(layer, contents, allowed, writer)
            shares.append(ShareUse(layer, budgets[layer], allowed, used))
            unused = max(0, allowed - used)
        reasons |= rejected | {place: Reason.LAYER_BUDGET for place in places if place not in contents}
        admitted |= contents
        known = known.union(*(identities[place] for place in contents))
    return admitted, reasons, shares


def _admit(
    layer: str, known: frozenset[str], identities: Sequence[frozenset[str]], writer: PromptWriter
) -> tuple[list[int], dict[int, Reason]]:
    """Return the admitted places of a layer, and the reasons for the others; `known` are identities admitted before.

    Limits apply after all other rules: the latest messages, the best of other layers, one summary; of the profile and
    of recall as many entries as their tokens allow.
    """
    candidates, policy = writer.candidates, writer.frame.policy
    rejected: dict[int, Reason] = {}
    places: list[int] = []
    seen = set(known)
    for place, candidate in enumerate(candidates):
        if candidate.layer != layer:
            continue
        reason = _rejection_reason(candidate, policy) or (Reason.DUPLICATE if identities[place] & seen else None)
        if reason is None:
            places.append(place)
            seen |= identities[place]
        else:
            rejected[place] = reason
    if layer == WORKING:
        current = [place for place in places if candidates[place].is_current]
        # With caching, messages of earlier sessions are additional.
        limit = policy.most_turns + (policy.working_memory_limit if policy.cache else 0)
        kept = [*_latest_turns(places[: len(places) - len(current)], candidates, limit), *current]
    else:
        most = BY_NAME[layer].max_entries
        kept = places[: getattr(policy, most) if isinstance(most, str) else most]
        if max_tokens := BY_NAME[layer].max_tokens:
            kept = _select_within(getattr(policy, max_tokens), kept, writer)
    return kept, rejected | {place: Reason.LIMIT for place in places if place not in kept}


def _latest_turns(places: Sequence[int], candidates: Sequence[Candidate], limit: int) -> list[int]:
    """Return the latest `limit` turns, and as many quotes of untrusted writers since the first of them, in order.

    What the client shows is the conversation, whatever the limit.
    """
    if any(candidates[place].is_shown for place in places):
        return list(places)
    turns = [place for place in places if not candidates[place].is_doubted][-limit:]
    quotes = [place for place in places if candidates[place].is_doubted and (not turns or place > turns[0])][-limit:]
    return sorted([*turns, *quotes])


def _select_within(limit: int, places: Sequence[int], writer: PromptWriter) -> list[int]:
    """Return the places that fit into `limit` tokens, in order; an entry too long is skipped for shorter ones."""
    kept: list[int] = []
    for place in places:
        cost = writer.cost(place, writer.candidates[place].content)
        if cost <= limit:
            kept.append(place)
            limit -= cost
    return kept


def _rejection_reason(candidate: Candidate, policy: ContextPolicy) -> Reason | None:
    layer = BY_NAME[candidate.layer]
    if layer.switch and not getattr(policy, layer.switch):
        return Reason.SWITCHED_OFF
    if layer.kind == "message" and candidate.role not in ("user", "assistant"):
        return Reason.ROLE
    content = candidate.content
    if not blocks_of(content) or (candidate.layer != WORKING and is_blank(plain_text(content, "en"))):
        return Reason.EMPTY
    return None


def _identities(candidate: Candidate) -> frozenset[str]:
    """Return the keys by which duplicates are recognised: the id, for a memory also its text on one line.

    A line of a written profile is a duplicate of each of its source memories.
    """
    kind = BY_NAME[candidate.layer].kind
    ids = [candidate.source_id] if candidate.memory_ids is None else candidate.memory_ids
    keys = {f"{kind} {each}" for each in ids if each is not None}
    if kind == "memory":
        keys.add(f"text {one_line(plain_text(candidate.content, 'en'))}")
    return frozenset(keys)


def _limit_to_share(
    layer: str, contents: Contents, allowed: int, writer: PromptWriter
) -> tuple[dict[int, Content], int]:
    """Return a layer's contents cut to `allowed` tokens, but not below its floor, and their tokens."""
    left = dict(contents)
    used = sum(writer.cost(place, content) for place, content in left.items())
    for cut in plan_cuts(writer.candidates, contents, steps_within_share(layer)):
        if used <= allowed:
            break
        used -= writer.cost(cut.place, left[cut.place])
        left = apply_cuts(left, [cut])
        used += 0 if cut.leaves is None else writer.cost(cut.place, cut.leaves)
    return left, used


def _fit(contents: Contents, limit: int, writer: PromptWriter) -> dict[int, Content]:
    """Return the contents after the fewest cuts with which the written context fits."""
    candidates = writer.candidates
    cuts = plan_cuts(candidates, contents)

    @cache
    def freed() -> list[int]:
        left = {place: writer.cost(place, content) for place, content in contents.items()}
        estimates = []
        for cut in cuts:
            rest = 0 if cut.leaves is None else writer.cost(cut.place, cut.leaves)
            estimates.append(left[cut.place] - rest)
            left[cut.place] = rest
        return estimates

    def left_after(number: int) -> dict[int, Content]:
        return without_orphans(candidates, apply_cuts(contents, cuts[:number]))

    def total_at(number: int) -> int:
        return writer.total(left_after(number))

    return left_after(cuts_needed(total_at, count=len(cuts), freed=freed, limit=limit))


def without_orphans(candidates: Sequence[Candidate], contents: Contents) -> dict[int, Content]:
    """Return contents whose conversation does not begin with an answer to a message that is missing."""
    left = dict(contents)
    for place in sorted(place for place in contents if candidates[place].layer == WORKING):
        if not candidates[place].is_answer or candidates[place].is_current:
            break
        del left[place]
    return left


def cuts_needed(total_at: Callable[[int], int], *, count: int, freed: Callable[[], Sequence[int]], limit: int) -> int:
    """Return the least number of `count` cuts that fits; `total_at(n)` is the true total after n of them.

    `freed` (called only if a cut is needed) estimates the tokens that each cut frees. Raises ContextTooLarge if all of
    them do not suffice.
    """
    total_at = cache(total_at)
    made = 0
    while total_at(made) > limit:
        if made == count:
            raise ContextTooLarge(total_at(count), limit)
        excess = total_at(made) - limit
        for tokens in freed()[made:]:
            made += 1
            excess -= tokens
            if excess <= 0:
                break
    while made and total_at(made - 1) <= limit:
        made -= 1
    return made


def plan_cuts(
    candidates: Sequence[Candidate], contents: Contents, steps: Iterable[CutStep] = CUT_ORDER
) -> tuple[Cut, ...]:
    """Return all cuts of the steps, in order."""
    cuts: list[Cut] = []
    left = dict(contents)
    for step in steps:
        places = [place for place in left if candidates[place].layer == step.layer]
        new = list(_cuts_of_step(step, places, candidates, left))
        left = apply_cuts(left, new)
        cuts += new
    return tuple(cuts)


def _cuts_of_step(step: CutStep, places: list[int], candidates: Sequence[Candidate], left: Contents) -> Iterator[Cut]:
    if step.order == CutOrder.RESULTS:
        shorter = {place: shortened_results(left[place]) for place in places}
        yield from (Cut(place, content) for place, content in shorter.items() if content != left[place])
    elif step.order == CutOrder.ATTACHMENTS:
        yield from (Cut(place, content) for place in places for content in attachment_reductions(left[place]))
    elif step.order == CutOrder.SHORTENED:
        for place in places:
            text = plain_text(left[place], "en")
            beginning = passages(text, {}, limit=MAX_EARLIER_BYTES)
            is_shorter = beginning != text or has_tools(left[place])
            if candidates[place].is_earlier and is_shorter:
                yield Cut(place, beginning)
    elif step.order == CutOrder.SECTIONS:
        for place in reversed(places):
            sections = sections_of(plain_text(left[place], "en"))
            beginnings = ("".join(sections[:kept]) for kept in range(len(sections) - 1, 0, -1))
            yield from (Cut(place, text) for text in beginnings if not is_blank(text))
            yield Cut(place, None)
    else:
        places = [place for place in places if not candidates[place].is_current]
        if step.order == CutOrder.LAST:
            places = places[::-1]
        elif step.order == CutOrder.LEAST_RELEVANT:
            # By relevance alone: the layer's order includes strength and recency.
            relevance = {place: candidates[place].relevance for place in places}
            places = sorted(places, key=lambda place: (-1.0 if relevance[place] is None else relevance[place], -place))
        going = places[: max(0, len(places) - step.floor)]
        for place in going:
            is_kept = (step.order == CutOrder.EARLIER and not candidates[place].is_earlier) or (
                step.order == CutOrder.DOUBTED and not candidates[place].is_doubted
            )
            if not is_kept:
                yield Cut(place, None)


def apply_cuts(contents: Contents, cuts: Iterable[Cut]) -> dict[int, Content]:
    left = dict(contents)
    for cut in cuts:
        if cut.leaves is None:
            del left[cut.place]
        else:
            left[cut.place] = cut.leaves
    return left


def steps_within_share(layer: str) -> tuple[CutStep, ...]:
    """Return the steps that confine `layer` alone to its share: as in the table, never below its floor."""
    return tuple(step for step in CUT_ORDER if step.layer == layer and not step.breaks_floor)
