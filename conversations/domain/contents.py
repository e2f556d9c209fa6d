"""What a message says: text, or blocks of text with references to images and files.

Blocks are neutral; `formats` turns them into a provider's. Unknown kinds of blocks are treated as
references, so that nothing that a client stored can stop an assembly.
"""

from typing import Final

from conversations.domain.cleaning import label, one_line
from conversations.domain.layers import Block, Content
from conversations.domain.phrases import Phrases

TEXT: Final = "text"
GIVEN_WAY: Final = "given_way"
"""Marks a reference that gave way: only its kind is still told."""


def text_block(text: str) -> Block:
    """Return a neutral text block."""
    return {"type": TEXT, "text": text}


def is_text(block: Block) -> bool:
    """Tell whether a block is text rather than a reference."""
    return block.get("type") == TEXT


def text_of(block: Block) -> str:
    """Return a text block's text; a malformed one has none."""
    text = block.get("text")
    return text if isinstance(text, str) else ""


def blocks_of(content: Content) -> tuple[Block, ...]:
    """Return the blocks that say something: blank text is left out, for providers refuse it."""
    blocks = (text_block(content),) if isinstance(content, str) else content
    return tuple(block for block in blocks if not is_text(block) or text_of(block).strip())


def stand_in(block: Block, phrases: Phrases) -> str:
    """Return the words for a reference that is not shown: `[image: name]`, or `[image]` once it gave way."""
    kind = label(str(block.get("type") or "file"))
    shown = phrases.attachments.get(kind, kind)
    name = label(str(block.get("name") or ""))
    return f"[{shown}: {name}]" if name and not block.get(GIVEN_WAY) else f"[{shown}]"


def plain_text(content: Content, phrases: Phrases) -> str:
    """Return content as text with its lines, references in words."""
    if isinstance(content, str):
        return content
    return "\n".join(
        text_of(block) if is_text(block) else stand_in(block, phrases) for block in blocks_of(content)
    )


def excerpt(content: Content, phrases: Phrases, longest: int = 200) -> str:
    """Return the beginning of content on one line."""
    return one_line(plain_text(content, phrases)[: longest * 8])[:longest]


def attachments_given_way(content: Content) -> list[Content]:
    """Return content with one more reference reduced to its kind each time, the first reference first."""
    if isinstance(content, str):
        return []
    stages: list[Content] = []
    blocks = list(content)
    for place, block in enumerate(blocks):
        if not is_text(block):
            blocks[place] = {"type": block.get("type"), GIVEN_WAY: True}
            stages.append(tuple(blocks))
    return stages
