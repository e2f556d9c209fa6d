"""Screen messages for secrets before they are stored or compared with stored ones (SPEC M13)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from conversations.domain.content import is_reference
from conversations.domain.messages import NewMessage, text_of_blocks
from conversations.models import Message
from memoryhub.auth.screening import Screening


def screen_message(message: NewMessage, screening: Screening) -> NewMessage:
    """Return a message as it is to be stored; `needs_review` where its text states a password, or by policy."""
    screening.needs_review = False
    blocks = None if message.blocks is None else [_block(block, screening) for block in message.blocks]
    is_derived = blocks is not None and message.content == text_of_blocks(message.blocks or ())
    return replace(
        message,
        content=text_of_blocks(blocks or ()) if is_derived else screening.text(message.content),
        blocks=blocks,
        **screening.columns(Message, {"author": message.author, "metadata": message.metadata}),
        needs_review=screening.needs_review,
    )


def _block(block: Mapping[str, Any], screening: Screening) -> Mapping[str, Any]:
    """Return a screened block; the bytes of an image or a file are not text."""
    if not is_reference(block):
        return dict(screening.json(block))
    return {key: value if key == "data" else screening.json(value) for key, value in block.items()}
