"""Long texts are cut without loss, batches keep their bounds, and pieces fold back into one vector."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.embeddings.base import MAX_PIECES, Limits, Piece, batches, combine_pieces, embed_in_pieces, split_texts
from memoryhub.llm.errors import BadAnswer
from memoryhub.llm.tokens import counter_for

COUNTER = counter_for("gpt-4o")
texts = st.lists(st.text("ab 日本\n", min_size=1, max_size=120).filter(str.strip), min_size=1, max_size=4)


@given(texts, st.integers(4, 40))
def test_pieces_fit_and_lose_only_blanks(given_texts: list[str], max_tokens: int) -> None:
    pieces = split_texts(given_texts, max_tokens=max_tokens, counter=COUNTER)

    for owner, text in enumerate(given_texts):
        mine = [piece for piece in pieces if piece.owner == owner]
        assert 1 <= len(mine) <= MAX_PIECES
        assert all(piece.text.strip() and COUNTER.count(piece.text) <= max_tokens for piece in mine)
        if len(mine) < MAX_PIECES:
            assert "".join("".join(piece.text.split()) for piece in mine) == "".join(text.split())


def test_a_text_that_fits_is_left_alone() -> None:
    assert split_texts(["short text"], max_tokens=100, counter=COUNTER) == [Piece(0, "short text", 2)]


def test_a_very_long_text_is_represented_by_its_beginning() -> None:
    pieces = split_texts(["x" * 5_000_000, "end"], max_tokens=10, counter=COUNTER)

    assert len(pieces) == MAX_PIECES + 1
    assert pieces[-1].owner == 1


@given(st.lists(st.integers(1, 50), max_size=30))
def test_batches_keep_order_and_bounds(sizes: list[int]) -> None:
    pieces = [Piece(number, "x", size) for number, size in enumerate(sizes)]

    groups = list(batches(pieces, max_texts=4, max_tokens=60))

    assert [piece for group in groups for piece in group] == pieces
    assert all(1 <= len(group) <= 4 for group in groups)
    assert all(sum(piece.tokens for piece in group) <= 60 for group in groups)


def test_folded_is_the_mean_weighted_by_tokens() -> None:
    pieces = [Piece(0, "a", 3), Piece(0, "b", 1), Piece(1, "c", 9)]
    vectors = np.array([[2, 0], [0, 5], [0, 1]], dtype=np.float32)

    np.testing.assert_allclose(combine_pieces(pieces, vectors, count=2), [[3, 1], [0, 9]])


def test_another_dimension_in_a_later_batch_is_a_bad_answer() -> None:
    sizes = iter([3, 4])

    with pytest.raises(BadAnswer):
        embed_in_pieces(
            ["a", "b"],
            lambda batch: np.ones((len(batch), next(sizes)), dtype=np.float32),
            limits=Limits(tokens_per_text=10, texts_per_request=1, tokens_per_request=10),
            counter=COUNTER,
        )
