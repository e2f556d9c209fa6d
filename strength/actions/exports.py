"""Memories as a table for people: CSV, to be opened in a spreadsheet. What is loss-free is JSON Lines (SPEC M12)."""

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from memoryhub.importexport.writing import Whose, snapshot
from strength.models import Memory

COLUMNS = {
    "agent_id": "actor__agent_id", "user_id": "actor__user_id", "id": "id", "kind": "kind", "namespace": "namespace",
    "content": "content", "tags": "tags", "status": "status", "pinned": "pinned", "trust": "trust",
    "source": "source", "channel": "channel", "confidence": "confidence", "scope_level": "scope_level",
    "scope_domain": "scope_domain", "scope_project": "scope_project", "strength": "numbers__strength",
    "access_count": "numbers__access_count", "last_accessed_at": "numbers__last_accessed_at",
    "consolidation_level": "numbers__consolidation_level", "valid_from": "valid_from", "valid_to": "valid_to",
    "superseded_by": "superseded_by_id", "created_at": "created_at", "updated_at": "updated_at",
}  # fmt: skip
ROWS_AT_ONCE = 500
# Spreadsheets take a cell that begins so for a formula, which may send away what stands beside it.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
MARK = "\ufeff"
"""Without it spreadsheets read Japanese in another encoding; Python reads it as `utf-8-sig`."""


def memories_as_csv(whose: Whose) -> Iterator[bytes]:
    """Yield the memories of these actors, a header first; a cell that a spreadsheet would run begins with a `'`."""
    yield from rows_as_csv(Memory.objects.filter(actor__in=whose.actors()))


def rows_as_csv(memories: QuerySet[Memory]) -> Iterator[bytes]:
    """Yield these memories, a header first."""
    yield (MARK + _line(list(COLUMNS))).encode()
    rows = memories.order_by("actor__agent_id", "actor__user_id", "id")
    with snapshot():
        for values in rows.values_list(*COLUMNS.values()).iterator(chunk_size=ROWS_AT_ONCE):
            yield _line([_cell(value) for value in values]).encode()


def _line(cells: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        value = ", ".join(value)
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULA) else text
