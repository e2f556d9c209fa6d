"""Build the o200k_base encoding from the vocabulary that ships beside this module.

tiktoken downloads its vocabularies at run time; an installation of memoryhub must count tokens with no
network at all, so `tiktoken.get_encoding` is never called here. How the data file was made is written down
in `docs/adr/0003-token-counting.md`.
"""

import base64
import hashlib
import lzma
import threading
from functools import cache
from importlib.resources import files

import tiktoken

DATA_FILE = "data/o200k_base.tiktoken.xz"

# `expected_hash`, `pat_str` and `special_tokens` below are those of `o200k_base()` in
# `tiktoken_ext/openai_public.py`. They are written out because reading them there means calling a function
# that downloads; a test compares them with the installed package.
VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)
SPECIAL_TOKENS = {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}

_lock = threading.Lock()


class VocabularyCorrupt(Exception):
    """The shipped vocabulary file cannot be used; the installation is damaged."""


def o200k_base() -> tiktoken.Encoding:
    """Return the o200k_base encoding, built once per process (about 0.2 s) and shared by all threads.

    Raises VocabularyCorrupt when the file is missing, unreadable, or not the one tiktoken would download.
    """
    with _lock:  # `cache` alone would let two threads build it at the same time
        return _build()


@cache
def _build() -> tiktoken.Encoding:
    return tiktoken.Encoding(
        "o200k_base",
        pat_str=PATTERN,
        mergeable_ranks=parse_ranks(verified(read_compressed())),
        special_tokens=SPECIAL_TOKENS,
    )


def read_compressed() -> bytes:
    """Return the data file as it lies on disk. Raises VocabularyCorrupt when it cannot be read."""
    try:
        return files("memoryhub.tokens").joinpath(DATA_FILE).read_bytes()
    except OSError as error:
        raise VocabularyCorrupt(
            f"The token vocabulary memoryhub/tokens/{DATA_FILE} cannot be read. Install memoryhub again."
        ) from error


def verified(compressed: bytes) -> bytes:
    """Return the decompressed vocabulary. Raises VocabularyCorrupt unless its SHA-256 is tiktoken's own."""
    try:
        content = lzma.decompress(compressed)
    except lzma.LZMAError as error:
        message = f"memoryhub/tokens/{DATA_FILE} is damaged. Install memoryhub again."
        raise VocabularyCorrupt(message) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != VOCABULARY_SHA256:
        raise VocabularyCorrupt(
            f"memoryhub/tokens/{DATA_FILE} has SHA-256 {digest}, expected {VOCABULARY_SHA256}. "
            "Token counts would be wrong. Install memoryhub again."
        )
    return content


def parse_ranks(content: bytes) -> dict[bytes, int]:
    """Read lines of `base64(token) rank` into a mapping of token bytes to merge rank."""
    pairs = (line.split() for line in content.splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}
