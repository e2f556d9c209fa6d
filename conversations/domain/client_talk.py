"""Conversations as programs show them: what of them is talk, and which session holds it already (ADR 51). Pure."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from conversations.domain.content import is_text
from conversations.domain.messages import NewMessage, Role, text_of_blocks

EXAMPLE_NAMES: Final = frozenset({"example_user", "example_assistant"})
"""Names by which OpenAI marks the messages of an example."""

OPENING_LENGTH: Final = 120
"""Characters at the start of a message by which it is looked for: answers may come back cut."""

MAX_TASK_LENGTH: Final = 1_000
"""Characters among which the beginning of a program's question is looked for; policies have at most 255."""

WHITE_SPACE: Final = " \n\r\t"
QUESTIONS_COMPARED: Final = 3
"""Of the latest in a conversation; fewer would take another that began alike for it."""

DISTINCT_LENGTH: Final = 20
"""Characters from which an answer alone identifies a conversation; many begin with "Hello!"."""


@dataclass(frozen=True)
class ClientTalk:
    """A conversation: what was said before the question, the question, and what is shown behind it.

    `examples` are places in the history that are instructions of the call or a program's notes, not talk.
    """

    history: tuple[NewMessage, ...]
    asked: NewMessage
    after: tuple[NewMessage, ...] = ()
    examples: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Unstored:
    """Additions of programs to a user's messages: texts within some tags, and texts that begin in some way."""

    tags: tuple[str, ...]
    openings: tuple[str, ...] = ()


def talk_of(messages: Sequence[NewMessage], unstored: Unstored) -> ClientTalk | None:
    """Return a conversation by its last question, or its last tool results; None where it has neither.

    A message that holds nothing but what a program wraps in its tags is no question, if there is another.
    """
    places = [place for place, each in enumerate(messages) if each.role in (Role.USER, Role.TOOL)]
    notes = {place for place in places if _is_note(messages[place], unstored)}
    if not places:
        return None
    last = max((place for place in places if place not in notes), default=places[-1])
    history, asked, after = tuple(messages[:last]), messages[last], tuple(messages[last + 1 :])
    examples = {place for place, each in enumerate(history) if each.author in EXAMPLE_NAMES}
    return ClientTalk(history, asked, after, frozenset(examples | {place for place in notes if place < last}))


def _is_note(message: NewMessage, unstored: Unstored) -> bool:
    if message.role != Role.USER or not all(map(is_text, message.blocks or ())):
        return False
    texts = [message.content] if message.blocks is None else [block["text"] for block in message.blocks]
    return not any(_said(text, unstored) for text in texts)


def is_task(message: NewMessage, openings: Iterable[str]) -> bool:
    """Return whether a question begins as a program's, whatever the white space between its words."""
    start = " ".join(message.content[:MAX_TASK_LENGTH].split())
    return message.role == Role.USER and any(start.startswith(" ".join(opening.split())) for opening in openings)


def without_additions(message: NewMessage, unstored: Unstored) -> NewMessage:
    """Return a user's message without what a program adds to it; as it is where nothing else is in it."""
    if message.role != Role.USER:
        return message
    if message.blocks is None:
        content = _said(message.content, unstored)
        return replace(message, content=content) if content else message
    blocks = [
        {**block, "text": _said(block["text"], unstored)} if is_text(block) else block for block in message.blocks
    ]
    kept = [block for block in blocks if not is_text(block) or block["text"]]
    return replace(message, content=text_of_blocks(kept), blocks=kept) if kept else message


def _said(text: str, unstored: Unstored) -> str:
    result = "" if text.lstrip().startswith(unstored.openings) else text
    for tag in unstored.tags:
        opened, closed = f"<{tag}>", f"</{tag}>"
        parts, start = [], 0
        while (begin := result.find(opened, start)) >= 0 and (end := result.find(closed, begin)) >= 0:
            parts.append(result[start:begin])
            start = end + len(closed)
        result = "".join([*parts, result[start:]])
    return text if result == text else result.strip()


def opening_of(text: str) -> str:
    return text.strip(WHITE_SPACE)[:OPENING_LENGTH]


@dataclass(frozen=True)
class Said:
    """A stored message with an opening that the client shows."""

    session: Hashable
    seq: int
    role: str
    opening: str
    is_last: bool
    at: datetime


def session_of(history: Sequence[NewMessage], said: Iterable[Said]) -> Hashable | None:
    """Return the session that holds a conversation; None where none is sure to.

    It has an answer of some length, or the last questions. Of several: one with the last message, the most messages,
    the end; then the latest.
    """
    shown = [(each.role, opening_of(each.content)) for each in history if each.content.strip(WHITE_SPACE)]
    by_session = defaultdict(list)
    for each in said:
        by_session[each.session].append(each)
    found = []
    for session, rows in by_session.items():
        known = _aligned(shown, rows)
        if _is_sure(shown, known):
            last, latest = len(shown) - 1 in known, max(row.at for row in known.values())
            found.append((last, len(known), _ends(shown, known), latest, session))
    return max(found, key=lambda each: each[:-1])[-1] if found else None


def _aligned(shown: Sequence[tuple[Role, str]], rows: Iterable[Said]) -> dict[int, Said]:
    """Return the rows of messages by their places, in the same order, as late as possible."""
    known: dict[int, Said] = {}
    stored = sorted(rows, key=lambda row: row.seq, reverse=True)
    start = 0
    for place in reversed(range(len(shown))):
        match = next((n for n in range(start, len(stored)) if _looks(stored[n]) == shown[place]), None)
        if match is not None:
            known[place], start = stored[match], match + 1
    return known


def _looks(row: Said) -> tuple[str, str]:
    return row.role, row.opening


def _ends(shown: Sequence[tuple[Role, str]], known: dict[int, Said]) -> bool:
    """Return whether a session ends as a conversation does, with nothing between its last question and its end."""
    end = len(shown) - 1
    question = max((place for place in known if shown[place][0] == Role.USER), default=end)
    return end in known and known[end].is_last and known[end].seq - known[question].seq == end - question


def _is_sure(shown: Sequence[tuple[Role, str]], known: dict[int, Said]) -> bool:
    if any(shown[place][0] == Role.ASSISTANT and len(shown[place][1]) >= DISTINCT_LENGTH for place in known):
        return True
    questions = [place for place, (role, _opening) in enumerate(shown) if role == Role.USER][-QUESTIONS_COMPARED:]
    return bool(questions) and all(place in known for place in questions)
