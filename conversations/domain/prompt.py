"""Render a context in neutral form: one delimited block of remembered text, then the turns.

Remembered text is data (SPEC X6): it stands on the user's side between two lines that carry a nonce the text cannot
know, every memory on one line, every longer text quoted line by line.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from conversations.domain.content import blocks_of, is_blank, label, one_line, plain_text, quoted, text_block
from conversations.domain.layers import (
    PHRASES,
    PROJECT,
    RECALL,
    REMEMBERED,
    SESSION_SUMMARY,
    WORKING,
    Block,
    Candidate,
    Content,
    Contents,
    Language,
    Phrases,
)
from conversations.domain.policy import DEFAULT_POLICY, WITH_USER_MESSAGE, ContextPolicy

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


class NonceCollision(ValueError):
    """A text contains the nonce and could forge the block's closing line; draw another nonce."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: a role and its blocks; a cache mark belongs after block number `cache_after`."""

    role: str
    blocks: tuple[Block, ...]
    cache_after: int | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A context in neutral form; `cache` asks for the provider's marks."""

    system: str
    turns: tuple[Turn, ...]
    cache: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The texts around the candidates, which are never cut, and how to write.

    `nonce`: 32 lower-case hexadecimal digits, drawn anew for each call. `disclosed`: the project that the model is to
    name in its answer, because the router was not sure of it.
    """

    message: str
    nonce: str
    policy: ContextPolicy = DEFAULT_POLICY
    language: Language = "en"
    disclosed: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch("[0-9a-f]{32}", self.nonce):  # a shorter one could be guessed
            raise ValueError("the nonce must be 32 lower-case hexadecimal digits")

    @property
    def phrases(self) -> Phrases:
        return PHRASES[self.language]


def render(frame: Frame, candidates: Sequence[Candidate], contents: Contents) -> Prompt:
    history = [
        Turn(candidates[place].role, blocks_of(contents[place]))
        for place in _places(WORKING, candidates, contents)
    ]
    block = render_block(frame, candidates, contents)
    remembered = [Turn("user", (text_block(block),))] if block else []
    message = [text_block(frame.message)]
    if frame.disclosed is not None:
        message.insert(0, text_block(frame.phrases.disclosure.format(project=frame.disclosed)))
    if frame.policy.memory_placement == WITH_USER_MESSAGE:
        # Merged before, so that the mark counts the blocks of its message.
        history = list(_merged(history))
        if history:
            history[-1] = replace(history[-1], cache_after=len(history[-1].blocks) - 1)
        turns = [*history, *remembered, Turn("user", tuple(message))]
    else:
        turns = [*remembered, *history, Turn("user", tuple(message))]
    if turns[0].role == "assistant":  # some providers refuse a conversation that the assistant begins
        turns.insert(0, Turn("user", (text_block(frame.phrases.opener),)))
    return Prompt(render_system(frame), _merged(turns), frame.policy.cache)


def render_system(frame: Frame) -> str:
    """Return the operator's prompt and the sentence about the block.

    The sentence stands there even without a block, and does not tell the nonce: `system` stays the same
    from call to call, so that providers can cache it.
    """
    prompt = frame.policy.system_prompt
    return f"{prompt}\n\n{frame.phrases.notice}" if prompt.strip() else frame.phrases.notice


def render_block(frame: Frame, candidates: Sequence[Candidate], contents: Contents) -> str:
    """Return the remembered block between its delimiters, or "" when nothing is remembered."""
    parts = []
    for layer in REMEMBERED:
        entries = [
            render_entry(candidates[place], contents[place], number=number, phrases=frame.phrases)
            for number, place in enumerate(_places(layer, candidates, contents), start=1)
        ]
        if entries:
            parts.append("\n".join([frame.phrases.headings[layer], *entries]))
    if not parts:
        return ""
    return "\n".join([f"<remembered-{frame.nonce}>", "\n\n".join(parts), f"</remembered-{frame.nonce}>"])


def render_entry(candidate: Candidate, content: Content, *, number: int, phrases: Phrases) -> str:
    """Return one candidate as it is written: a numbered line, or a quoted text with its title."""
    text = plain_text(content, phrases)
    if candidate.layer == SESSION_SUMMARY:
        return quoted(text)
    if candidate.layer == PROJECT:
        title = "" if is_blank(candidate.title) else f"### {one_line(candidate.title)}\n"
        return title + quoted(text)
    said = ""
    if candidate.layer == RECALL:
        date = candidate.created_at[:10]
        known = (date if _DATE.fullmatch(date) else "", label(candidate.role), label(candidate.author))
        said = f"[{' · '.join(part for part in known if part)}] "
    relevance = "" if candidate.relevance is None else f" ({phrases.relevance}: {candidate.relevance:.2f})"
    return f"{number}. {said}{one_line(text)}{relevance}"


def check_nonce(prompt: Prompt, nonce: str, *, has_block: bool) -> None:
    """Raise NonceCollision where any text but the block's two delimiters contains the nonce, in any case."""
    texts = [prompt.system, *(str(block) for turn in prompt.turns for block in turn.blocks)]
    found = sum(text.casefold().count(nonce) for text in texts)
    if found != (2 if has_block else 0):
        raise NonceCollision("a text contains the nonce of the remembered block; draw another")


def _merged(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Merge neighbouring turns of one role, because providers want roles to alternate (SPEC X7)."""
    result: list[Turn] = []
    for turn in turns:
        if result and result[-1].role == turn.role:
            result[-1] = replace(result[-1], blocks=result[-1].blocks + turn.blocks)
        else:
            result.append(turn)
    return tuple(result)


def _places(layer: str, candidates: Sequence[Candidate], contents: Contents) -> list[int]:
    return [place for place in sorted(contents) if candidates[place].layer == layer]
