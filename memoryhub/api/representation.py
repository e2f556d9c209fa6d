"""Fast output of serializers: what is the same for all rows is found out once.

Serializers stay as REST framework declares them, and write the same. For every field of every row it looks up the
kind of the row, of the value and of the field's source again; that took two thirds of the time of an answer.
"""

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias

from django.db.models import Manager
from rest_framework.fields import Field, SkipField
from rest_framework.serializers import ListSerializer, Serializer

Getter: TypeAlias = Callable[[Any], Any]
Writer: TypeAlias = Callable[[Any], Any]


def represent(serializer: Callable[[], Any], rows: Sequence[Any]) -> list[Any]:
    """Return `serializer(rows, many=True).data` as plain lists and dictionaries."""
    write = _writer_of(serializer)
    return [write(row) for row in rows]


@cache
def _writer_of(serializer: Callable[[], Any]) -> Writer:
    return _writer(serializer())


def _writer(field: Field[Any, Any, Any, Any]) -> Writer:
    if type(field).to_representation is Serializer.to_representation:
        return _object_writer(field)  # type: ignore[arg-type]
    if type(field).to_representation is ListSerializer.to_representation:
        write = _writer(field.child)  # type: ignore[attr-defined]
        return lambda rows: [write(row) for row in (rows.all() if isinstance(rows, Manager) else rows)]
    return field.to_representation


def _object_writer(serializer: Serializer[Any]) -> Writer:
    fields = [
        (str(each.field_name), _getter(each), _writer(each))
        for each in serializer.fields.values()
        if not each.write_only
    ]

    def write(row: Any) -> dict[str, Any]:
        shown = {}
        for name, get, write_field in fields:
            try:
                value = get(row)
            except SkipField:
                continue
            shown[name] = None if value is None else write_field(value)
        return shown

    return write


def _getter(field: Field[Any, Any, Any, Any]) -> Getter:
    """Return what reads a field's value: of dictionaries, methods and missing attributes as the field itself does."""
    if type(field).get_attribute is not Field.get_attribute or not field.source_attrs:
        return field.get_attribute
    get = attrgetter(".".join(field.source_attrs))

    def value_of(row: Any) -> Any:
        try:
            value = get(row)
        except Exception:
            return field.get_attribute(row)
        return field.get_attribute(row) if callable(value) else value

    return value_of
