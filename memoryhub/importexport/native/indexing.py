"""Index rows of texts that were stored without them: imported ones, and those that a screening has changed."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from memoryhub.embeddings.spaces import after_indexing, index_entries, writing_spaces
from memoryhub.search.models import index_models
from memoryhub.tenancy.models import Actor


def index(actor_id: UUID, owners: Sequence[Any]) -> None:
    """Write the index rows of rows without any, count their terms, and enqueue remote embeddings.

    Runs in the caller's transaction. Client-supplied vectors are not exported; the provider computes them again.
    """
    for model in index_models():
        if not owners or not isinstance(owners[0], model._meta.get_field(model.owner_field).related_model):
            continue
        actor = Actor.objects.select_related("agent").get(pk=actor_id)
        for owner in owners:
            owner.actor = actor  # its time zone decides the day; saves a query per row
        findable = [owner for owner in owners if model.is_findable(owner)]
        spaces = writing_spaces()
        words = [model.indexed_text(owner) for owner in findable]
        shares = [model.passage_share(owner) for owner in findable]
        texts = [owner.content for owner in findable]
        cues = [model.cues(owner) for owner in findable]
        entries = index_entries(texts, spaces, words=words, passage_shares=shares, cues=cues)
        pairs = [
            (
                model(
                    actor_id=actor_id,
                    **{model.owner_field: owner},
                    **model.copied_fields(owner),
                    **entry.row_values(space.id),
                ),
                entry,
            )
            for space in spaces
            for owner, entry in zip(findable, entries, strict=True)
        ]
        model.objects.bulk_create(row for row, _entry in pairs)
        counted = [entry for row, entry in pairs[: len(entries)] if row.is_counted]
        after_indexing(entries, counted, actor_id)
