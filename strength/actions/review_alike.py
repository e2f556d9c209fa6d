"""Pending memories with the wording and the reasons of another, so that one decision takes them all (SPEC W12)."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db.models.functions import Left

from memoryhub.auth.screening import Screening
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import Trust, TrustPolicy
from strength.actions.review import pending_memories
from strength.actions.revisions import DOUBT, RESEMBLES, UNCOMPARED, state_revision
from strength.actions.tombstones import find_tombstone
from strength.domain.review import PendingReason, masked_wording, pending_reasons
from strength.models import Memory, Tombstone

MAX_ALIKE: Final = 100
"""Memories that one decision takes."""
MAX_COMPARED: Final = 1_000
"""Pending memories of the actor that are compared, the oldest first."""
MAX_WORDING_LENGTH: Final = 2_000
"""Characters of a text that is compared; a longer one is decided alone."""

EQUAL_FIELDS: Final = (
    "actor_id", "kind", "namespace", "tags", "scope_level", "scope_domain", "scope_project", "valid_from", "valid_to",
    "source", "channel", "trust", "learnings", "metadata", "supersedes",
)  # fmt: skip
"""Where a memory comes from, and what an approval makes effective with the text."""
DECIDED_ALONE: Final = frozenset({PendingReason.DECIDED_AGAINST, PendingReason.RESEMBLES})
"""Reasons that name a former decision; each needs its own."""


@dataclass(frozen=True)
class Waiting:
    """Reasons why a memory is pending, and the values that their sentences name."""

    reasons: list[PendingReason]
    beside: Mapping[str, Any]
    tombstone: Tombstone | None


def why_pending(memory: Memory) -> Waiting:
    """Return why a memory is pending, the gravest reason first."""
    policy, sources = effective_policy(TrustPolicy, memory.agent, memory.actor), memory.source_rows
    has_untrusted_source = policy.doubts(memory.channel) or any(
        source.trust == Trust.UNTRUSTED or policy.doubts(source.channel) for source in sources
    )
    latest = state_revision(memory)
    beside = latest.beside if latest is not None else {}
    tombstone = find_tombstone(actor_id=memory.actor_id, text=memory.content)
    reasons = pending_reasons(
        is_trusted=memory.trust == Trust.TRUSTED,
        has_untrusted_source=has_untrusted_source,
        confidence=memory.confidence,
        confidence_floor=policy.confidence_floor,
        contradicts=bool(memory.supersedes),
        was_decided_against=tombstone is not None,
        resembles=RESEMBLES in beside,
        is_uncompared=UNCOMPARED in beside,
        last_verb=latest.verb if latest is not None else "",
        has_secret=Screening(memory.actor).withholds(memory.content),
        is_ungrounded=DOUBT in beside,
    )
    return Waiting(reasons, beside, tombstone)


def alike_memories(memory: Memory) -> list[Memory]:
    """Return a pending memory, then those alike, the oldest first; at most MAX_ALIKE + 1.

    Alike are pending memories of the same actor with the same text apart from numbers, case, width and spaces, and with
    equal EQUAL_FIELDS, strengths, sources' channels and trust, and reasons.
    """
    wording = masked_wording(memory.content)
    equal = {name: getattr(memory, name) for name in EQUAL_FIELDS}
    rows = pending_memories().filter(**equal).order_by("created_at", "pk")
    opened = rows.values_list("pk", Left("content", MAX_WORDING_LENGTH + 1))[:MAX_COMPARED]
    keys = [key for key, text in opened if len(text) <= MAX_WORDING_LENGTH and masked_wording(text) == wording]
    loaded = loaded_memories([memory.pk, *(key for key in keys if key != memory.pk)])
    if not loaded or loaded[0].pk != memory.pk:  # deleted in the meantime
        return []
    values, reasons = _other_values(loaded[0]), why_pending(loaded[0]).reasons
    alike = loaded[:1]
    for other in loaded[1:]:
        if len(alike) > MAX_ALIKE or DECIDED_ALONE & set(reasons):
            break
        if _other_values(other) == values and why_pending(other).reasons == reasons:
            alike.append(other)
    return alike


def loaded_memories(keys: Collection[Any]) -> list[Memory]:
    """Return memories with numbers, sources and agent, in the order of their keys."""
    rows = Memory.objects.with_numbers().select_related("actor__agent", "actor__sleep_state").filter(pk__in=keys)
    by_key = {row.pk: row for row in rows}
    return [by_key[key] for key in keys if key in by_key]


def shape_of(memory: Memory) -> bytes:
    """Return a digest of the wording and the values that memories alike have in common, but for the reasons."""
    fields = [str(getattr(memory, name)) if name == "actor_id" else getattr(memory, name) for name in EQUAL_FIELDS]
    strength, perspectives, sources = _other_values(memory)
    values = [masked_wording(memory.content), fields, strength, perspectives, sorted(sources)]
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).digest()


def _other_values(memory: Memory) -> tuple[Any, ...]:
    """Return the values in other tables: strengths as written, and channels and trust of the sources."""
    perspectives = {each.perspective: each.strength for each in memory.perspective_rows}
    sources = {(source.channel, source.trust) for source in memory.source_rows}
    return memory.numbers.strength, perspectives, sources
