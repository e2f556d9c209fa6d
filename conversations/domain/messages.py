"""What a message is before it is stored: its role, its text, and the numbers it gets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

TEXT_BLOCK = "text"


class Role(StrEnum):
    """Who speaks, in the providers' terms."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


SPOKEN = (Role.USER, Role.ASSISTANT)
"""What people and assistants said; the rest is kept, and stays out of searches and contexts (SPEC C2)."""


# The names that older clients send as a message's type: each is an assistant with a name of its own.
ASSISTANT_NAMES = ("kana", "yuno")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message as a client sends it; `created_at` None means now."""

    role: Role
    content: str
    blocks: Sequence[Mapping[str, Any]] | None = None
    author: str = ""
    client_message_id: str | None = None
    created_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def role_and_author(role: str, author: str) -> tuple[Role, str]:
    """Return the role and the author that a role, or one of the assistants' names, stands for."""
    if role in ASSISTANT_NAMES:
        return Role.ASSISTANT, author or role
    return Role(role), author


def text_of_blocks(blocks: Sequence[Mapping[str, Any]]) -> str:
    """Return what a message's blocks say in words: its text blocks, one after the other."""
    return "\n".join(block["text"] for block in blocks if block["type"] == TEXT_BLOCK)


@dataclass(frozen=True, slots=True)
class Numbered:
    """A new message with the `seq` it gets."""

    seq: int
    message: NewMessage


@dataclass(frozen=True, slots=True)
class Placement:
    """Where each message of a batch goes: a new row, or the `client_message_id` it repeats.

    `order` has one entry per message of the batch, in its order: a `seq` for those that get a row,
    a `client_message_id` for repeats.
    """

    new: tuple[Numbered, ...]
    order: tuple[int | str, ...]


def place(batch: Sequence[NewMessage], *, known: frozenset[str], last_seq: int) -> Placement:
    """Number the messages of a batch after `last_seq`, leaving out repeats.

    `known` are the batch's client ids that the session has stored already; an id that stands twice
    in the batch gets one row.
    """
    new: list[Numbered] = []
    order: list[int | str] = []
    taken = set(known)
    for message in batch:
        if message.client_message_id is not None and message.client_message_id in taken:
            order.append(message.client_message_id)
            continue
        if message.client_message_id is not None:
            taken.add(message.client_message_id)
        new.append(Numbered(last_seq + len(new) + 1, message))
        order.append(new[-1].seq)
    return Placement(tuple(new), tuple(order))
