"""Relations of extracted statements to known ones, and their resolution (SPEC M8-M10).

Pure. A model names the pairs of new and known statements that are equivalent or contradict each other; rules of this
module decide what follows, never the model.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from conversations.domain.content import one_line
from memoryhub.llm.types import array_schema, object_schema
from memoryhub.search.analysis import COMPOUND, analyse, is_unspaced
from strength.domain.extraction import list_at
from strength.domain.memories import TombstoneReason

MAX_STATEMENT_LENGTH: Final = 1_000
MAX_SUPERSEDED: Final = 3
"""Most known statements that one new statement may supersede, which bounds the damage of a wrong answer."""


class Relation(StrEnum):
    """Relation of two statements; pairs that the model does not name are unrelated or not compared."""

    SAME = "same"
    DIFFERENT = "different"
    CONTRADICTS = "contradicts"


class KnownState(StrEnum):
    """State of a known statement; `REJECTED` and `CORRECTED` are decisions of a person."""

    CURRENT = "current"
    PENDING = "pending"
    ENDED = "ended"
    REJECTED = "rejected"
    CORRECTED = "corrected"


REJECTING_STATES: Final = {KnownState.REJECTED: TombstoneReason.REJECTED, KnownState.CORRECTED: TombstoneReason.EDITED}


@dataclass(frozen=True)
class KnownMemory:
    """A statement that is or was remembered; last confirmed at `said_at`, valid until `ended_at`.

    `decided_at` is the time of a person's decision against it. `is_trusted`: its source is, or a person read it.
    """

    memory_id: UUID
    text: str = field(repr=False)
    state: KnownState
    said_at: datetime
    ended_at: datetime | None = None
    decided_at: datetime | None = None
    is_trusted: bool = True


class Action(StrEnum):
    WRITE = "write"
    REINFORCE = "reinforce"
    SUPERSEDE = "supersede"
    WRITE_AS_PAST = "write_as_past"
    BLOCK = "block"


@dataclass(frozen=True)
class Resolution:
    """Resolution of a new statement; `resembles` is a rejected or corrected text, so that it needs review.

    `is_uncompared`: it has not been compared with all rejected and corrected texts, and waits until it is.
    """

    action: Action
    about: tuple[KnownMemory, ...] = ()
    resembles: KnownMemory | None = None
    is_uncompared: bool = False


Related = Mapping[KnownMemory, Relation]
"""Relations of one new statement."""

JUDGING_SCHEMA: Final = object_schema(
    {
        "pairs": array_schema(
            object_schema(
                {
                    "new": {"type": "integer"},
                    "known": {"type": "integer"},
                    "verdict": {"type": "string", "enum": [relation.value for relation in Relation]},
                }
            )
        ),
        "compared": array_schema({"type": "integer"}),
    }
)

_HEADINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"known": "known", "new": "new"},
    "ja": {"known": "既知", "new": "新規"},
}


def statement_blocks(known: Sequence[KnownMemory], new: Sequence[str], *, language: str) -> dict[str, str]:
    """Return the prompt's blocks of known and new statements, numbered from 1, by heading."""
    words = _HEADINGS.get(language, _HEADINGS["en"])
    blocks = {words["known"]: [each.text for each in known], words["new"]: new}
    return {
        heading: "\n".join(f"{number}. {one_line(text)[:MAX_STATEMENT_LENGTH]}" for number, text in enumerate(texts, 1))
        for heading, texts in blocks.items()
    }


def relations(data: Any, *, known: int, new: int) -> dict[int, dict[int, Relation]]:
    """Return relations by the positions, from 0, of new and known statements; of several for a pair the strongest."""
    found: dict[int, dict[int, Relation]] = {}
    for pair in list_at(data, "pairs"):
        if not isinstance(pair, Mapping) or pair.get("verdict") not in list(Relation):
            continue
        new_position, place = _position(pair.get("new"), new), _position(pair.get("known"), known)
        if new_position is None or place is None:
            continue
        of_new, relation = found.setdefault(new_position, {}), Relation(pair["verdict"])
        of_new[place] = max(of_new.get(place, relation), relation, key=list(Relation).index)
    return found


def compared_places(data: Any, *, new: int) -> set[int]:
    """Return the positions of the new statements, from 0, that a model reports as compared.

    An answer without pairs may mean that none is related, or that the model did not compare.
    """
    places = (_position(number, new) for number in list_at(data, "compared"))
    return {place for place in places if place is not None}


def resolve(
    related: Related,
    *,
    said_at: datetime,
    is_trusted: bool,
    near: Collection[KnownMemory] = (),
    uncompared: Collection[KnownMemory] = (),
) -> Resolution:
    """Decide what becomes of a new statement by its relations to the known ones.

    A person's decision takes precedence. A repeated statement reinforces the known one, unless that has ended before. A
    contradiction ends what was said before it; a statement about an earlier time is written as past.

    `near` are rejected and corrected texts with similar wording: those without a relation need review, as do untrusted
    equivalents, which may have been written to keep out what is true. `uncompared` are such texts that the statement
    was not compared with: it waits until it is, unless they are untrusted.
    """
    same = [known for known, relation in related.items() if relation is Relation.SAME]
    against = [known for known in same if known.state in REJECTING_STATES]
    if certain := [known for known in against if known.is_trusted or not is_trusted]:
        return Resolution(Action.BLOCK, tuple(certain[:1]))
    if again := [known for known in same if _still_holds(known, said_at, is_trusted)]:
        return Resolution(Action.REINFORCE, tuple(again[:1]))
    doubts = [*against, *(known for known in near if known not in related)]
    is_uncompared = any(known.is_trusted or not is_trusted for known in uncompared if known not in related)
    return replace(
        _write_resolution(related, said_at), resembles=doubts[0] if doubts else None, is_uncompared=is_uncompared
    )


def _write_resolution(related: Related, said_at: datetime) -> Resolution:
    contradicted = [known for known, relation in related.items() if relation is Relation.CONTRADICTS]
    current = [each for each in contradicted if each.state is KnownState.CURRENT]
    if later := [each for each in current if each.said_at > said_at]:
        return Resolution(Action.WRITE_AS_PAST, (min(later, key=lambda each: each.said_at),))
    if current:
        return Resolution(Action.SUPERSEDE, tuple(current[:MAX_SUPERSEDED]))
    return Resolution(Action.WRITE)


def _still_holds(known: KnownMemory, said_at: datetime, is_trusted: bool) -> bool:
    if known.state is KnownState.ENDED:
        return known.ended_at is not None and said_at <= known.ended_at
    # A pending memory is approved by its exact text only: a trusted paraphrase does not activate it.
    return known.state is KnownState.CURRENT or (known.state is KnownState.PENDING and not is_trusted)


def _position(number: Any, size: int) -> int | None:
    is_valid = isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= size
    return number - 1 if is_valid else None


MIN_SHARED_SUBJECT: Final = 0.3
"""Minimum share of a rejected text's subject terms in common: one of three."""

STEM_LENGTH: Final = 4
"""Leading letters by which words are compared: "spicy" and "spiced", "violin" and "violinist"."""

MIN_PART_LENGTH: Final = 3
"""Minimum length of a katakana word to match within a longer one: 「ハム」 is no part of 「ハムスター」."""

_NON_SUBJECT_TERMS: Final = "user like love enjoy prefer favorit favourit fond fan hate dislik 好 嫌 愛 気 入"
_NON_SUBJECT: Final = frozenset(_NON_SUBJECT_TERMS.split())
"""Terms of the speaker and of preference, which paraphrases change."""

_KATAKANA: Final = re.compile(f"{COMPOUND}(?!ユーザ)[\u30a1-\u30fa\u30fc]+")


def resembles(text: str, decided: str) -> bool:
    """Return whether a text shares enough subject terms with one decided against to be possibly equivalent.

    Subject terms are words, in Japanese single characters: 「激辛」 shares one with 「辛い」. Katakana words match
    their compounds, as 「コーヒー」 「ブラックコーヒー」.
    """
    subject, other = _subject_terms(decided), _subject_terms(text)
    shared = [word for word in subject if word in other or any(_is_part(word, each) for each in other)]
    return bool(subject) and len(shared) >= MIN_SHARED_SUBJECT * len(subject)


def _is_part(one: str, other: str) -> bool:
    shorter, longer = sorted((one.strip(COMPOUND), other.strip(COMPOUND)), key=len)
    return one[0] == other[0] == COMPOUND and len(shorter) >= MIN_PART_LENGTH and shorter in longer


def _subject_terms(text: str) -> set[str]:
    return {
        term[:STEM_LENGTH] if term.isascii() else term
        for term in analyse(text)
        if (_KATAKANA.fullmatch(term) if term[0] == COMPOUND else len(term) == 1 or not is_unspaced(term))
        and term not in _NON_SUBJECT
    }
