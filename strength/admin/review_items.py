"""What a person who reviews is shown of one item: why it waits, what it comes from, what is near, what it would end."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.db.models.functions import Left
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from conversations.models import Message
from memoryhub.admin.base import READ_FOR_EXCERPT, excerpt
from memoryhub.tenancy.domain import Trust, TrustPolicy
from memoryhub.tenancy.policies import effective_policy
from strength.actions.decisions import decision_against
from strength.actions.review import near_memories
from strength.admin.pairs import LONGEST_SHOWN, merge_of, other_merges, pair_of
from strength.domain.review import Item, Waiting, WaitsFor, why_it_waits
from strength.models import Memory, MemorySource, Merge

MOST_SOURCES: Final = 5
MOST_ENDED: Final = 10

WHYS: Final[Mapping[WaitsFor, Any]] = {
    WaitsFor.UNTRUSTED_SOURCE: _("It comes from a channel or a message that is not trusted."),
    WaitsFor.UNTRUSTED_WRITER: _("It was written through a key, or in a channel, that is not trusted."),
    WaitsFor.DECIDED_AGAINST: _("A person has decided against a memory that says this."),
    WaitsFor.CONTRADICTS: _("It contradicts what is believed now."),
    WaitsFor.UNSURE: _("Whoever drew it from the conversation was not sure enough."),
    WaitsFor.ASKED: _("It was written down to wait for a person."),
}


def about_item(request: HttpRequest, item: Item, text: str | None) -> dict[str, Any] | None:
    """Return what is shown of an item; None where it went just now."""
    if item.is_merge:
        whose = Merge.objects.filter(pk=item.key).values_list("actor_id", flat=True).first()
        return _about_merge(request, item.key, whose) if whose else None
    memory = Memory.objects.with_numbers().select_related("actor__agent").filter(pk=item.key).first()
    return _about_memory(request, memory, text) if memory else None


def _about_merge(request: HttpRequest, key: UUID, actor_id: UUID) -> dict[str, Any]:
    proposal = merge_of(key, actor_id)
    return {
        "proposal": proposal,
        "actor": proposal.actor,
        "percent": round(100 * proposal.likeness),
        "others": other_merges(proposal),
        **pair_of(request, proposal),
    }


def _about_memory(request: HttpRequest, memory: Memory, text: str | None) -> dict[str, Any]:
    policy = effective_policy(TrustPolicy, memory.agent, memory.actor)
    sources = list(memory.sources.all())
    ended = _would_end(memory)
    return {
        "memory": memory,
        "actor": memory.actor,
        "opening": memory.content[:LONGEST_SHOWN],
        "is_cut": len(memory.content) > LONGEST_SHOWN,
        "text": text,
        "is_edited": text is not None,
        "whys": [WHYS[why] for why in _whys(memory, sources, policy)],
        "confidence": memory.confidence,
        "confidence_floor": policy.confidence_floor,
        "sources": _shown_sources(request, memory, sources[:MOST_SOURCES]),
        "sources_left_out": max(0, len(sources) - MOST_SOURCES),
        "ended": [(each, excerpt(each.content, 400)) for each in ended],
        "near": [
            {
                "memory": each.memory,
                "opening": excerpt(each.memory.content, 300),
                "percent": round(100 * each.relevance),
                "is_ended": each.memory in ended,
            }
            for each in near_memories(memory, now=timezone.now())
        ],
    }


def _whys(memory: Memory, sources: list[MemorySource], policy: TrustPolicy) -> list[WaitsFor]:
    untrusted = {*policy.untrusted_channels}
    against = decision_against(actor_id=memory.actor_id, text=memory.content)
    return why_it_waits(
        Waiting(
            is_trusted=memory.trust == Trust.TRUSTED,
            has_untrusted_source=memory.channel in untrusted
            or any(each.trust == Trust.UNTRUSTED or each.channel in untrusted for each in sources),
            confidence=memory.confidence,
            confidence_floor=policy.confidence_floor,
            contradicts=bool(memory.supersedes),
            was_decided_against=against is not None,
        )
    )


def _would_end(memory: Memory) -> list[Memory]:
    """Return what no longer holds once the memory is approved."""
    if not memory.supersedes:
        return []
    rows = Memory.objects.of([memory.actor_id]).active().filter(pk__in=memory.supersedes, superseded_by=None)
    return list(rows.order_by("pk")[:MOST_ENDED])


def _shown_sources(request: HttpRequest, memory: Memory, sources: list[MemorySource]) -> list[dict[str, Any]]:
    """Return the messages that a memory comes from, as far as this person may read them."""
    user: Any = request.user
    said = {}
    if sources and user.has_perm("conversations.view_message"):
        rows = Message.objects.of([memory.actor_id]).filter(pk__in=[each.message_id for each in sources])
        said = {
            row.pk: row
            for row in rows.defer("content", "blocks").annotate(opening=Left("content", READ_FOR_EXCERPT))
        }
    links = user.has_perm("conversations.view_session")
    return [
        {
            "source": each,
            "message": said.get(each.message_id),
            "text": excerpt(said[each.message_id].opening, 300) if each.message_id in said else "",
            "link": _session_link(each) if links else "",
        }
        for each in sources
    ]


def _session_link(source: MemorySource) -> str:
    """Return the address of a message in its session."""
    try:
        address = reverse("admin:conversations_session_timeline", args=[source.session_id])
    except NoReverseMatch:
        address = reverse("admin:conversations_session_change", args=[source.session_id])
    return f"{address}#message-{source.message_id}"
