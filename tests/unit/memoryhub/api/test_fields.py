"""Fields that refuse what is too long before they look at its parts."""

import pytest
from rest_framework import serializers

from memoryhub.api.fields import MAX_ENTRIES, MAX_UNKNOWN_FIELDS, EntriesField, ItemsField, StrictSerializer


class Body(StrictSerializer):
    items = ItemsField(child=serializers.IntegerField(), max_length=3, required=False)
    entries = EntriesField(child=serializers.IntegerField(), required=False)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("items", ["x"] * 4, "Ensure this field has no more than 3 elements."),
        ("entries", {str(key): "x" for key in range(MAX_ENTRIES + 1)}, "must have at most 1000 entries."),
    ],
)
def test_length_is_checked_before_the_parts(field: str, value: object, error: str) -> None:
    body = Body(data={field: value})
    assert not body.is_valid()
    assert body.errors[field] == [error]


def test_parts_are_checked_where_the_length_is_right() -> None:
    body = Body(data={"items": [1, "x"], "entries": {"a": "x"}})
    assert not body.is_valid()
    assert set(body.errors) == {"items", "entries"}
    assert list(body.errors["items"]) == [1]


def test_unknown_fields_are_named_up_to_a_number() -> None:
    body = Body(data={f"x{number:05}": 1 for number in range(50_000)})
    assert not body.is_valid()
    assert list(body.errors) == [f"x{number:05}" for number in range(MAX_UNKNOWN_FIELDS)]
