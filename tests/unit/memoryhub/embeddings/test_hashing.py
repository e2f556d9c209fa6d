"""The hashing space is the same everywhere, and near means alike."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.embeddings.hashing import MAX_CHARS_PER_PASS, HashingProvider
from memoryhub.llm.errors import EmptyText, ProviderMisconfigured

PROVIDER = HashingProvider()

# The heaviest places and their signs, of the two texts in the test, at 64 dimensions.
HEAVIEST = [[(3, True), (17, False)], [(16, True), (55, False)]]


def cosine(first: str, second: str, provider: HashingProvider = PROVIDER) -> float:
    left, right = provider.embed([first, second])
    return float(left @ right)


@given(st.lists(st.text(min_size=1, max_size=60).filter(lambda text: text.strip()), max_size=5))
def test_embed_returns_finite_unit_vectors(texts: list[str]) -> None:
    vectors = PROVIDER.embed(texts)

    assert vectors.shape == (len(texts), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


@given(st.lists(st.text(min_size=1, max_size=60).filter(lambda text: text.strip()), min_size=2, max_size=5))
def test_a_text_has_the_same_vector_alone_as_among_others(texts: list[str]) -> None:
    together = PROVIDER.embed(texts)

    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_array_equal(PROVIDER.embed([text])[0], vector)


@pytest.mark.parametrize("text", ["!!!", "…", "\u200b", "\ud800", "👍", "a", "あ", "\x00", "。", "#"])
def test_every_text_that_is_not_blank_has_a_vector(text: str) -> None:
    np.testing.assert_allclose(np.linalg.norm(PROVIDER.embed([text])), 1.0, atol=1e-6)


def test_another_process_makes_the_same_vectors() -> None:
    program = (
        "from memoryhub.embeddings.hashing import HashingProvider as H;"
        "print(H().embed(['Where is the harbour?', '港はどこですか。👍']).tobytes().hex())"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env={"PYTHONHASHSEED": "7"}
    )

    expected = PROVIDER.embed(["Where is the harbour?", "港はどこですか。👍"])
    np.testing.assert_array_equal(np.frombuffer(bytes.fromhex(output.stdout.decode()), "<f4"), expected.ravel())


def test_the_space_has_not_changed_without_a_new_model_name() -> None:
    vectors = HashingProvider(64).embed(["memory", "記憶 hub"])

    heaviest = [
        [(int(place), bool(vector[place] > 0)) for place in np.flatnonzero(np.abs(vector) > 0.4)] for vector in vectors
    ]

    assert PROVIDER.model == "ngrams-1"
    assert heaviest == HEAVIEST


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("Where does Kana live?", "Kana lives near the harbour.", "The build was green on Friday."),
        ("deploying the database", "We deployed both databases.", "I like green tea."),
        ("富士山の高さは？", "富士山は日本一高い山である。", "会議は午後三時から始まります。"),
        ("ラーメンの好み", "濃いラーメンが好き。", "電車が遅れている。"),
        ("サーバ エラー", "ｻｰﾊﾞｰでエラーが出た", "猫が寝ている"),
    ],
)
def test_a_text_that_shares_words_is_nearer(query: str, near: str, far: str) -> None:
    assert cosine(query, near) > cosine(query, far) + 0.1


@pytest.mark.parametrize(
    ("first", "second"), [("Hello World", "hello world"), ("ＡＢＣ１２３", "abc123"), ("ｶﾅ", "カナ")]
)
def test_case_and_width_do_not_matter(first: str, second: str) -> None:
    assert cosine(first, second) == pytest.approx(1.0)


def test_stop_words_weigh_little() -> None:
    assert cosine("the harbour and the boat", "harbour boat") > 0.85
    assert cosine("what is it that you have", "this was not what they had") < PROVIDER.bounds.cosine_high


def test_a_text_longer_than_a_pass_is_embedded() -> None:
    texts = ["word " * MAX_CHARS_PER_PASS, "short", "a" * MAX_CHARS_PER_PASS]

    assert PROVIDER.embed(texts).shape == (3, 384)


def test_blank_texts_are_refused() -> None:
    with pytest.raises(EmptyText, match="Text 1"):
        PROVIDER.embed(["a", "\u3000"])


def test_one_text_instead_of_a_sequence_is_refused() -> None:
    with pytest.raises(TypeError):
        PROVIDER.embed("text")


def test_the_dimension_is_configurable() -> None:
    provider = HashingProvider.from_config(EmbeddingConfig(dimension=1024))

    assert provider.embed(["text"]).shape == (1, 1024)
    assert provider.dimension == 1024


def test_too_few_dimensions_are_refused() -> None:
    with pytest.raises(ProviderMisconfigured, match="at least 64"):
        HashingProvider(63)


def test_probe_says_what_it_is() -> None:
    assert PROVIDER.probe()[0]
    assert PROVIDER.probe()[1] == "hashing with ngrams-1, 384 dimensions."


def test_the_figures_of_the_space_are_in_order() -> None:
    assert -1 <= PROVIDER.bounds.cosine_low < PROVIDER.bounds.cosine_high <= 1
    assert 0 <= PROVIDER.bounds.vector_weight <= 1
    assert PROVIDER.is_local
