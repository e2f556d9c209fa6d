"""Screen messages for secrets before they are stored or compared with stored ones (SPEC M13)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from conversations.domain.content import is_reference
from conversations.domain.messages import NewMessage, text_of_blocks
from conversations.models import Message
from memoryhub.auth.screening import Screening

MAX_NAME_LENGTH: Final = 255


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
    """Return a screened block. The bytes of an image or a file are not text; an address loses more than a secret.

    A model that is sent an address without its signature or password cannot open it, so its name alone is kept.
    """
    if not is_reference(block):
        return dict(screening.json(block))
    screened = {key: value if key == "data" else screening.json(value) for key, value in block.items()}
    if screened.get("url") != block.get("url"):
        screened["name"] = screened.get("name") or str(screened["url"])[:MAX_NAME_LENGTH]
        del screened["url"]
    return screened
