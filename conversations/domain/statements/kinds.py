"""Kinds of speech, messages as evidence, and their sentences. Pure."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final


class Speech(StrEnum):
    """Kind of speech that a statement is drawn from; the values are those of a model's answer."""

    OWN = "own_statement"
    QUESTION = "question"
    HYPOTHESIS = "hypothesis"
    JOKE = "joke"
    FICTION = "fiction"
    ROLE_PLAY = "role_play"
    QUOTATION = "quotation"
    OTHER_PERSON = "other_person"
    ASSISTANT = "assistant"
    TALK = "talk"


DROPPED: Final = frozenset({Speech.ASSISTANT, Speech.TALK})
"""What no person needs to look at: the assistant's own words, and reports of the conversation itself."""


@dataclass(frozen=True)
class Spoken:
    """A message as evidence; `said_at` is by the speaker's clock."""

    text: str = field(repr=False)
    is_users: bool
    said_at: datetime
    author: str = field(default="", repr=False)


@dataclass(frozen=True)
class Sentence:
    text: str = field(repr=False)
    speech: Speech
