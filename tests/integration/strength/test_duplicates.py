"""Texts that are compared together find what each finds alone."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Q

from memoryhub.embeddings.spaces import active_space
from memoryhub.search.query import build_query
from memoryhub.search.query_text import QueryText
from memoryhub.tenancy.models import Actor
from strength.actions.duplicates import (
    MAX_CANDIDATES,
    SIMILARITY_FLOOR,
    WORD_FLOOR,
    DuplicateQuery,
    _nearest,
    duplicate_pairs,
    near_duplicates,
)
from strength.actions.search import nearest_memories
from strength.domain.memories import Status
from strength.models import Memory, MemoryIndex
from tests.integration.strength.conftest import NOW, Write

pytestmark = pytest.mark.django_db
TEXTS = (
    "The user likes green tea.", "The user actually likes green tea", "The user likes black tea.",
    "The user does not like green tea.", "利用者は緑茶が好きです。", "利用者は本当に緑茶が好きだ。", "Anna pays Ben.",
    "Ben pays Anna.", "Meets Anna on 3 May at the green tea house", "!?",
)  # fmt: skip


@pytest.fixture
def memories(write: Write) -> list[Memory]:
    """Write the texts in two namespaces; one has ended, one has no vector yet."""
    written = [write(text, namespace=namespace) for namespace in ("/notes/a/", "/notes/b/") for text in TEXTS]
    written += [write(f"{TEXTS[0]} {number}", namespace="/notes/a/") for number in range(MAX_CANDIDATES)]
    MemoryIndex.objects.filter(memory=written[2]).update(vector=None)
    for model, key in ((MemoryIndex, "memory"), (Memory, "pk")):
        rows: Any = model
        rows.objects.filter(**{key: written[1].pk}).update(valid_to=NOW + timedelta(hours=1))
    return written


@pytest.mark.parametrize("hours", [0, 2])
def test_the_most_relevant_are_those_of_a_search(memories: list[Memory], actor: Actor, hours: int) -> None:
    space, now = active_space(), NOW + timedelta(hours=hours)
    vectors = dict(MemoryIndex.objects.filter(space=space).values_list("memory_id", "vector"))
    duplicate_query = [DuplicateQuery(each.content, each.namespace, vectors[each.pk], [each.pk]) for each in memories]
    found = _nearest(duplicate_query, actor_id=actor.id, space=space, now=now, statuses=[Status.ACTIVE])
    for each, near in zip(duplicate_query, found, strict=True):
        where = (Q(valid_to=None) | Q(valid_to__gt=now)) & Q(
            actor_id=actor.id, namespace=each.namespace, status="active"
        )
        alone = nearest_memories(
            where & ~Q(memory_id__in=each.excluded_ids),
            build_query(QueryText.of(each.text), each.vector, space=space),
            limit=MAX_CANDIDATES,
            similarity_threshold=SIMILARITY_FLOOR,
            word_floor=WORD_FLOOR,
        )
        assert [memory.pk for memory in near] == [memory.pk for memory, _relevance in alone], each.text
    assert any(len(near) == MAX_CANDIDATES for near in found) and [] in found


def test_pairs_of_a_batch_are_those_of_its_memories(memories: list[Memory], actor: Actor) -> None:
    def named(batch: list[Memory]) -> list[tuple[Any, Any, float]]:
        return [(pair.kept.pk, pair.absorbed.pk, pair.likeness) for pair in duplicate_pairs(actor, batch, now=NOW)]

    together = named(memories)
    assert together == [pair for memory in memories for pair in named([memory])]
    assert together


def test_nothing_is_found_for_no_texts(actor: Actor) -> None:
    assert near_duplicates([], actor_id=actor.id, space=active_space(), now=NOW, statuses=[Status.ACTIVE]) == []
