"""Constraints of the database on embedding spaces, and how it lays out vectors."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from memoryhub.search.fusion import SpaceBounds
from memoryhub.search.models import EmbeddingSpace

pytestmark = pytest.mark.django_db

SPACE: dict[str, Any] = {
    "provider": "test",
    "model": "m",
    "dimension": 8,
    "cosine_low": 0.1,
    "cosine_high": 0.7,
    "vector_weight": 0.5,
}


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        ("space_is_unique", {}),
        ("space_active_is_one", {"model": "other", "state": "active"}),
        ("space_state_is_known", {"model": "other", "state": "lost"}),
        ("space_dimension_fits_halfvec", {"dimension": 0}),
        ("space_dimension_fits_halfvec", {"dimension": 16_001}),
        ("space_bounds_are_ordered", {"model": "other", "cosine_low": 0.7}),
        ("space_bounds_are_ordered", {"model": "other", "cosine_high": 1.1}),
        ("space_weight_is_a_share", {"model": "other", "vector_weight": 1.5}),
    ],
)
def test_space_that_makes_no_sense_is_refused(constraint: str, values: dict[str, Any]) -> None:
    EmbeddingSpace.objects.create(**SPACE, state="active")

    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        EmbeddingSpace.objects.create(**{**SPACE, **values})


def test_many_spaces_may_be_retired_beside_the_active_one() -> None:
    for model, state in (("a", "active"), ("b", "retired"), ("c", "retired"), ("d", "filling")):
        EmbeddingSpace.objects.create(**{**SPACE, "model": model, "state": state})

    assert EmbeddingSpace.objects.filter(state="active").count() == 1


def test_space_knows_its_bounds() -> None:
    assert EmbeddingSpace(**SPACE).bounds == SpaceBounds(0.1, 0.7, 0.5)


@pytest.mark.parametrize("table", ["strength_memoryindex", "conversations_messageindex"])
def test_vectors_stay_in_their_rows_page(table: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT attname, attstorage FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attname IN ('vector', 'words')",
            [table],
        )
        stored = dict(cursor.fetchall())

    assert stored == {"vector": "m", "words": "m"}
