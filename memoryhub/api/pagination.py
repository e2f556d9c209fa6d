"""Cursor pagination: stable under inserts, constant cost per page.

A cursor encodes one value per ordering column, and a checksum of the list it belongs to. DRF's own follows no
relation, loses rows whose value is NULL, loops where a thousand rows share one value, and fails on forged cursors.
"""

import json
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

from django.core.exceptions import ValidationError as InvalidValue
from django.db import DataError
from django.db.models import Q, QuerySet
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from memoryhub.api.fields import StringField
from memoryhub.api.problems import Problem

DEFAULT_LIMIT = 50
MAX_LIMIT = 500
MAX_PAGE_CHARACTERS = 1_000_000
"""Characters of the rows of one page, after which it ends: 500 rows of 9 kB took seconds of a core."""

FIRST_PORTION = 50
"""Rows that are read before it is known how long they are."""

MAX_CURSOR_LENGTH = 8_000
"""A name of 255 characters takes 2,000, and a cursor has at most three."""


class PageQuery(serializers.Serializer):
    """Query parameters of a page, for the schema; `CursorPagination` reads them itself."""

    limit = serializers.IntegerField(required=False, min_value=1, max_value=MAX_LIMIT)
    cursor = StringField(required=False, max_length=MAX_CURSOR_LENGTH)


@cache  # one schema component for all lists of the same item
def page_of(item: type[serializers.BaseSerializer]) -> serializers.Serializer:
    """Return the serializer that describes a page of items in the schema."""
    fields: dict[str, Any] = {
        "next": serializers.URLField(allow_null=True),
        "previous": serializers.URLField(allow_null=True),
        "results": item(many=True),
    }
    return inline_serializer(f"{item.__name__.removesuffix('Out')}Page", fields)


@dataclass(frozen=True)
class Cursor:
    """Position before or after a row: its value in each ordering column, as text."""

    values: Sequence[str]
    of_list: int
    backwards: bool = False

    def encoded(self) -> str:
        return urlsafe_b64encode(json.dumps([self.backwards, self.of_list, *self.values]).encode()).decode()

    @classmethod
    def decoded(cls, text: str, *, columns: int, of_list: int) -> "Cursor":
        """Decode a cursor. Raises ValueError for an invalid one, and for one of another list."""
        if len(text) > MAX_CURSOR_LENGTH:
            raise ValueError("longer than any cursor")
        backwards, belongs_to, *values = json.loads(urlsafe_b64decode(text.encode("ascii")))
        if belongs_to != of_list:
            raise ValueError("a cursor counts for the list and the filters that it was given for")
        if len(values) != columns or not all(isinstance(value, str) for value in values):
            raise ValueError("a cursor has one text per ordering column")
        return cls(values, of_list, bool(backwards))


class CursorPagination(BasePagination):
    """`{"next", "previous", "results"}`; `limit` sets the page's size.

    `ordering` ends in a unique column; all of its columns go in the same direction, and none is ever NULL.
    """

    ordering: Sequence[str] = ("-created_at", "-id")

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.request = request
        limit = _limit(request.query_params.get("limit", str(DEFAULT_LIMIT)))
        try:
            text = request.query_params.get("cursor")
            cursor = (
                None
                if text is None
                else Cursor.decoded(text, columns=len(self.ordering), of_list=self._list_checksum())
            )
            rows = self._rows(queryset, cursor, limit + 1)
        except (InvalidValue, ValueError, TypeError, RecursionError, DataError):
            raise Problem(
                400,
                "cursor_invalid",
                "The cursor was not given by this list with these filters. Start again without a cursor.",
            ) from None
        shown = _within_size(rows[:limit])
        has_more, backwards = len(rows) > len(shown), cursor is not None and cursor.backwards
        page = shown[::-1] if backwards else shown
        has_next = bool(page) and (backwards or has_more)
        has_previous = bool(page) and (has_more if backwards else cursor is not None)
        self._next = self._address(page[-1]) if has_next else None
        self._previous = self._address(page[0], backwards=True) if has_previous else None
        return page

    def _rows(self, queryset: Any, cursor: Cursor | None, limit: int) -> list[Any]:
        """Return the first rows beyond the cursor, and no more than one page and some of long ones.

        They are read in portions: 500 rows of 9 kB would take a tenth of a second of the interpreter.
        """
        rows, size, portion = list[Any](), 0, min(limit, FIRST_PORTION)
        while portion:
            read = self.fetch(queryset, cursor, portion)
            rows += read
            size += sum(map(_size, read))
            if len(read) < portion or size > MAX_PAGE_CHARACTERS:
                break
            fitting = (MAX_PAGE_CHARACTERS - size) * len(rows) // max(size, 1) + 1
            portion = min(limit - len(rows), max(fitting, FIRST_PORTION))
            cursor = self._cursor(rows[-1], backwards=cursor is not None and cursor.backwards)
        return rows

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"next": self._next, "previous": self._previous, "results": data})

    def fetch(self, queryset: QuerySet[Any], cursor: Cursor | None, limit: int) -> list[Any]:
        """Return the first rows beyond the cursor."""
        return list(self.beyond(queryset, cursor, self.ordering)[:limit])

    def beyond(self, queryset: QuerySet[Any], cursor: Cursor | None, ordering: Sequence[str]) -> QuerySet[Any]:
        """Return the rows beyond the cursor, in its direction; `ordering` may name the columns otherwise."""
        descends = self.ordering[0].startswith("-") != (cursor is not None and cursor.backwards)
        columns = [column.lstrip("-") for column in ordering]
        rows = queryset.order_by(*(f"-{column}" if descends else column for column in columns))
        return rows if cursor is None else rows.filter(_beyond(columns, cursor.values, descends=descends))

    def _address(self, row: Any, *, backwards: bool = False) -> str:
        cursor = self._cursor(row, backwards=backwards)
        address: str = replace_query_param(self.request.build_absolute_uri(), "cursor", cursor.encoded())
        return address

    def _cursor(self, row: Any, *, backwards: bool) -> Cursor:
        values = [str(reduce(getattr, column.lstrip("-").split("__"), row)) for column in self.ordering]
        return Cursor(values, self._list_checksum(), backwards)

    def _list_checksum(self) -> int:
        """Return a checksum of path, ordering and filters; a page's size may change on the way."""
        filters = sorted(
            (name, value)
            for name, values in self.request.query_params.lists()
            if name not in {"cursor", "limit"}
            for value in values
        )
        return zlib.crc32(repr((self.request.path, tuple(self.ordering), filters)).encode())


def _within_size(rows: list[Any]) -> list[Any]:
    """Return the first rows up to MAX_PAGE_CHARACTERS, at least one."""
    size = 0
    for place, row in enumerate(rows):
        size += _size(row)
        if place and size > MAX_PAGE_CHARACTERS:
            return rows[:place]
    return rows


def _size(row: Any) -> int:
    return sum(len(value) for value in vars(row).values() if isinstance(value, str)) if hasattr(row, "pk") else 0


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= MAX_LIMIT):
        raise ValidationError({"limit": [f"must be a whole number from 1 to {MAX_LIMIT}."]})
    return int(text)


def _beyond(columns: Sequence[str], values: Sequence[str], *, descends: bool) -> Q:
    operator = "lt" if descends else "gt"
    # Redundant with the next condition, but this part can use an index.
    beyond = Q(**{f"{columns[0]}__{operator}e": values[0]})
    condition = Q()
    for index, column in enumerate(columns):
        equal_prefix = dict(zip(columns[:index], values[:index], strict=True))
        condition |= Q(**equal_prefix, **{f"{column}__{operator}": values[index]})
    return beyond & condition
