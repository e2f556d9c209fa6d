"""Render a context in neutral form: one delimited block of remembered text, then the turns.

Remembered text stands on the user's side (SPEC X6), between two lines that carry a nonce the text cannot know, every
memory on one line, every longer text quoted line by line; wishes and data under headings of their own. What changes
with every call (the clock, who is writing) stands in the last message, so that all before it can be cached.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

from conversations.domain.content import (
    TOOL_RESULT,
    TOOL_USE,
    Block,
    Content,
    Language,
    blocks_and_results,
    has_tools,
    is_text,
    label,
    one_line,
    plain_text,
    quoted,
    text_block,
    text_of,
)
from conversations.domain.layers import (
    PHRASES,
    PINNED,
    PROFILE,
    PROJECT,
    RECALL,
    REMEMBERED,
    SEMANTIC,
    SESSION_SUMMARY,
    WISHES,
    WORKING,
    Candidate,
    Contents,
    Phrases,
)
from conversations.domain.policy import DEFAULT_POLICY, WITH_USER_MESSAGE, ContextPolicy

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_PHRASES_WITHOUT_SCORES: Final = {language: replace(phrases, relevance="") for language, phrases in PHRASES.items()}
_LINE_START: Final = r"(^|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])([^\S\n]*)"


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

    `nonce`: 16 lower-case hexadecimal digits, drawn anew for each call. `disclosed`: the project that the model is to
    name in its answer, because the router was not sure of it; `offered` and `proposed`: projects among which the user
    is to be asked, and a new one. `author` writes the message, in the session `session_id`, with the images and files
    of `attachments`; `now` is the time by the user's clock, None for a context without a clock.
    """

    message: str
    attachments: tuple[Block, ...] = ()
    nonce: str
    policy: ContextPolicy = DEFAULT_POLICY
    language: Language = "en"
    disclosed: str | None = None
    offered: tuple[str, ...] = ()
    proposed: str | None = None
    author: str = ""
    session_id: str = ""
    now: datetime | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch("[0-9a-f]{16}", self.nonce):  # a shorter one could be guessed
            raise ValueError("the nonce must be 16 lower-case hexadecimal digits")
        object.__setattr__(self, "author", label(self.author))

    @property
    def image_count(self) -> int:
        return sum(block.get("type") == "image" for block in self.attachments)

    @property
    def phrases(self) -> Phrases:
        """Return the words of the language; without one for relevance where it is not to be written."""
        return (PHRASES if self.policy.include_relevance else _PHRASES_WITHOUT_SCORES)[self.language]


def render(frame: Frame, candidates: Sequence[Candidate], contents: Contents) -> Prompt:
    places = _places(WORKING, candidates, contents)
    said = [candidates[place] for place in places if not candidates[place].is_current]
    crowds = _attributed_roles(frame, said)
    history = _history(frame, said, [contents[place] for place in places], crowds)
    block = render_block(frame, candidates, contents)
    remembered = [Turn("user", (text_block(block),))] if block else []
    asked = (*frame.attachments, text_block(frame.message))
    message = [Turn("user", (*_preface(frame, said, crowds), *asked))]
    for place in places[len(said) :]:
        message += turns_of(frame, candidates[place], contents[place])
    if frame.policy.placement == WITH_USER_MESSAGE:
        # Merged before, so that the mark counts the blocks of its message.
        history = list(_merge_turns(history))
        if history:
            history[-1] = replace(history[-1], cache_after=len(history[-1].blocks) - 1)
        turns = [*history, *remembered, *message]
    else:
        turns = [*remembered, *history, *message]
    if turns[0].role == "assistant":  # some providers refuse a conversation that the assistant begins
        turns.insert(0, Turn("user", (text_block(frame.phrases.opener),)))
    return Prompt(render_system(frame), _with_ids(_merge_turns(turns)), frame.policy.cache)


def turns_of(frame: Frame, said: Candidate, content: Content, crowds: dict[str, list[str]] | None = None) -> list[Turn]:
    """Return what somebody said as turns: the results of tools are the user's, right after the calls."""
    with_calls = frame.policy.include_tools and said.role == "assistant"
    blocks, results = blocks_and_results(content, frame.language, with_calls=with_calls)
    if crowds and said.role in crowds:
        name = said.author or frame.phrases.unnamed.get(said.role, said.role)
        blocks = _attributed(blocks, name, crowds[said.role])
    return [Turn(role, part) for role, part in ((said.role, blocks), ("user", results)) if part]


_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Ids of calls that both vendors take."""


def _with_ids(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return turns in which no two calls have the same id, and every id is one that both vendors take."""
    taken: set[str] = set()
    new: dict[str, str] = {}
    result = []
    for turn in turns:
        if turn.role == "assistant":
            new = {
                str(each["id"]): _new_id(str(each["id"]), taken) for each in turn.blocks if each.get("type") == TOOL_USE
            }
        result.append(replace(turn, blocks=tuple(_renamed(turn.blocks, new))))
    return tuple(result)


def _new_id(given: str, taken: set[str]) -> str:
    number, fresh = 0, given
    while fresh in taken or not _ID.fullmatch(fresh):
        fresh = f"call_{hashlib.sha256(f'{number}:{given}'.encode()).hexdigest()[:24]}"
        number += 1
    taken.add(fresh)
    return fresh


def _renamed(blocks: Iterable[Block], new: dict[str, str]) -> Iterable[Block]:
    keys = {TOOL_USE: "id", TOOL_RESULT: "tool_use_id"}
    for block in blocks:
        key = keys.get(str(block.get("type")))
        yield block if key is None else {**block, key: new[str(block[key])]}


def _attributed_roles(frame: Frame, said: Sequence[Candidate]) -> dict[str, list[str]]:
    """Return the names of the roles in which several people speak; everything they say is attributed."""
    speakers = dict.fromkeys((turn.role, turn.author) for turn in said)
    speakers |= {("user", frame.author): None}
    counts = Counter(role for role, name in speakers if name)
    return {
        role: [name for each, name in speakers if each == role and name]
        for role, number in counts.items()
        if number > 1
    }


def _history(
    frame: Frame, said: Sequence[Candidate], contents: Sequence[Content], crowds: dict[str, list[str]]
) -> list[Turn]:
    turns: list[Turn] = []
    before: Candidate | None = None
    for each, content in zip(said, contents, strict=False):
        if gap := _time_gap(before, each.session_id, each.created_at, frame.phrases):
            turns.append(Turn("user", (text_block(gap),)))
        turns += turns_of(frame, each, content, crowds)
        before = each
    return turns


def _attributed(blocks: tuple[Block, ...], name: str, names: Sequence[str]) -> tuple[Block, ...]:
    """Return blocks with their speaker's name in brackets; where a line begins with one, it loses its brackets."""
    forged = re.compile(rf"{_LINE_START}\[({'|'.join(map(re.escape, names))})\]")
    honest = [text_block(forged.sub(r"\1\2(\3)", text_of(block))) if is_text(block) else block for block in blocks]
    first = next((place for place, block in enumerate(honest) if is_text(block)), None)
    if first is not None and (first == 0 or has_tools(blocks)):
        honest[first] = text_block(f"[{name}] {text_of(honest[first])}")
        return tuple(honest)
    # Nothing may stand before thinking, and a call alone says nothing.
    return blocks if has_tools(blocks) else (text_block(f"[{name}]"), *honest)


def _time_gap(before: Candidate | None, session_id: str, at: str, phrases: Phrases) -> str:
    """Return the words between turns of different sessions, by the speakers' days; "" within one."""
    if before is None or before.session_id == session_id:
        return ""
    try:
        earlier, later = datetime.fromisoformat(before.created_at), datetime.fromisoformat(at)
        days, is_later = (later.date() - earlier.date()).days, later > earlier
    except (ValueError, TypeError):
        return phrases.gap_session
    if not is_later or days < 0:
        return phrases.gap_session
    return (phrases.gap_hours, phrases.gap_day)[days] if days < 2 else phrases.gap_days.format(days=days)


def _preface(frame: Frame, said: Sequence[Candidate], crowds: dict[str, list[str]]) -> list[Block]:
    """Return what stands before the user's text: what changes with each call, and is not the user's."""
    phrases, lines = frame.phrases, list[str]()
    at = "" if frame.now is None else frame.now.isoformat()
    gap = _time_gap(said[-1] if said else None, frame.session_id, at, phrases) if at else ""
    if frame.now is not None:
        weekday, written = phrases.weekdays[frame.now.weekday()], f"{frame.now:%Y-%m-%d %H:%M}"
        lines.append(phrases.clock.format(weekday=weekday, date=written, zone=frame.now.tzinfo))
    if "assistant" in crowds:  # its own turns begin with a name, which it would go on with
        lines.append(phrases.speakers)
    if "user" in crowds:
        lines.append(phrases.speaker.format(name=frame.author or phrases.unnamed["user"]))
    if frame.disclosed is not None:
        lines.append(phrases.disclosure.format(project=frame.disclosed))
    elif frame.proposed is not None:
        lines.append(phrases.proposing.format(project=frame.proposed))
    elif frame.offered:
        lines.append(phrases.asking.format(projects=", ".join(f"`{name}`" for name in frame.offered)))
    return [text_block("\n".join(part)) for part in ([gap] if gap else [], lines) if part]


def render_system(frame: Frame) -> str:
    """Return the operator's prompt and the sentences about the block.

    They stand there even without a block, and do not tell the nonce: `system` stays the same
    from call to call, so that providers can cache it.
    """
    prompt = frame.policy.system_prompt
    return f"{prompt}\n\n{frame.phrases.notice}" if prompt.strip() else frame.phrases.notice


def render_block(frame: Frame, candidates: Sequence[Candidate], contents: Contents) -> str:
    """Return the remembered block between its delimiters, or "" when nothing is remembered.

    Wishes stand first, under headings of their own. No text can forge one: none begins a line with `#`.
    """
    places = {layer: _places(layer, candidates, contents) for layer in REMEMBERED}
    wishes = [place for layer in (SEMANTIC, PROFILE) for place in places[layer] if candidates[place].is_wish]
    known = {layer: [place for place in places[layer] if place not in wishes] for layer in (PROFILE, SEMANTIC)}
    sections = {PINNED: places[PINNED], WISHES: wishes, **places, **known}
    parts = []
    for heading, chosen in sections.items():
        entries = [
            render_entry(candidates[place], contents[place], number=number, phrases=frame.phrases)
            for number, place in enumerate(chosen, start=1)
        ]
        if entries:
            parts.append("\n".join([frame.phrases.headings[heading], *entries]))
    if not parts:
        return ""
    return "\n".join([f"<remembered-{frame.nonce}>", "\n\n".join(parts), f"</remembered-{frame.nonce}>"])


def render_entry(candidate: Candidate, content: Content, *, number: int, phrases: Phrases) -> str:
    """Return one candidate as it is written: a numbered line, or a quoted text with its title."""
    text = plain_text(content, phrases.language)
    if candidate.layer == SESSION_SUMMARY:
        return quoted(text)
    if candidate.layer == PROJECT:
        title = f"### {candidate.title}\n" if candidate.title else ""
        return title + quoted(text)
    said = ""
    if candidate.layer == RECALL:
        date = candidate.created_at[:10]
        known = (date if _DATE.fullmatch(date) else "", candidate.role, candidate.author)
        said = f"[{' · '.join(part for part in known if part)}] "
    since = _since(candidate, phrases) if candidate.layer in (PINNED, PROFILE, SEMANTIC) else ""
    is_shown = phrases.relevance and candidate.relevance is not None
    relevance = f" ({phrases.relevance}: {candidate.relevance:.2f})" if is_shown else ""
    return f"{number}. {said}{one_line(text)}{since}{relevance}"


def _since(candidate: Candidate, phrases: Phrases) -> str:
    try:
        day = date.fromisoformat(candidate.created_at[:10])
    except ValueError:
        return ""
    written = phrases.since.format(day=day.day, month=phrases.months[day.month - 1], year=day.year)
    return f" ({written})"


def check_nonce(prompt: Prompt, nonce: str, *, has_block: bool) -> None:
    """Raise NonceCollision where any text but the block's two delimiters contains the nonce, in any case."""
    texts = [prompt.system, *(str(block) for turn in prompt.turns for block in turn.blocks)]
    found = sum(text.casefold().count(nonce) for text in texts)
    if found != (2 if has_block else 0):
        raise NonceCollision("a text contains the nonce of the remembered block; draw another")


def _merge_turns(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Merge neighbouring turns of one role, because providers want roles to alternate (SPEC X7)."""
    result: list[Turn] = []
    for turn in turns:
        if result and result[-1].role == turn.role:
            result[-1] = replace(result[-1], blocks=result[-1].blocks + turn.blocks)
        else:
            result.append(turn)
    return tuple(result)


def _places(layer: str, candidates: Sequence[Candidate], contents: Contents) -> list[int]:
    """Return a layer's places in the order in which they are written: past messages as they were said."""
    places = [place for place in sorted(contents) if candidates[place].layer == layer]
    return sorted(places, key=lambda place: candidates[place].created_at) if layer == RECALL else places
