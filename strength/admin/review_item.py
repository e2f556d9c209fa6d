"""Page context of one review item: a pending memory with its reasons, or a merge proposal (SPEC W2)."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final

from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.admin.doubts import doubt_label
from memoryhub.admin.base import excerpt, truncated
from memoryhub.admin.diff import Marked, shared_words
from memoryhub.tenancy.namespaces import expand_namespace
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import TrustPolicy
from strength.actions.review import near_memories
from strength.actions.review_alike import Waiting, why_pending
from strength.actions.revisions import DOUBT, RESEMBLES
from strength.actions.tombstones import decision_about
from strength.admin.labels import DECISION_LABELS, FIELD_LABELS, similarity_label
from strength.admin.memory_detail import MAX_QUOTE_LENGTH, source_messages
from strength.admin.merges import MAX_SHOWN_LENGTH, count_conflicting_merges, get_merge, pair_context
from strength.admin.review_team import team_context
from strength.admin.tombstones import decision_sentence
from strength.domain.memories import Kind, ScopeLevel, Source, TombstoneReason, default_namespace
from strength.domain.policy import StrengthPolicy
from strength.domain.review import Item, PendingReason
from strength.domain.strength import initial_strength
from strength.models import Memory, Merge, Tombstone

MAX_SOURCES: Final = 5
MAX_SUPERSEDED: Final = 10
REVIEWED_FIELDS: Final = (
    "namespace", "tags", "scope_level", "scope_domain", "scope_project", "valid_from", "valid_to", "learnings",
    "metadata", "cues", "strength",
)  # fmt: skip
"""With text, kind, channel and confidence, which the page shows elsewhere."""

PENDING_REASON_LABELS: Final[Mapping[PendingReason, Any]] = {
    PendingReason.UNTRUSTED_SOURCE: _("It comes from a channel or a message that is not trusted."),
    PendingReason.UNTRUSTED_WRITER: _("It was written through a key, or in a channel, that is not trusted."),
    PendingReason.DECIDED_AGAINST: _("A person has deleted, rejected or edited a memory with this content."),
    PendingReason.RESEMBLES: _("It resembles a text that a person {decided} on {day}."),
    PendingReason.UNCOMPARED: _("No model has compared it yet with texts that people rejected or edited."),
    PendingReason.RETURNED: _("A person archived it, and it was written again."),
    PendingReason.LOST_SOURCE: _("A message that it comes from was deleted."),
    PendingReason.TO_BE_FORGOTTEN: _("The user asked that it be forgotten."),
    PendingReason.SENSITIVE: _("It seems to state a password or to hold a secret."),
    PendingReason.UNGROUNDED: _("The messages that it comes from do not support it."),
    PendingReason.CONTRADICTS: _("It contradicts an active memory."),
    PendingReason.UNSURE: _("The extraction from the conversation was not confident enough."),
    PendingReason.ASKED: _("It was stored as pending on request."),
}


def item_context(request: HttpRequest, item: Item, text: str | None) -> dict[str, Any] | None:
    """Return the page context of an item, with the text that was typed for it; None if it is gone."""
    if item.is_merge:
        return _merge_context(request, item)
    memory = Memory.objects.with_numbers().select_related("actor__agent").filter(pk=item.key).first()
    if memory is None:
        return None
    policy = effective_policy(TrustPolicy, memory.agent, memory.actor)
    why, sources = why_pending(memory), memory.source_rows
    rows = Memory.objects.of([memory.actor_id]).active().filter(superseded_by=None)
    superseded = list(rows.filter(pk__in=memory.supersedes or []).order_by("pk")[:MAX_SUPERSEDED])
    return {
        "memory": memory,
        "actor": memory.actor,
        "opening": memory.content[:MAX_SHOWN_LENGTH],
        "is_cut": len(memory.content) > MAX_SHOWN_LENGTH,
        "text": text,
        "is_edited": text is not None,
        "reasons": _reason_labels(request, memory, why),
        "is_only_unsure": why.reasons == [PendingReason.UNSURE],
        "values": values_with_approval(memory),
        **team_context(request, item, memory),
        "confidence": memory.confidence,
        "confidence_floor": policy.confidence_floor,
        "sources": [
            {**source, "marked": _highlighted(source["message"], memory)}
            for source in source_messages(request, memory, sources[:MAX_SOURCES])
        ],
        "sources_left_out": max(0, len(sources) - MAX_SOURCES),
        "ended": [(old, excerpt(old.content, 400)) for old in superseded],
        "near": [
            {
                "memory": other,
                "alike": similarity_label(relevance),
                "is_ended": other in superseded,
                "marked": shared_words(truncated(other.content, 300), memory.content[:MAX_SHOWN_LENGTH]),
            }
            for other, relevance in near_memories(memory, now=timezone.now())
        ],
    }


def _merge_context(request: HttpRequest, item: Item) -> dict[str, Any] | None:
    actor_id = Merge.objects.filter(pk=item.key).values_list("actor_id", flat=True).first()
    if actor_id is None:
        return None
    proposal = get_merge(item.key, actor_id)
    return {
        "proposal": proposal,
        "actor": proposal.actor,
        "alike": similarity_label(proposal.likeness),
        "others": count_conflicting_merges(proposal),
        **team_context(request, item, proposal),
        **pair_context(request, proposal),
    }


def values_with_approval(memory: Memory) -> list[tuple[Any, str]]:
    """Return label and value of what an approval puts into force besides the text, where it is not the default."""
    agent, defaults = memory.agent, effective_policy(StrengthPolicy, memory.agent, memory.actor)
    namespace = expand_namespace(
        default_namespace(Kind(memory.kind)), agent_id=memory.actor.agent_id, user_id=memory.actor.user_id
    )
    usual = {
        "namespace": namespace,
        "scope_level": ScopeLevel.PROJECT,
        "scope_project": agent.current_project if memory.scope_level == ScopeLevel.PROJECT else "",
        "scope_domain": "",
        "strength": initial_strength(defaults, source=Source(memory.source), stated=None),
    }
    values = {
        **{name: getattr(memory, name) for name in REVIEWED_FIELDS},
        "perspectives": {each.perspective: each.strength for each in memory.perspective_rows},
    }
    return [
        (FIELD_LABELS[name], _shown(value))
        for name, value in values.items()
        if value not in (None, "", [], {}) and value != usual.get(name)
    ]


def _shown(value: Any) -> str:
    if isinstance(value, datetime):
        return date_format(timezone.localtime(value), "DATETIME_FORMAT")
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, dict):
        return "; ".join(f"{key}: {each}" for key, each in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)


def _highlighted(message: Any, memory: Memory) -> list[Marked]:
    if message is None:
        return []
    return shared_words(truncated(message.opening, MAX_QUOTE_LENGTH), memory.content[:MAX_SHOWN_LENGTH])


def pending_reason_labels(request: HttpRequest, memory: Memory) -> list[Any]:
    """Return why a memory is pending, as sentences."""
    return _reason_labels(request, memory, why_pending(memory))


def _reason_labels(request: HttpRequest, memory: Memory, waiting: Waiting) -> list[Any]:
    return [_reason_label(request, memory, reason, waiting.beside, waiting.tombstone) for reason in waiting.reasons]


def _reason_label(
    request: HttpRequest, memory: Memory, reason: PendingReason, beside: Mapping[str, Any], tombstone: Tombstone | None
) -> Any:
    if reason is PendingReason.UNGROUNDED:
        return doubt_label(*beside[DOUBT])
    if reason is PendingReason.DECIDED_AGAINST and tombstone is not None:
        return decision_sentence(request, tombstone)
    if reason is not PendingReason.RESEMBLES:
        return PENDING_REASON_LABELS[reason]
    decision, day, *memory_ids = beside[RESEMBLES]
    for memory_id in memory_ids:
        resembled = decision_about(actor_id=memory.actor_id, memory_id=memory_id, decision=decision)
        if resembled is not None:
            return decision_sentence(request, resembled, resembles=True)
    decided, on = DECISION_LABELS[TombstoneReason(decision)], date_format(date.fromisoformat(day))
    return format_lazy(PENDING_REASON_LABELS[reason], decided=decided, day=on)
