"""Making imported rows findable, as the apps make those that are written one by one."""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from memoryhub.providers.spaces import after_indexing, index_entries, writing_spaces
from memoryhub.search.reindexing import index_models


def index(actor_id: UUID, owners: Sequence[Any]) -> None:
    """Write the index rows of new rows of one table, count their words, and ask for vectors that need a network.

    Inside the caller's transaction. Vectors that clients had given are not in an export; the provider makes them anew.
    """
    for model in _indexes_of(owners):
        findable = [owner for owner in owners if model.is_findable(owner)]
        spaces = writing_spaces()
        words = [model.words_of(owner) for owner in findable]
        entries = index_entries([owner.content for owner in findable], spaces, words=words)
        model.objects.bulk_create(
            model(
                actor_id=actor_id,
                **{model.owner_field: owner},
                **model.repeated(owner),
                **entry.row_values(space.id),
            )
            for owner, entry in zip(findable, entries, strict=True)
            for space in spaces
        )
        after_indexing(entries, actor_id)


def _indexes_of(owners: Sequence[Any]) -> Iterator[Any]:
    for model in index_models():
        if owners and isinstance(owners[0], model._meta.get_field(model.owner_field).related_model):
            yield model
