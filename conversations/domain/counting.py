"""How many tokens a written context has: the one definition that assembling, metadata and tests share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

CountTokens = Callable[[str], int]

MESSAGE_TOKENS: Final = 4
"""Role and separators of a message, `system` counted as one. OpenAI documents 3 for its chat models;
one more keeps the estimate on the safe side for others."""

BLOCK_TOKENS: Final = 1
"""Per content block; a plain string is one block."""

REPLY_TOKENS: Final = 3
"""Once per context: what primes the answer (OpenAI's documented figure)."""

IMAGE_TOKENS: Final = 4_784
"""The most that one image costs in Anthropic's current high-resolution models (older ones: about 1,600).
An upper bound on purpose: the size of an image behind an address is not known here."""

_IMAGES: Final = frozenset({"image", "image_url"})


def count_context(
    system: str | Sequence[Mapping[str, Any]] | None,
    messages: Sequence[Mapping[str, Any]],
    count: CountTokens,
    *,
    image_tokens: int = IMAGE_TOKENS,
) -> int:
    """Return the tokens of a context as `assemble` wrote it, in either format.

    Every text is counted as it stands, each block by itself, plus the constants of this module.
    Raises ValueError for a kind of block that `formats` never writes.
    """
    contents = [message["content"] for message in messages]
    if system is not None:
        contents.append(system)
    return REPLY_TOKENS + sum(_content(content, count, image_tokens) for content in contents)


def _content(content: str | Sequence[Mapping[str, Any]], count: CountTokens, image_tokens: int) -> int:
    if isinstance(content, str):
        return MESSAGE_TOKENS + BLOCK_TOKENS + count(content)
    return MESSAGE_TOKENS + sum(BLOCK_TOKENS + _block(block, count, image_tokens) for block in content)


def _block(block: Mapping[str, Any], count: CountTokens, image_tokens: int) -> int:
    if block["type"] == "text":
        return count(block["text"])
    if block["type"] in _IMAGES:
        return image_tokens
    raise ValueError(f"cannot count a block of type {block['type']!r}")
