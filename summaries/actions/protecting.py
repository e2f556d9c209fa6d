"""What a compaction would leave untouched in a document, and why, for people who look (SPEC P7)."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from memoryhub.tenancy.domain import Trust
from summaries.domain.compaction import NEVER_COMPACTED, YOUNG, Block, Protection, blocks_of, kept_places
from summaries.domain.documents import PIN, line_digest
from summaries.models import Document, DocumentEntry


class Why(StrEnum):
    """Why a block stays as it is."""

    WHOLE = "whole"
    PINNED = "pinned"
    DOUBTED = "doubted"
    YOUNG = "young"
    FRAME = "frame"
    """It is the title, what the project is about, or stands above or below what is protected."""


@dataclass(frozen=True)
class Kept:
    """A block that stays word for word."""

    text: str = field(repr=False)
    why: Why


def kept_blocks(*, document: Document, now: datetime) -> list[Kept]:
    """Return the blocks of a document that no compaction rewrites, in their order."""
    blocks = blocks_of(document.text)
    if document.name == NEVER_COMPACTED:
        return [Kept(block.text, Why.WHOLE) for block in blocks if block.text.strip()]
    digests = _digests(document, now)
    protection = Protection.at(now, frozenset(digests))
    places = sorted(kept_places(blocks, protection))
    return [Kept(blocks[place].text, _why(blocks[place], digests, protection)) for place in places]


def _digests(document: Document, now: datetime) -> dict[bytes, Why]:
    """Return the digests of the entries that are kept; of several reasons the strongest counts."""
    rows = DocumentEntry.objects.filter(actor_id=document.actor_id, document=document)
    whys: dict[bytes, Why] = {}
    for digest, pinned, trust, created_at in rows.values_list("text_digest", "pinned", "trust", "created_at"):
        if pinned:
            whys[bytes(digest)] = Why.PINNED
        elif trust == Trust.UNTRUSTED:
            whys[bytes(digest)] = Why.DOUBTED
        elif created_at > now - YOUNG:
            whys[bytes(digest)] = Why.YOUNG
    return whys


def _why(block: Block, digests: dict[bytes, Why], protection: Protection) -> Why:
    if PIN in block.text:
        return Why.PINNED
    for line in block.text.splitlines():
        if line_digest(line) in digests:
            return digests[line_digest(line)]
    return Why.YOUNG if protection.covers(block) else Why.FRAME
