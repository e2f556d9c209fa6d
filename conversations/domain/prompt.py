"""Render a context in neutral form: one delimited block of remembered text, then the turns.

Remembered text is in the user's turns (SPEC X6), between two lines with a nonce that the text cannot know, each memory
on one line, longer texts quoted line by line; wishes and data have headings of their own. What changes with every call
(the clock, the author) is in the last message, so that everything before it can be cached.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import chain
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
    STABLE,
    WISHES,
    WORKING,
    Candidate,
    Contents,
    Phrases,
)
from conversations.domain.policy import DEFAULT_POLICY, WITH_USER_MESSAGE, ContextPolicy
from memoryhub.look_alikes import BLANK, CONTROLS, IGNORABLE, JOINERS, looks

MIN_GAP: Final = timedelta(hours=1)
"""Between two sessions, from which their gap is named."""

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_PHRASES_WITHOUT_SCORES: Final = {language: replace(phrases, relevance="") for language, phrases in PHRASES.items()}
_BREAKS: Final = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_OPENING, _CLOSING = r"\[［⁅⟦〚【〔❲", r"\]］⁆⟧〛】〕❳"
_BRACKETS: Final = re.compile(
    rf"((?:^|[{_BREAKS}])(?:[^\S{_BREAKS}]|[{CONTROLS}{IGNORABLE}{JOINERS}{BLANK}])*+)"
    rf"[{_OPENING}]([^{_CLOSING}{_BREAKS}]++)[{_CLOSING}]"
)
"""A text in brackets at a line's start. Blanks exclude breaks, or a run of carriage returns takes quadratic time."""


class NonceCollision(ValueError):
    """A text contains the nonce and could forge the block's closing line; retry with another nonce."""


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
    """The texts around the candidates, which are never cut, and options of rendering.

    `nonce`: 16 lower-case hexadecimal digits, random for each call. `disclosed`: the project that the model must name
    in its answer, because the router was not sure; `offered` and `proposed`: projects, and a new one, about which the
    model asks the user. `author` wrote the message, in the session `session_id`, with the images and files of
    `attachments`; `parts` are all of these in their order, where that is known. `now` is the time in the user's zone,
    None for a context without a clock.
    """

    message: str
    attachments: tuple[Block, ...] = ()
    parts: tuple[Block, ...] = ()
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
        """Return the phrases of the language, without one for relevance unless the policy includes it."""
        return (PHRASES if self.policy.include_relevance else _PHRASES_WITHOUT_SCORES)[self.language]


def render(frame: Frame, candidates: Sequence[Candidate], contents: Contents) -> Prompt:
    places = _places(WORKING, candidates, contents)
    past = [candidates[place] for place in places if not candidates[place].is_current]
    names_by_role = _attributed_roles(frame, past)
    history = _history(frame, past, [contents[place] for place in places], names_by_role)
    stable, remembered = (
        [Turn("user", (text_block(block),))] if block else []
        for block in (render_block(frame, candidates, part) for part in remembered_parts(frame, candidates, contents))
    )
    text = (text_block(frame.message),) if frame.message.strip() else ()  # of an image alone
    blocks = (*_preface(frame, past, names_by_role), *(frame.parts or (*frame.attachments, *text)))
    message = [Turn("user", blocks)]
    for place in places[len(past) :]:
        message += turns_of(frame, candidates[place], contents[place])
    if frame.policy.placement == WITH_USER_MESSAGE:
        # Merged first, so that the mark counts the blocks of the merged message.
        history = list(_merge_turns([*stable, *history]))
        if history:
            history[-1] = replace(history[-1], cache_after=len(history[-1].blocks) - 1)
        turns = [*history, *remembered, *message]
    else:
        turns = [*remembered, *history, *message]
    if turns[0].role == "assistant":  # some providers refuse a conversation that starts with the assistant
        turns.insert(0, Turn("user", (text_block(frame.phrases.opener),)))
    return Prompt(render_system(frame), _with_ids(_merge_turns(turns)), frame.policy.cache)


def turns_of(
    frame: Frame, message: Candidate, content: Content, names_by_role: dict[str, list[str]] | None = None
) -> list[Turn]:
    """Return a message as turns: tool results are a turn of the user right after the calls."""
    if message.is_doubted:
        name = message.author or frame.phrases.unnamed.get(message.role, message.role)
        quote = f"{frame.phrases.doubted.format(name=name)}\n{quoted(plain_text(content, frame.language))}"
        return [Turn("user", (text_block(quote),))]
    with_calls = frame.policy.include_tools and message.role == "assistant"
    blocks, results = blocks_and_results(content, frame.language, with_calls=with_calls)
    if names_by_role and message.role in names_by_role:
        name = message.author or frame.phrases.unnamed.get(message.role, message.role)
        blocks = _attributed(blocks, name, names_by_role[message.role])
    return [Turn(role, part) for role, part in ((message.role, blocks), ("user", results)) if part]


_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Ids of calls that both vendors accept."""


def _with_ids(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Replace duplicate ids of calls, and those that a vendor does not accept."""
    used: set[str] = set()
    new: dict[str, str] = {}
    result = []
    for turn in turns:
        if turn.role == "assistant":
            new = {
                str(each["id"]): _new_id(str(each["id"]), used) for each in turn.blocks if each.get("type") == TOOL_USE
            }
        result.append(replace(turn, blocks=tuple(_renamed(turn.blocks, new))))
    return tuple(result)


def _new_id(original: str, used: set[str]) -> str:
    number, unique = 0, original
    while unique in used or not _ID.fullmatch(unique):
        unique = f"call_{hashlib.sha256(f'{number}:{original}'.encode()).hexdigest()[:24]}"
        number += 1
    used.add(unique)
    return unique


def _renamed(blocks: Iterable[Block], new: dict[str, str]) -> Iterable[Block]:
    keys = {TOOL_USE: "id", TOOL_RESULT: "tool_use_id"}
    for block in blocks:
        key = keys.get(str(block.get("type")))
        yield block if key is None else {**block, key: new[str(block[key])]}


def _attributed_roles(frame: Frame, messages: Sequence[Candidate]) -> dict[str, list[str]]:
    """Return authors' names by role, of roles with several authors; their messages are attributed."""
    speakers = dict.fromkeys((message.role, message.author) for message in messages if not message.is_doubted)
    speakers |= {("user", frame.author): None}
    counts = Counter(role for role, name in speakers if name)
    return {
        role: [name for each, name in speakers if each == role and name]
        for role, number in counts.items()
        if number > 1
    }


def _history(
    frame: Frame, messages: Sequence[Candidate], contents: Sequence[Content], names_by_role: dict[str, list[str]]
) -> list[Turn]:
    turns: list[Turn] = []
    before: Candidate | None = None
    for each, content in zip(messages, contents, strict=False):
        if gap := _time_gap(before, each.session_id, each.created_at, frame.phrases):
            turns.append(Turn("user", (text_block(gap),)))
        turns += turns_of(frame, each, content, names_by_role)
        before = each
    return turns


def _attributed(blocks: tuple[Block, ...], name: str, names: Sequence[str]) -> tuple[Block, ...]:
    """Return blocks with the author's name in brackets; what looks like one of the names loses them at line starts."""

    known = frozenset(chain.from_iterable(map(looks, names)))

    def without_brackets(match: re.Match[str]) -> str:
        return f"{match[1]}({match[2]})" if looks(match[2]) & known else match[0]

    honest = [
        text_block(_BRACKETS.sub(without_brackets, text_of(block))) if is_text(block) else block for block in blocks
    ]
    first = next((place for place, block in enumerate(honest) if is_text(block)), None)
    if first is not None and (first == 0 or has_tools(blocks)):
        honest[first] = text_block(f"[{name}] {text_of(honest[first])}")
        return tuple(honest)
    # Thinking must come first, and a message of calls only has no text to attribute.
    return blocks if has_tools(blocks) else (text_block(f"[{name}]"), *honest)


def _time_gap(before: Candidate | None, session_id: str, at: str, phrases: Phrases) -> str:
    """Return the phrase between messages of different sessions, by local dates; "" within a session or an hour."""
    if before is None or before.session_id == session_id:
        return ""
    try:
        earlier, later = datetime.fromisoformat(before.created_at), datetime.fromisoformat(at)
        days, passed = (later.date() - earlier.date()).days, later - earlier
    except (ValueError, TypeError):
        return phrases.gap_session
    if passed <= timedelta() or days < 0:
        return phrases.gap_session
    if passed < MIN_GAP:
        return ""
    return (phrases.gap_hours, phrases.gap_day)[days] if days < 2 else phrases.gap_days.format(days=days)


def _preface(frame: Frame, past: Sequence[Candidate], names_by_role: dict[str, list[str]]) -> list[Block]:
    """Return the notes before the user's text, which change with each call."""
    phrases, lines = frame.phrases, list[str]()
    at = "" if frame.now is None else frame.now.isoformat()
    gap = _time_gap(past[-1] if past else None, frame.session_id, at, phrases) if at else ""
    if frame.now is not None:
        weekday, written = phrases.weekdays[frame.now.weekday()], f"{frame.now:%Y-%m-%d %H:%M}"
        lines.append(phrases.clock.format(weekday=weekday, date=written, zone=frame.now.tzinfo))
    if "assistant" in names_by_role:  # otherwise the model starts its answer with a name, as the history does
        lines.append(phrases.speakers)
    if "user" in names_by_role:
        lines.append(phrases.speaker.format(name=frame.author or phrases.unnamed["user"]))
    if frame.disclosed is not None:
        lines.append(phrases.disclosure.format(project=frame.disclosed))
    elif frame.proposed is not None:
        lines.append(phrases.proposing.format(project=frame.proposed))
    elif frame.offered:
        lines.append(phrases.asking.format(projects=", ".join(f"`{name}`" for name in frame.offered)))
    return [text_block("\n".join(part)) for part in ([gap] if gap else [], lines) if part]


def render_system(frame: Frame) -> str:
    """Return the operator's prompt and the notice about the block.

    Without the nonce, and also without a block, so that `system` is the same for each call and can be cached.
    """
    prompt = frame.policy.system_prompt
    return f"{prompt}\n\n{frame.phrases.notice}" if prompt.strip() else frame.phrases.notice


def remembered_parts(frame: Frame, candidates: Sequence[Candidate], contents: Contents) -> tuple[Contents, Contents]:
    """Return the contents of the stable block, if the policy has one, and of the other."""
    layers = STABLE if frame.policy.has_stable_block else ()
    stable = {place: content for place, content in contents.items() if candidates[place].layer in layers}
    return stable, {place: content for place, content in contents.items() if place not in stable}


def render_block(frame: Frame, candidates: Sequence[Candidate], contents: Contents) -> str:
    """Return the remembered block between its delimiters, or "" without contents.

    Wishes come first, under separate headings. No text can forge a heading, as none begins a line with `#`.
    """
    places = {layer: _places(layer, candidates, contents) for layer in REMEMBERED}
    places[PROFILE].sort(key=lambda place: candidates[place].rank)
    wishes = [place for layer in (SEMANTIC, PROFILE) for place in places[layer] if candidates[place].is_wish]
    known = {layer: [place for place in places[layer] if place not in wishes] for layer in (PROFILE, SEMANTIC)}
    sections = {PINNED: places[PINNED], WISHES: wishes, **places, **known}
    parts = []
    for heading, chosen in sections.items():
        lines = [frame.phrases.headings[heading]]
        for kind, group in _by_kind(heading, chosen, candidates, frame.phrases).items():
            lines += [f"### {frame.phrases.kinds[kind]}"] if kind else []
            lines += [
                render_entry(candidates[place], contents[place], number=number, phrases=frame.phrases)
                for number, place in enumerate(group, start=1)
            ]
        if chosen:
            parts.append("\n".join(lines))
    if not parts:
        return ""
    return "\n".join([f"<remembered-{frame.nonce}>", "\n\n".join(parts), f"</remembered-{frame.nonce}>"])


def _by_kind(
    heading: str, places: Sequence[int], candidates: Sequence[Candidate], phrases: Phrases
) -> dict[str, Sequence[int]]:
    """Return the places by kind of memory; all are "" under other headings than the profile's."""
    kinds = ("", *phrases.kinds) if heading == PROFILE else ("",)
    groups = {kind: [place for place in places if candidates[place].kind == kind] for kind in kinds}
    return {kind: group for kind, group in groups.items() if group}


def render_entry(candidate: Candidate, content: Content, *, number: int, phrases: Phrases) -> str:
    """Return a candidate as a numbered line, or as a quoted text with its title."""
    text = plain_text(content, phrases.language)
    if candidate.layer == SESSION_SUMMARY:
        return quoted(text)
    if candidate.layer == PROJECT:
        title = f"### {candidate.title}\n" if candidate.title else ""
        return title + quoted(text)
    attribution = ""
    if candidate.layer == RECALL:
        date = candidate.created_at[:10]
        known = (date if _DATE.fullmatch(date) else "", candidate.role, candidate.author)
        attribution = f"[{' · '.join(part for part in known if part)}] "
    since = _since(candidate, phrases) if candidate.layer in (PINNED, PROFILE, SEMANTIC) else ""
    is_shown = phrases.relevance and candidate.relevance is not None
    relevance = f" ({phrases.relevance}: {candidate.relevance:.2f})" if is_shown else ""
    return f"{number}. {attribution}{one_line(text)}{since}{relevance}"


def _since(candidate: Candidate, phrases: Phrases) -> str:
    try:
        day = date.fromisoformat(candidate.created_at[:10])
    except ValueError:
        return ""
    written = phrases.since.format(day=day.day, month=phrases.months[day.month - 1], year=day.year)
    return f" ({written})"


def check_nonce(prompt: Prompt, nonce: str, *, block_count: int) -> None:
    """Raise NonceCollision if any text but the blocks' delimiters, two each, contains the nonce in any case."""
    texts = [prompt.system, *(str(block) for turn in prompt.turns for block in turn.blocks)]
    found = sum(text.casefold().count(nonce) for text in texts)
    if found != 2 * block_count:
        raise NonceCollision("a text contains the nonce of the remembered block; draw another")


def _merge_turns(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Merge neighbouring turns of one role, as providers require alternating roles (SPEC X7)."""
    result: list[Turn] = []
    for turn in turns:
        if result and result[-1].role == turn.role:
            result[-1] = replace(result[-1], blocks=result[-1].blocks + turn.blocks)
        else:
            result.append(turn)
    return tuple(result)


def _places(layer: str, candidates: Sequence[Candidate], contents: Contents) -> list[int]:
    """Return a layer's places in order of rendering: past messages by time."""
    places = [place for place in sorted(contents) if candidates[place].layer == layer]
    return sorted(places, key=lambda place: candidates[place].created_at) if layer == RECALL else places
