"""Write a prompt in a provider's form and count its tokens. Pure dictionaries: no SDK is imported here.

Anthropic: `system` is a separate field, as a string, or as blocks where a cache mark is wanted. OpenAI: `system` is
the first message; caching needs no marks. Text: the same with all turns as one message, for programs that paste one
string. References that a form cannot show become words. Results of tools are blocks
of the user's message for Anthropic, messages of the role `tool` for OpenAI.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, Literal

from conversations.domain.content import (
    MAX_LABEL_LENGTH,
    REDUCED_KEY,
    THINKING,
    TOOL_RESULT,
    TOOL_USE,
    Block,
    Content,
    Language,
    blocks_of,
    is_text,
    plain_text,
    reference_label,
    text_of,
)
from conversations.domain.layers import PHRASES, REMEMBERED, WORKING, Candidate, Contents
from conversations.domain.prompt import (
    Frame,
    Prompt,
    Turn,
    check_nonce,
    remembered_parts,
    render,
    render_entry,
    turns_of,
)
from memoryhub.llm.types import IMAGE_TOKENS
from memoryhub.look_alikes import tell_apart

Format = Literal["anthropic", "openai", "text"]
Json = dict[str, Any]
Written = tuple[str | list[Json] | None, list[Json]]
"""`system` (None where it is a message) and `messages`."""

CACHE_MARK: Final = {"type": "ephemeral"}

IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Accepted by both vendors as base64."""

MAX_ANTHROPIC_NAME_LENGTH: Final = 128
MAX_OPENAI_NAME_LENGTH: Final = 64
"""Of a tool."""

THINKING_FIELDS: Final = {"thinking": ("type", "thinking", "signature"), "redacted_thinking": ("type", "data")}
"""Fields of Anthropic's thinking blocks, which the API accepts unchanged only."""


def write_anthropic(prompt: Prompt, language: Language) -> Written:
    messages = [_anthropic_message(turn, language, mark=prompt.cache) for turn in prompt.turns]
    if not prompt.cache:
        return prompt.system, messages
    return [{"type": "text", "text": prompt.system, "cache_control": dict(CACHE_MARK)}], messages


def write_openai(prompt: Prompt, language: Language) -> Written:
    messages = [message for turn in prompt.turns for message in _openai_messages(turn, language)]
    return None, [{"role": "system", "content": prompt.system}, *messages]


def write_text(prompt: Prompt, language: Language) -> Written:
    """Write all turns as one message in words; several turns each begin with who speaks."""
    names = PHRASES[language].unnamed
    texts = [(names[turn.role], text) for turn in prompt.turns if (text := _turn_text(turn, language))]
    talk = "\n\n".join(f"{name}: {text}" if len(texts) > 1 else text for name, text in texts)
    return None, [{"role": "system", "content": prompt.system}, {"role": "user", "content": talk}]


def _turn_text(turn: Turn, language: Language) -> str:
    results = [plain_text(tuple(_parts(block)), language) for block in turn.blocks if block.get("type") == TOOL_RESULT]
    spoken = tuple(block for block in turn.blocks if block.get("type") not in (TOOL_RESULT, *THINKING))
    return "\n".join(filter(None, [*results, plain_text(spoken, language)]))


def one_text(messages: Sequence[Json]) -> str:
    """Return what `write_text` wrote as one string; the separator takes fewer tokens than the messages counted."""
    return "\n\n".join(filter(None, (message["content"] for message in messages)))


FORMATS: Final[Mapping[Format, Callable[[Prompt, Language], Written]]] = {
    "anthropic": write_anthropic,
    "openai": write_openai,
    "text": write_text,
}

_Image = Callable[[Block], Json | None]


def _anthropic_message(turn: Turn, language: Language, *, mark: bool) -> Json:
    """Return a message; keeps thinking only at the beginning of a turn, as the API requires."""
    thinks = turn.blocks[0].get("type") in THINKING
    kept = [block for block in turn.blocks if thinks or block.get("type") not in THINKING]
    blocks = [_anthropic_block(turn, block, language) for block in kept]
    if mark and turn.cache_after is not None:
        blocks[-1 - (len(turn.blocks) - 1 - turn.cache_after)]["cache_control"] = dict(CACHE_MARK)
    return {"role": turn.role, "content": _join_texts(blocks)}


def _anthropic_block(turn: Turn, block: Block, language: Language) -> Json:
    kind = block.get("type")
    if kind in THINKING:
        return {name: block.get(name, "") for name in THINKING_FIELDS[str(kind)]}
    if kind == TOOL_USE:
        name = _tool_name(block, MAX_ANTHROPIC_NAME_LENGTH)
        return {"type": TOOL_USE, "id": block["id"], "name": name, "input": block["input"]}
    if kind == TOOL_RESULT:
        failed = {"is_error": True} if block.get("is_error") else {}
        content = [_block("user", each, _anthropic_image, language) for each in _parts(block)]
        shown = {"content": _join_texts(content)} if content else {}
        return {"type": TOOL_RESULT, "tool_use_id": block["tool_use_id"], **shown, **failed}
    return _block(turn.role, block, _anthropic_image, language)


def _openai_messages(turn: Turn, language: Language) -> list[Json]:
    """Return a turn as messages: one for each tool result, and one for the text with its calls."""
    results = [
        {"role": "tool", "tool_call_id": block["tool_use_id"], "content": plain_text(tuple(_parts(block)), language)}
        for block in turn.blocks
        if block.get("type") == TOOL_RESULT
    ]
    calls = [_openai_call(block) for block in turn.blocks if block.get("type") == TOOL_USE]
    others = [each for each in turn.blocks if each.get("type") not in (TOOL_USE, TOOL_RESULT, *THINKING)]
    blocks = [_block(turn.role, block, _openai_image, language) for block in others]
    if not blocks and not calls:
        return results
    message: Json = {"role": turn.role, "content": _join_texts(blocks) if blocks else None}
    return [*results, {**message, "tool_calls": calls} if calls else message]


def _openai_call(block: Block) -> Json:
    arguments = json.dumps(block["input"], ensure_ascii=False)
    name = _tool_name(block, MAX_OPENAI_NAME_LENGTH)
    return {"id": block["id"], "type": "function", "function": {"name": name, "arguments": arguments}}


def _tool_name(call: Block, max_length: int) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", call["name"])[:max_length] or "_"


def _parts(result: Block) -> list[Block]:
    """Return the blocks of a result's content, without blank texts."""
    content = result.get("content") or ()
    return list(blocks_of(content if isinstance(content, str) else tuple(content)))


def _join_texts(blocks: list[Json]) -> str | list[Json]:
    is_plain = len(blocks) == 1 and set(blocks[0]) == {"type", "text"}
    return str(blocks[0]["text"]) if is_plain else blocks


def _block(role: str, block: Block, image: _Image, language: Language) -> Json:
    """Return one block; only users' turns may carry images."""
    if is_text(block):
        return {"type": "text", "text": text_of(block)}
    is_image = block.get("type") == "image" and not block.get(REDUCED_KEY)
    shown = image(block) if is_image and role == "user" else None
    return shown or {"type": "text", "text": reference_label(block, language)}


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


CountTokens = Callable[[str], int]

MESSAGE_TOKENS: Final = 4
"""Role and separators of a message, `system` counted as one. OpenAI documents 3 for its chat models;
one more keeps the estimate on the safe side for others."""

BLOCK_TOKENS: Final = 1
"""Per content block; a plain string is one block."""

REPLY_TOKENS: Final = 3
"""Once per context: what primes the answer (OpenAI's documented figure)."""


def count_context(
    system: str | Sequence[Mapping[str, Any]] | None, messages: Sequence[Mapping[str, Any]], count: CountTokens
) -> int:
    """Return the tokens of a context as `assemble` wrote it, in either format.

    Every text is counted unchanged, each block by itself, plus the constants of this module.
    Raises ValueError for a kind of block that `formats` never writes.
    """
    contents = [message["content"] for message in messages]
    if system is not None:
        contents.append(system)
    total = REPLY_TOKENS + MESSAGE_TOKENS * len(contents)
    for content in contents:
        total += _tokens_of(content, count)
    for message in messages:
        total += sum(BLOCK_TOKENS + count(_json(call)) for call in message.get("tool_calls", ()))
        total += count(message["tool_call_id"]) if "tool_call_id" in message else 0
    return total


def _tokens_of(content: Any, count: CountTokens) -> int:
    total = 0
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or ():
        kind = block["type"]
        total += BLOCK_TOKENS
        if kind == "text":
            total += count(block["text"])
        elif kind in ("image", "image_url"):
            total += IMAGE_TOKENS
        elif kind == TOOL_RESULT:
            total += count(block["tool_use_id"]) + _tokens_of(block.get("content"), count)
        elif kind == TOOL_USE or kind in THINKING:
            total += count(_json({name: block[name] for name in block if name != "cache_control"}))
        else:
            raise ValueError(f"cannot count a block of type {kind!r}")
    return total


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class PromptWriter:
    """Writes selections of one context's candidates in a provider's form; counts no text twice."""

    def __init__(self, frame: Frame, candidates: Sequence[Candidate], form: Format, count: CountTokens) -> None:
        # Otherwise a reader takes a stranger for the person whose name looks the same.
        names = tell_apart([*(each.author for each in candidates), frame.author], most=MAX_LABEL_LENGTH)
        self.frame = replace(frame, author=names[frame.author])
        self.candidates = [
            each if names[each.author] == each.author else replace(each, author=names[each.author])
            for each in candidates
        ]
        self.form = form
        self.count: CountTokens = cache(count)
        self._last: tuple[Contents, Prompt, Written] | None = None
        self._costs: dict[tuple[int, str], int] = {}

    def total(self, contents: Contents) -> int:
        return self.count_written(self._rendered(contents)[1])

    def cost(self, place: int, content: Content) -> int:
        """Return the tokens of the candidate at `place` with this content, counted by itself."""
        if not isinstance(content, str):
            return self._cost(place, content)
        if (place, content) not in self._costs:
            self._costs[place, content] = self._cost(place, content)
        return self._costs[place, content]

    def _cost(self, place: int, content: Content) -> int:
        candidate = self.candidates[place]
        if candidate.layer == WORKING:
            system, messages = self._write(Prompt("", tuple(turns_of(self.frame, candidate, content))))
            return self.count_written((None, messages[system is None :])) - REPLY_TOKENS
        return self.count(render_entry(candidate, content, number=1, phrases=self.frame.phrases))

    def write(self, contents: Contents) -> Written:
        """Return system and messages. Raises NonceCollision where a text contains the nonce."""
        prompt, written = self._rendered(contents)
        parts = remembered_parts(self.frame, self.candidates, contents)
        blocks = [any(self.candidates[place].layer in REMEMBERED for place in part) for part in parts]
        check_nonce(prompt, self.frame.nonce, block_count=sum(blocks))
        return written

    def count_written(self, written: Written) -> int:
        return count_context(*written, self.count)

    def _rendered(self, contents: Contents) -> tuple[Prompt, Written]:
        """Return a selection as prompt and written; the last one is kept, for what fits is written next."""
        if self._last is None or self._last[0] != contents:
            prompt = render(self.frame, self.candidates, contents)
            self._last = dict(contents), prompt, self._write(prompt)
        return self._last[1:]

    def _write(self, prompt: Prompt) -> Written:
        return FORMATS[self.form](prompt, self.frame.language)
