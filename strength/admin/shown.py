"""What the screens of memories share: their beginnings, linked to their pages, for whoever may read them."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from memoryhub.admin.base import READ_FOR_EXCERPT, excerpt, link_to
from strength.models import Memory


def may_read_memories(request: HttpRequest) -> bool:
    """Return whether a person may see the texts of memories, whatever other screen they stand on."""
    user: Any = request.user
    return bool(user.has_perm("strength.view_memory") or user.has_perm("strength.change_memory"))


def shown_memories(request: HttpRequest, actor_id: UUID, keys: Iterable[Any]) -> dict[str, SafeString]:
    """Return the beginnings of an actor's memories, linked to their pages, by id; one query for all of them.

    Who may not read memories gets their ids.
    """
    wanted = list({str(key) for key in keys if key})
    if not may_read_memories(request):
        return {key: SafeString(excerpt(key)) for key in wanted}
    rows = Memory.objects.of([actor_id]).filter(pk__in=wanted)
    found = {str(pk): text for pk, text in rows.values_list("pk", Left("content", READ_FOR_EXCERPT))}
    gone = gettext("a memory that is not there any more")
    return {
        key: link_to("admin:strength_memory_change", key, excerpt(found[key]))
        if key in found
        else SafeString(excerpt(gone))
        for key in wanted
    }
