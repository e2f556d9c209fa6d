"""The same context in two providers' forms. Pure dictionaries: no SDK is imported here.

Anthropic: `system` stands apart, as a string, or as blocks where a cache mark is wanted. OpenAI: `system`
is the first message; caching needs no marks. References that a form cannot show become words.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from conversations.domain.contents import GIVEN_WAY, is_text, stand_in, text_of
from conversations.domain.layers import Block
from conversations.domain.phrases import Phrases
from conversations.domain.rendering import Prompt, Turn

Format = Literal["anthropic", "openai"]
Json = dict[str, Any]
Written = tuple[str | list[Json] | None, list[Json]]
"""`system` (None where it is a message) and `messages`."""

CACHE_MARK: Final = {"type": "ephemeral"}

IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""What both vendors take as base64."""


def write_anthropic(prompt: Prompt, phrases: Phrases) -> Written:
    """Return the prompt as Anthropic's Messages API takes it."""
    messages = [_message(turn, _anthropic_image, phrases, mark=prompt.cache) for turn in prompt.turns]
    if not prompt.cache:
        return prompt.system, messages
    return [{"type": "text", "text": prompt.system, "cache_control": dict(CACHE_MARK)}], messages


def write_openai(prompt: Prompt, phrases: Phrases) -> Written:
    """Return the prompt as OpenAI's chat completions take it."""
    messages = [_message(turn, _openai_image, phrases, mark=False) for turn in prompt.turns]
    return None, [{"role": "system", "content": prompt.system}, *messages]


FORMATS: Final[Mapping[Format, Callable[[Prompt, Phrases], Written]]] = {
    "anthropic": write_anthropic,
    "openai": write_openai,
}

_Image = Callable[[Block], Json | None]


def _message(turn: Turn, image: _Image, phrases: Phrases, *, mark: bool) -> Json:
    """Return one message: content is a string where it is one unmarked text, else a list of blocks."""
    blocks = [_block(turn, block, image, phrases) for block in turn.blocks]
    if mark and turn.cache_after is not None:
        blocks[turn.cache_after]["cache_control"] = dict(CACHE_MARK)
    return {"role": turn.role, "content": _plain_where_possible(blocks)}


def _plain_where_possible(blocks: Sequence[Json]) -> str | list[Json]:
    if len(blocks) == 1 and set(blocks[0]) == {"type", "text"}:
        text: str = blocks[0]["text"]
        return text
    return list(blocks)


def _block(turn: Turn, block: Block, image: _Image, phrases: Phrases) -> Json:
    """Return one block; only users' turns may carry images."""
    if is_text(block):
        return {"type": "text", "text": text_of(block)}
    shown = image(block) if _is_image(block) and turn.role == "user" else None
    return shown or {"type": "text", "text": stand_in(block, phrases)}


def _is_image(block: Block) -> bool:
    return block.get("type") == "image" and not block.get(GIVEN_WAY)


def _anthropic_image(block: Block) -> Json | None:
    url, data = _source(block)
    if url:
        return {"type": "image", "source": {"type": "url", "url": url}}
    if data:
        return {
            "type": "image",
            "source": {"type": "base64", "media_type": block["media_type"], "data": data},
        }
    return None


def _openai_image(block: Block) -> Json | None:
    url, data = _source(block)
    if not url and not data:
        return None
    return {"type": "image_url", "image_url": {"url": url or f"data:{block['media_type']};base64,{data}"}}


def _source(block: Block) -> tuple[str, str]:
    """Return an image's (web address, base64 data); "" for what is missing or not to be passed on."""
    url, data = block.get("url"), block.get("data")
    web = url if isinstance(url, str) and url.startswith(("https://", "http://")) else ""
    known = isinstance(data, str) and block.get("media_type") in IMAGE_TYPES
    return web, str(data) if known else ""
