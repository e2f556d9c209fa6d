"""The shipped vocabulary is tiktoken's own, checked at load, and needs no network."""

import hashlib
import lzma
from concurrent.futures import ThreadPoolExecutor

import pytest
import tiktoken_ext.openai_public

from memoryhub.llm import tokens


def test_the_constants_are_those_of_the_installed_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, str] = {}

    def load(address: str, expected_hash: str) -> dict[bytes, int]:
        asked["hash"] = expected_hash
        return {}

    monkeypatch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", load)

    theirs = tiktoken_ext.openai_public.o200k_base()

    assert asked["hash"] == tokens.VOCABULARY_SHA256
    assert theirs["pat_str"] == tokens.PATTERN
    assert theirs["special_tokens"] == tokens.SPECIAL_TOKENS


def test_the_shipped_file_has_the_expected_digest() -> None:
    content = lzma.decompress(tokens.read_compressed())

    assert hashlib.sha256(content).hexdigest() == tokens.VOCABULARY_SHA256
    assert len(tokens.parse_ranks(content)) == 199_998


def test_the_vocabulary_is_not_held_twice() -> None:
    assert max(len(value) for value in vars(tokens.o200k_base()).values() if isinstance(value, dict)) < 1_000


def test_a_changed_vocabulary_is_refused() -> None:
    content = lzma.decompress(tokens.read_compressed())

    with pytest.raises(tokens.VocabularyCorrupt, match="SHA-256"):
        tokens.verified(lzma.compress(content[:-1], preset=0))


def test_a_damaged_file_is_refused() -> None:
    with pytest.raises(tokens.VocabularyCorrupt, match="damaged"):
        tokens.verified(tokens.read_compressed()[:1000])


def test_a_missing_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "DATA_FILE", "data/nothing.xz")

    with pytest.raises(tokens.VocabularyCorrupt, match="cannot be read"):
        tokens.read_compressed()


def test_all_threads_get_the_same_encoding() -> None:
    tokens._build.cache_clear()

    with ThreadPoolExecutor(8) as pool:
        encodings = list(pool.map(lambda _: tokens.o200k_base(), range(16)))

    assert all(encoding is encodings[0] for encoding in encodings)
