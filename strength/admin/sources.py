"""Where a memory comes from, and where it went: its messages, and the contexts that it was a candidate for."""

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import F
from django.db.models.functions import Left
from django.http import HttpRequest
from django.urls import reverse

from conversations.admin.weighing import LAYERS, PARTS, REASONS, WEIGHTED
from conversations.models import Message, Receipt
from memoryhub.admin.base import READ_FOR_EXCERPT, excerpt
from strength.models import Memory, MemorySource

MOST_SOURCES: Final = 20
RECEIPTS_AT_ONCE: Final = 20
LONGEST_QUOTE: Final = 300
TIMELINE: Final = "admin:conversations_session_timeline"


def sources_of(request: HttpRequest, memory: Memory) -> dict[str, Any]:
    """Return the messages that a memory comes from, with what was said for whoever may read messages."""
    rows = MemorySource.objects.filter(actor_id=memory.actor_id, memory_id=memory.pk)
    sources = list(rows[: MOST_SOURCES + 1])
    messages = _messages(request, memory, sources) if sources else {}
    return {
        "sources": [
            {"source": each, "message": message, "quote": _quote(message), "href": message_page(each)}
            for each in sources[:MOST_SOURCES]
            for message in [messages.get(each.message_id)]
        ],
        "more_sources": len(sources) > MOST_SOURCES,
        "reads_messages": may_read_messages(request),
    }  # fmt: skip


def may_read_messages(request: HttpRequest) -> bool:
    """Return whether a person may see what was said."""
    user: Any = request.user
    return bool(user.has_perm("conversations.view_message"))


def _messages(request: HttpRequest, memory: Memory, sources: list[MemorySource]) -> dict[Any, Any]:
    if not may_read_messages(request):
        return {}
    rows = Message.objects.of([memory.actor_id]).defer("content", "blocks", "metadata")
    shown = rows.annotate(opening=Left(F("content"), READ_FOR_EXCERPT))
    return shown.in_bulk([each.message_id for each in sources])


def _quote(message: Any) -> str:
    return excerpt(message.opening, LONGEST_QUOTE) if message is not None else ""


def message_page(source: MemorySource) -> str:
    """Return the address of a message among the others of its session."""
    timeline = reverse(TIMELINE, args=[source.session_id])
    return f"{timeline}?at={source.message_id}#message-{source.message_id}"


def retrieved(memory: Memory, *, place: int) -> dict[str, Any]:
    """Return the contexts that a memory was a candidate for, the latest first: some of them from a place on."""
    rows = Receipt.objects.about(memory.actor_id, memory.pk).defer("metadata", "query")
    found = list(
        rows.annotate(opening=Left(F("query"), READ_FOR_EXCERPT))[place : place + RECEIPTS_AT_ONCE + 1]
    )
    has_more = len(found) > RECEIPTS_AT_ONCE
    return {
        "receipts": [_part(each, str(memory.pk)) for each in found[:RECEIPTS_AT_ONCE]],
        "next_place": place + RECEIPTS_AT_ONCE if has_more else None,
    }


def _part(receipt: Any, memory_id: str) -> dict[str, Any]:
    """Return what became of the memory in one receipt: in which layer, as which of its candidates, and why."""
    items = receipt.items
    own: dict[str, Any] = next((item for item in items if item.get("source_id") == memory_id), {})
    rivals = [item for item in items if item["layer"] == own.get("layer")]
    return {
        "receipt": receipt,
        "query": excerpt(receipt.opening, LONGEST_QUOTE),
        "item": own,
        "layer": LAYERS.get(own.get("layer", ""), own.get("layer", "")),
        "rank": rivals.index(own) + 1 if own else 0,
        "rivals": len(rivals),
        "reason": REASONS.get(own.get("reason", ""), own.get("reason", "")),
        "parts": _parts(own.get("score_breakdown") or {}),
    }


def _parts(breakdown: Mapping[str, Any]) -> list[tuple[Any, float]]:
    numbers = {name: breakdown.get(name) for name in WEIGHTED}
    return [(PARTS[name], value) for name, value in numbers.items() if isinstance(value, int | float)]
