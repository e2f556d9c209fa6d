"""Find the text that a tombstone keeps out, and the messages in which an old wording still stands."""

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from conversations.models import Message
from memoryhub.admin.base import excerpt, link_to
from strength.actions.tombstones import kept_out_texts, messages_saying, tombstone_of
from strength.admin.memory_detail import TIMELINE, may_read_memories
from strength.domain.duplicates import fingerprint
from strength.domain.memories import Status
from strength.models import Memory, Tombstone

MOST_LINKED: Final = 5
MOST_OF_MEMORY: Final = 3
TOMBSTONE_PAGE: Final = "admin:strength_tombstone_change"


def with_old_wording(request: HttpRequest, done: Any, memory: Memory, before: Memory) -> Any:
    """Return a message about a change, and where the wording that it replaced or rejected is known from now on."""
    is_rejected = memory.status == Status.REJECTED != before.status
    if not is_rejected and memory.content == before.content:
        return done
    parts = [done]
    kept = tombstone_of(actor_id=memory.actor_id, text=before.content)
    if kept is not None:
        text = gettext("The old wording is kept out.") if not is_rejected else gettext("It is kept out.")
        parts.append(link_to(TOMBSTONE_PAGE, kept.pk, text) if _may_see_tombstones(request) else text)
    if request.user.has_perm("conversations.view_message"):
        instead = "" if is_rejected else memory.content
        found = messages_saying(actor_id=memory.actor_id, text=before.content, instead=instead)
        parts.extend([_standing_in(found)] if found else [])
    return format_html_join(" ", "{}", ((part,) for part in parts))


def _standing_in(found: Sequence[Message]) -> SafeString:
    said = ngettext(
        "It also stands in %(count)d message, which contexts may quote:",
        "It also stands in %(count)d messages, which contexts may quote:",
        len(found),
    ) % {"count": len(found)}
    links = format_html_join(
        " · ",
        '<a class="hub-link" href="{}?at={}#message-{}">{}</a>',
        (
            (reverse(TIMELINE, args=[each.session_id]), each.pk, each.pk, excerpt(each.content, 60))
            for each in found[:MOST_LINKED]
        ),
    )
    return format_html("{} {}", said, links)


def _may_see_tombstones(request: HttpRequest) -> bool:
    user: Any = request.user
    return bool(user.has_perm("strength.view_tombstone") or user.has_perm("strength.change_tombstone"))


def kept_out_of(request: HttpRequest, memory: Memory) -> list[Tombstone]:
    """Return the latest tombstones of a memory's texts, for whoever may see them."""
    if not _may_see_tombstones(request):
        return []
    is_of_it = Q(memory_id=memory.pk)
    if memory.status == Status.REJECTED:
        is_of_it |= Q(digest=fingerprint(memory.content).digest)
    return list(Tombstone.objects.filter(is_of_it, actor_id=memory.actor_id)[:MOST_OF_MEMORY])


def shown_texts(request: HttpRequest, tombstones: Iterable[Tombstone]) -> dict[UUID, SafeString]:
    """Return what tombstones keep out, by id, linked to the memory whose text it was, for whoever may read memories."""
    if not may_read_memories(request):
        return {}
    return {
        key: link_to("admin:strength_memory_change", kept.memory_id, excerpt(kept.text))
        for key, kept in kept_out_texts(tombstones).items()
    }
