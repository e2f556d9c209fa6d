"""Pages of Hindsight's API v1 (`manage.py import --url`): the memories of banks. Pure.

A bank is a user. Memories are worded by a model, and wait for review; the documents that they come from are counted.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote

from django.utils.translation import gettext_noop

from memoryhub.importexport.foreign.archives import Archive, first_values, json_files, records_of
from memoryhub.importexport.foreign.formats.honcho import is_page
from memoryhub.importexport.foreign.records import (
    MAX_MEMORY_LENGTH,
    MEMORIES,
    SAVED_MEMORY,
    ImportedMemory,
    LocatedRecord,
    Omission,
    Record,
    Refusal,
    UnreadableElement,
    checked_text,
    checked_user,
    mapping,
    objects,
    parse_time,
    usable_tags,
)
from memoryhub.importexport.native.jsonl import MAX_LINE_BYTES

SERVICE: Final = "hindsight"
SIGN: Final = "pages of `memories` of banks"
DOCUMENTS: Final = gettext_noop("documents that the memories were drawn from.")
KINDS: Final = {"experience": "episode"}
"""Kinds of memories by Hindsight's types; others are facts."""


def recognises(archive: Archive) -> bool:
    return any(is_page(value, SERVICE) for value in first_values(archive, json_files(archive)))


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    yield from records_of(
        archive, json_files(archive), lambda page: read_page(page, now), record_name=MEMORIES, max_bytes=MAX_LINE_BYTES
    )


def read_page(page: Any, now: datetime) -> Iterator[Record]:
    """Yield the memories of a page. Raises UnreadableElement."""
    if not is_page(page, SERVICE):
        raise UnreadableElement("it is no page of Hindsight's.")
    path, items = str(page.get("path")), objects(page["items"])
    if path.endswith("/documents") and items:
        yield Omission(DOCUMENTS, len(items))
    elif path.endswith("/memories/list"):
        bank = checked_user(unquote(path.split("/")[-3]))
        for item in items:
            try:
                yield _memory(item, bank, now)
            except UnreadableElement as error:
                yield Refusal(MEMORIES, str(error))


def _memory(item: Mapping[str, Any], bank: str, now: datetime) -> ImportedMemory:
    since = parse_time(item.get("mentioned_at") or item.get("date"))
    return ImportedMemory(
        checked_text(str(item.get("text") or ""), MAX_MEMORY_LENGTH),
        kind=KINDS.get(str(item.get("fact_type") or item.get("type")), "fact"),
        user_id=bank,
        tags=usable_tags(item.get("tags")),
        since=since if since is None or since <= now else None,
        needs_review=True,
        metadata={**mapping(item.get("metadata")), "origin": SAVED_MEMORY},
    )
