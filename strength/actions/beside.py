"""What stands beside a memory's curated values; kept with each revision, so that it can be taken back whole."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from strength.actions.decisions import decision_kept
from strength.domain.memories import content_digest
from strength.models import Memory

TRUST: Final = "trust"
SUPERSEDES: Final = "supersedes"
STRENGTH: Final = "strength"
DECISIONS: Final = "decisions"


def stood_beside(memory: Memory, texts: Iterable[str]) -> dict[str, Any]:
    """Return what stands beside a memory's curated values, as JSON types: ids, states and decisions, no text.

    The decisions are those against exactly these texts, by digests that tell nothing of them.
    """
    kept = {
        content_digest(text).hex(): decision
        for text in set(texts)
        if (decision := decision_kept(actor_id=memory.actor_id, text=text)) is not None
    }
    return {
        TRUST: memory.trust,
        SUPERSEDES: [str(key) for key in memory.supersedes or []],
        **({DECISIONS: kept} if kept else {}),
    }


def decided_about(beside: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the decisions that stood, by the digests of their texts."""
    found: Mapping[str, Any] = beside.get(DECISIONS, {})
    return found
