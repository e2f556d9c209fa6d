"""Fast output of serializers: what REST framework itself would write."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from rest_framework import serializers

from memoryhub.api.views import represent


class Colour(StrEnum):
    RED = "red"


@dataclass
class Part:
    name: str
    weight: float | None = None


@dataclass
class Thing:
    id: UUID
    part: Part | None
    parts: list[Any] = field(default_factory=list)
    colour: Colour = Colour.RED
    made_at: datetime | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def tagline(self) -> str:
        return f"thing {self.id.int}"


class PartOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    weight = serializers.FloatField()


class SpecialOut(PartOut):
    def to_representation(self, instance: Any) -> Any:
        return {**super().to_representation(instance), "special": True}


class ThingOut(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    part = PartOut()
    parts = PartOut(many=True)
    special = SpecialOut(source="part")
    name = serializers.CharField(source="part.name", allow_null=True, default=None)
    colour = serializers.ChoiceField(choices=["red"])
    made_at = serializers.DateTimeField()
    tagline = serializers.CharField()
    size = serializers.IntegerField(source="extra.size", default=7)
    absent = serializers.CharField(required=False)
    extra = serializers.DictField(child=serializers.IntegerField())
    secret = serializers.CharField(write_only=True)
    whole = serializers.SerializerMethodField()

    def get_whole(self, thing: Thing) -> str:
        return f"{thing.colour}!"


def test_writes_what_the_serializer_writes() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    rows = [
        Thing(UUID(int=1), Part("a", 1.5), [Part("b"), {"name": "c", "weight": 2}], made_at=moment, extra={"size": 3}),
        Thing(UUID(int=2), None),
    ]

    assert represent(ThingOut, rows) == list(ThingOut(rows, many=True).data)
    assert represent(ThingOut, []) == []


def test_writes_dictionaries_as_the_serializer_does() -> None:
    rows = [{"name": "a", "weight": 1}, {"name": "b", "weight": None}]

    assert represent(PartOut, rows) == list(PartOut(rows, many=True).data)
