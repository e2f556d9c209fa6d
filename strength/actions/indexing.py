"""Making memories findable, and keeping what their index rows and numbers repeat of them."""

from collections.abc import Sequence

from django.db import connection

from memoryhub.providers.spaces import IndexEntry, after_indexing
from memoryhub.search.models import EmbeddingSpace
from strength.models import Memory, MemoryIndex
from strength.sql import FOLLOW_NUMBERS, FOLLOW_THESE, OFF_THE_CLOCK


def index_memory(memory: Memory, entry: IndexEntry, spaces: Sequence[EmbeddingSpace]) -> None:
    """Make a memory findable in the given spaces, in place of what was there; inside the caller's transaction."""
    MemoryIndex.objects.filter(actor_id=memory.actor_id, memory=memory).delete()
    facets = MemoryIndex.repeated(memory)
    MemoryIndex.objects.bulk_create(
        MemoryIndex(actor_id=memory.actor_id, memory=memory, **facets, **entry.row_values(space.id))
        for space in spaces
    )
    after_indexing([entry], memory.actor_id)


def follow_memories(memories: Sequence[Memory]) -> None:
    """Repeat in index and numbers what these memories' rows now say; inside the transaction that changed them."""
    keys = {
        "actor_ids": list({memory.actor_id for memory in memories}),
        "memory_ids": list({memory.pk for memory in memories}),
    }
    with connection.cursor() as cursor:
        cursor.execute(FOLLOW_THESE, keys)
        cursor.execute(OFF_THE_CLOCK + FOLLOW_NUMBERS, keys)
