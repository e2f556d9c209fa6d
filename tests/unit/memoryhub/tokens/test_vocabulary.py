"""The shipped vocabulary is tiktoken's own, checked at load, and needs no network."""

import hashlib
import lzma
from concurrent.futures import ThreadPoolExecutor

import pytest
import tiktoken_ext.openai_public

from memoryhub.tokens import vocabulary


def test_the_constants_are_those_of_the_installed_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, str] = {}

    def load(address: str, expected_hash: str) -> dict[bytes, int]:
        asked["hash"] = expected_hash
        return {}

    monkeypatch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", load)

    theirs = tiktoken_ext.openai_public.o200k_base()

    assert asked["hash"] == vocabulary.VOCABULARY_SHA256
    assert theirs["pat_str"] == vocabulary.PATTERN
    assert theirs["special_tokens"] == vocabulary.SPECIAL_TOKENS


def test_the_shipped_file_has_the_expected_digest() -> None:
    content = lzma.decompress(vocabulary.read_compressed())

    assert hashlib.sha256(content).hexdigest() == vocabulary.VOCABULARY_SHA256
    assert len(vocabulary.parse_ranks(content)) == 199_998


def test_a_changed_vocabulary_is_refused() -> None:
    content = lzma.decompress(vocabulary.read_compressed())

    with pytest.raises(vocabulary.VocabularyCorrupt, match="SHA-256"):
        vocabulary.verified(lzma.compress(content[:-1], preset=0))


def test_a_damaged_file_is_refused() -> None:
    with pytest.raises(vocabulary.VocabularyCorrupt, match="damaged"):
        vocabulary.verified(vocabulary.read_compressed()[:1000])


def test_a_missing_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "DATA_FILE", "data/nothing.xz")

    with pytest.raises(vocabulary.VocabularyCorrupt, match="cannot be read"):
        vocabulary.read_compressed()


def test_all_threads_get_the_same_encoding() -> None:
    vocabulary._build.cache_clear()

    with ThreadPoolExecutor(8) as pool:
        encodings = list(pool.map(lambda _: vocabulary.o200k_base(), range(16)))

    assert all(encoding is encodings[0] for encoding in encodings)
