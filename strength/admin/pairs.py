"""Two memories side by side, as the merges' pages and the review queue show them, and what they would be as one."""

from typing import Any, Final
from uuid import UUID

from django.db.models import Count, Q
from django.http import HttpRequest

from memoryhub.admin.base import clock
from memoryhub.admin.differences import Piece, Row, aligned
from memoryhub.tenancy.policies import effective_policy
from strength.actions.merging import is_as_compared
from strength.admin.shown import may_read_memories
from strength.admin.words import STATUSES
from strength.domain.merging import MergeState, joined
from strength.domain.policy import StrengthPolicy
from strength.domain.strength import Numbers
from strength.models import Memory, Merge, NumbersOfMemory

LONGEST_SHOWN: Final = 20_000


def merge_of(key: UUID, actor_id: UUID) -> Merge:
    """Return a merge with both memories and what is shown of them."""
    return Merge.objects.with_memories().select_related("actor__agent").get(pk=key, actor_id=actor_id)


def pair_of(request: HttpRequest, merge: Merge) -> dict[str, Any]:
    """Return both memories of a merge, what each says alone, and what the one that stays will have."""
    kept, absorbed = merge.kept, merge.absorbed
    reads = may_read_memories(request)
    rows = aligned(kept.content, absorbed.content) if reads else None
    return {
        "sides": [
            _side(kept, merge.kept_version, is_kept=True),
            _side(absorbed, merge.absorbed_version, is_kept=False),
        ],
        "rows": rows
        if rows is not None
        else [Row(_whole(kept.content), _whole(absorbed.content))]
        if reads
        else [],
        "reads_memories": reads,
        "is_compared": rows is not None,
        "is_cut": reads and max(len(kept.content), len(absorbed.content)) > LONGEST_SHOWN,
        "is_outdated": merge.state == MergeState.PROPOSED and not is_as_compared(merge, clock()),
        "as_one": _as_one(merge),
    }


def other_merges(merge: Merge) -> dict[str, int]:
    """Return how many further open proposals are about the one that goes; they are withdrawn then.

    By who stays: the one that was proposed to stay, or the other.
    """
    open_ = Merge.objects.filter(actor_id=merge.actor_id, state=MergeState.PROPOSED).exclude(pk=merge.pk)
    about = {
        "as_proposed": Q(kept_id=merge.absorbed_id) | Q(absorbed_id=merge.absorbed_id),
        "turned": Q(kept_id=merge.kept_id) | Q(absorbed_id=merge.kept_id),
    }
    return open_.aggregate(**{name: Count("pk", filter=either) for name, either in about.items()})


def _whole(text: str) -> list[Piece]:
    ending = "…" if len(text) > LONGEST_SHOWN else ""
    return [Piece(text[:LONGEST_SHOWN] + ending, own=False)]


def _side(memory: Memory, version: int, *, is_kept: bool) -> dict[str, Any]:
    return {
        "memory": memory,
        "status": STATUSES.get(memory.status, memory.status),
        "numbers": memory.numbers,
        "is_kept": is_kept,
        "place": "one" if is_kept else "other",
        "sources": len(memory.sources.all()),
        "compared_version": version,
        "was_changed": memory.version != version,
    }


def _as_one(merge: Merge) -> dict[str, Any]:
    """Return the numbers, tags and sources of the one that stays, whichever of the two that is."""
    kept, absorbed = merge.kept, merge.absorbed
    policy = effective_policy(StrengthPolicy, merge.actor.agent, merge.actor)
    numbers = joined(_numbers(kept.numbers), _numbers(absorbed.numbers), policy)
    messages = {source.message_id for memory in (kept, absorbed) for source in memory.sources.all()}
    return {
        "numbers": numbers,
        "sources": len(messages),
        "tags": list(dict.fromkeys([*kept.tags, *absorbed.tags])),
    }


def _numbers(row: NumbersOfMemory) -> Numbers:
    return Numbers(row.strength, row.access_count, row.impact_score, row.consolidation_level, row.faded)
