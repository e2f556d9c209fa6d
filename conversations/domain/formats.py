"""Write a prompt in a provider's form and count its tokens. Pure dictionaries: no SDK is imported here.

Anthropic: `system` is a field of its own, as a string, or as blocks where a cache mark is wanted. OpenAI: `system` is
the first message; caching needs no marks. References that a form cannot show become words.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

from conversations.domain.content import REDUCED, blocks_of, is_text, reference_in_words, text_of
from conversations.domain.layers import REMEMBERED, WORKING, Block, Candidate, Content, Contents, Phrases
from conversations.domain.prompt import Frame, Prompt, Turn, check_nonce, render, render_entry

Format = Literal["anthropic", "openai"]
Json = dict[str, Any]
Written = tuple[str | list[Json] | None, list[Json]]
"""`system` (None where it is a message) and `messages`."""

CACHE_MARK: Final = {"type": "ephemeral"}

IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""What both vendors take as base64."""


def write_anthropic(prompt: Prompt, phrases: Phrases) -> Written:
    messages = [_message(turn, _anthropic_image, phrases, mark=prompt.cache) for turn in prompt.turns]
    if not prompt.cache:
        return prompt.system, messages
    return [{"type": "text", "text": prompt.system, "cache_control": dict(CACHE_MARK)}], messages


def write_openai(prompt: Prompt, phrases: Phrases) -> Written:
    messages = [_message(turn, _openai_image, phrases, mark=False) for turn in prompt.turns]
    return None, [{"role": "system", "content": prompt.system}, *messages]


FORMATS: Final[Mapping[Format, Callable[[Prompt, Phrases], Written]]] = {
    "anthropic": write_anthropic,
    "openai": write_openai,
}

_Image = Callable[[Block], Json | None]


def _message(turn: Turn, image: _Image, phrases: Phrases, *, mark: bool) -> Json:
    blocks = [_block(turn, block, image, phrases) for block in turn.blocks]
    if mark and turn.cache_after is not None:
        blocks[turn.cache_after]["cache_control"] = dict(CACHE_MARK)
    is_plain = len(blocks) == 1 and set(blocks[0]) == {"type", "text"}
    return {"role": turn.role, "content": blocks[0]["text"] if is_plain else blocks}


def _block(turn: Turn, block: Block, image: _Image, phrases: Phrases) -> Json:
    """Return one block; only users' turns may carry images."""
    if is_text(block):
        return {"type": "text", "text": text_of(block)}
    is_image = block.get("type") == "image" and not block.get(REDUCED)
    shown = image(block) if is_image and turn.role == "user" else None
    return shown or {"type": "text", "text": reference_in_words(block, phrases)}


def _anthropic_image(block: Block) -> Json | None:
    url, data = _source(block)
    if url:
        return {"type": "image", "source": {"type": "url", "url": url}}
    source = {"type": "base64", "media_type": block.get("media_type"), "data": data}
    return {"type": "image", "source": source} if data else None


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


def split_system(
    form: Format, system: str | list[dict[str, Any]] | None, messages: Sequence[Mapping[str, Any]]
) -> tuple[str | Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Return a context's system prompt and its turns, in whichever form it was written."""
    return (messages[0]["content"], messages[1:]) if form == "openai" else (system or "", messages)


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


def count_context(
    system: str | Sequence[Mapping[str, Any]] | None,
    messages: Sequence[Mapping[str, Any]],
    count: CountTokens,
) -> int:
    """Return the tokens of a context as `assemble` wrote it, in either format.

    Every text is counted as it stands, each block by itself, plus the constants of this module.
    Raises ValueError for a kind of block that `formats` never writes.
    """
    contents = [message["content"] for message in messages]
    if system is not None:
        contents.append(system)
    total = REPLY_TOKENS
    for content in contents:
        total += MESSAGE_TOKENS
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                total += BLOCK_TOKENS + count(block["text"])
            elif block["type"] in ("image", "image_url"):
                total += BLOCK_TOKENS + IMAGE_TOKENS
            else:
                raise ValueError(f"cannot count a block of type {block['type']!r}")
    return total


class PromptWriter:
    """Writes selections of one context's candidates in a provider's form; counts no text twice."""

    def __init__(
        self, frame: Frame, candidates: Sequence[Candidate], form: Format, count: CountTokens
    ) -> None:
        self.frame = frame
        self.candidates = candidates
        self.form = form
        self.count: CountTokens = cache(count)

    def total(self, contents: Contents) -> int:
        return self.count_written(self._write(render(self.frame, self.candidates, contents)))

    def cost(self, place: int, content: Content) -> int:
        """Return the tokens of the candidate at `place` with this content, counted by itself."""
        candidate = self.candidates[place]
        if candidate.layer == WORKING:
            _, messages = self._write(Prompt("", (Turn(candidate.role, blocks_of(content)),)))
            return self.count_written((None, messages[-1:])) - REPLY_TOKENS
        return self.count(render_entry(candidate, content, number=1, phrases=self.frame.phrases))

    def write(self, contents: Contents) -> Written:
        """Return system and messages. Raises NonceCollision where a text contains the nonce."""
        prompt = render(self.frame, self.candidates, contents)
        has_block = any(self.candidates[place].layer in REMEMBERED for place in contents)
        check_nonce(prompt, self.frame.nonce, has_block=has_block)
        return self._write(prompt)

    def count_written(self, written: Written) -> int:
        return count_context(*written, self.count)

    def _write(self, prompt: Prompt) -> Written:
        return FORMATS[self.form](prompt, self.frame.phrases)
