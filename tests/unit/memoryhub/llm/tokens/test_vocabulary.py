"""The shipped vocabulary is tiktoken's own, checked at load, and needs no network."""

import hashlib
import lzma
from concurrent.futures import ThreadPoolExecutor

import pytest
import tiktoken_ext.openai_public

from memoryhub.llm.tokens import counter


def test_the_constants_are_those_of_the_installed_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, str] = {}

    def load(address: str, expected_hash: str) -> dict[bytes, int]:
        asked["hash"] = expected_hash
        return {}

    monkeypatch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", load)

    theirs = tiktoken_ext.openai_public.o200k_base()

    assert asked["hash"] == counter.VOCABULARY_SHA256
    assert theirs["pat_str"] == counter.PATTERN
    assert theirs["special_tokens"] == counter.SPECIAL_TOKENS


def test_the_shipped_file_has_the_expected_digest() -> None:
    content = lzma.decompress(counter.read_compressed())

    assert hashlib.sha256(content).hexdigest() == counter.VOCABULARY_SHA256
    assert len(counter.parse_ranks(content)) == 199_998


def test_a_changed_vocabulary_is_refused() -> None:
    content = lzma.decompress(counter.read_compressed())

    with pytest.raises(counter.VocabularyCorrupt, match="SHA-256"):
        counter.verified(lzma.compress(content[:-1], preset=0))


def test_a_damaged_file_is_refused() -> None:
    with pytest.raises(counter.VocabularyCorrupt, match="damaged"):
        counter.verified(counter.read_compressed()[:1000])


def test_a_missing_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "DATA_FILE", "data/nothing.xz")

    with pytest.raises(counter.VocabularyCorrupt, match="cannot be read"):
        counter.read_compressed()


def test_all_threads_get_the_same_encoding() -> None:
    counter._build.cache_clear()

    with ThreadPoolExecutor(8) as pool:
        encodings = list(pool.map(lambda _: counter.o200k_base(), range(16)))

    assert all(encoding is encodings[0] for encoding in encodings)
