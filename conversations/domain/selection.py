"""Let the layers in, dearest first: admission, then each layer's own share of the tokens where one is set.

The order matters twice: a dearer layer keeps what two of them offer, and what it leaves of its share
flows on to the next.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from conversations.domain.admission import Admission, Reason, admit, identities
from conversations.domain.giving_way import apply_cuts, plan_cuts
from conversations.domain.layers import (
    PRECEDENCE,
    Candidate,
    Content,
    steps_within_share,
)
from conversations.domain.policy import ContextPolicy

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
