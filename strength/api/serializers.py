"""Memories over REST as they come in and go out: fields, bodies, filters and answers."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from memoryhub.api.fields import (
    MAX_JSON_BYTES,
    ChangedByOut,
    EntriesField,
    IdField,
    ItemsField,
    MomentField,
    MomentOrDayField,
    ObjectField,
    OneOf,
    OwnedOut,
    ReasonSerializer,
    StrictSerializer,
    StringField,
    TenantSerializer,
    TextField,
    moment_of,
)
from memoryhub.auth.access import Tenant
from memoryhub.tenancy.policies import zone_of
from memoryhub.tenancy.policy import Trust
from memoryhub.validators import UnusableJSON, parse_json
from strength.actions.drafts import NewMemory
from strength.actions.filters import ALL, MemorySelection
from strength.actions.tasks import DEFAULT_PERSPECTIVE
from strength.domain.memories import MAX_CONTENT_LENGTH, MAX_CUES_LENGTH, Kind, ScopeLevel, Source, Status
from strength.models import Memory, MemoryRevision, MemorySource

MAX_DIMENSIONS = 16_000


MAX_STRENGTH = 1_000_000.0


DATE_TIME = serializers.DateTimeField()


def values_of(enum: type[Kind] | type[ScopeLevel] | type[Source] | type[Status]) -> list[str]:
    return [item.value for item in enum]


class EmbeddingField(ItemsField):
    """A vector: finite numbers that fit half precision once scaled to unit length."""

    child = serializers.FloatField(min_value=-1e30, max_value=1e30)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"min_length": 1, "max_length": MAX_DIMENSIONS, **kwargs})


class StrengthsField(EntriesField):
    child = serializers.FloatField(min_value=0, max_value=MAX_STRENGTH)


class LearningsField(EntriesField):
    child = TextField(max_length=10_000)


class TagsField(ItemsField):
    """At most 50 tags of at most 100 characters."""

    child = StringField(max_length=100)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_length": 50, **kwargs})


def _validate_finite(value: float) -> None:
    if not math.isfinite(value):
        raise serializers.ValidationError("must be a number.")


def _validate_key_lengths(value: dict[Any, Any]) -> None:
    if len(value) > 50 or any(not 0 < len(key) <= 100 for key in value):
        raise serializers.ValidationError("has at most 50 perspectives of 1 to 100 characters.")


class CuratedIn(StrictSerializer):
    """The fields that people may edit; all are optional."""

    content = TextField(max_length=MAX_CONTENT_LENGTH)
    kind = OneOf(choices=values_of(Kind))
    namespace = StringField(max_length=500)
    tags = TagsField()
    scope_level = OneOf(choices=values_of(ScopeLevel))
    scope_domain = StringField(max_length=255, allow_blank=True)
    scope_project = StringField(max_length=255, allow_blank=True)
    learnings = LearningsField(validators=[_validate_key_lengths])
    metadata = ObjectField()
    cues = TextField(max_length=MAX_CUES_LENGTH, allow_blank=True)
    pinned = serializers.BooleanField()
    confidence = serializers.FloatField(min_value=0, max_value=1, allow_null=True)
    valid_from = MomentField(allow_null=True)
    valid_to = MomentField(allow_null=True)

    def get_fields(self) -> dict[str, serializers.Field]:
        fields: dict[str, serializers.Field] = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields


class MemoryPatch(CuratedIn):
    """A partial update: fields that are left out stay as they are."""

    reason = TextField(required=False, allow_blank=True, max_length=1000)


class MemoryItemIn(CuratedIn):
    """A memory to write, of an actor that is named beside it."""

    perspective = TextField(max_length=100)
    learning = TextField(max_length=10_000)
    strength = serializers.FloatField(min_value=0, max_value=MAX_STRENGTH)
    strength_by_perspective = StrengthsField(validators=[_validate_key_lengths])
    embedding = EmbeddingField()
    source_message_ids = ItemsField(child=IdField(), max_length=500)
    channel = StringField(max_length=100, allow_blank=True)

    def get_fields(self) -> dict[str, serializers.Field]:
        fields = super().get_fields()
        # Not in the class body, as `source` is an attribute of serializers.
        fields["source"] = OneOf(choices=values_of(Source), required=False)
        fields["content"].required = True
        return fields


class MemoryIn(MemoryItemIn, TenantSerializer):
    """A memory to write."""

    def get_fields(self) -> dict[str, serializers.Field]:
        fields = super().get_fields()
        fields["agent_id"].required = True
        return fields


class SupersedeIn(ReasonSerializer):
    """A memory that replaces another, and the time from which it is valid."""

    content = TextField(max_length=MAX_CONTENT_LENGTH)
    tags = TagsField(required=False)
    source_message_ids = ItemsField(child=IdField(), max_length=500, required=False)
    channel = StringField(max_length=100, allow_blank=True, required=False)
    confidence = serializers.FloatField(min_value=0, max_value=1, allow_null=True, required=False)
    valid_from = MomentField(required=False)

    def get_fields(self) -> dict[str, serializers.Field]:
        return {**super().get_fields(), "source": OneOf(choices=values_of(Source), required=False)}


def new_memory(values: dict[str, Any], *, has_idempotency_key: bool = False) -> NewMemory:
    """Return the validated values of a body as a new memory."""
    names = {"agent_id", "user_id", "perspective", "learning", "reason"}
    arguments: dict[str, Any] = {key: value for key, value in values.items() if key not in names}
    for name, enum in (("kind", Kind), ("scope_level", ScopeLevel), ("source", Source)):
        if name in arguments:
            arguments[name] = enum(arguments[name])
    if "learning" in values:
        perspective = values.get("perspective", DEFAULT_PERSPECTIVE)
        arguments["learnings"] = {**arguments.get("learnings", {}), perspective: values["learning"]}
    return NewMemory(**arguments, has_idempotency_key=has_idempotency_key)


class SourceOut(serializers.ModelSerializer):
    """A message that a memory was drawn from."""

    class Meta:
        model = MemorySource
        fields = ("message_id", "session_id", "channel", "trust", "created_at")


class MemoryOut(OwnedOut, serializers.ModelSerializer):
    """A memory with its numbers and its sources."""

    strength = serializers.FloatField(read_only=True)
    access_count = serializers.IntegerField(source="numbers.access_count", read_only=True)
    candidate_count = serializers.IntegerField(source="numbers.candidate_count", read_only=True)
    last_accessed_at = serializers.DateTimeField(source="numbers.last_accessed_at", read_only=True)
    impact_score = serializers.FloatField(source="numbers.impact_score", read_only=True)
    consolidation_level = serializers.IntegerField(source="numbers.consolidation_level", read_only=True)
    last_decay_at = serializers.SerializerMethodField()
    strength_by_perspective = serializers.SerializerMethodField()
    superseded_by = serializers.UUIDField(source="superseded_by_id", read_only=True, allow_null=True)
    sources = SourceOut(many=True, read_only=True, source="source_rows")

    class Meta:
        model = Memory
        fields = (
            "id", "agent_id", "user_id", "content", "namespace", "kind", "tags", "scope_level", "scope_domain",
            "scope_project", "status", "pinned", "locked", "source", "channel", "trust", "confidence", "strength",
            "strength_by_perspective", "access_count", "candidate_count", "last_accessed_at", "impact_score",
            "consolidation_level", "learnings", "metadata", "cues", "said_on", "valid_from", "valid_to",
            "superseded_by", "sources", "version", "created_at", "updated_at", "last_decay_at",
        )  # fmt: skip

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_last_decay_at(self, memory: Memory) -> str | None:
        """Return the time up to which decay was applied; None for a memory that never decayed."""
        moment = memory.numbers.decayed_until(memory.state)
        return None if moment == memory.created_at else DATE_TIME.to_representation(moment)

    def get_strength_by_perspective(self, memory: Memory) -> dict[str, float]:
        return {
            perspective.perspective: memory.numbers.of_perspective(perspective, memory.state)
            for perspective in memory.perspective_rows
        }


@extend_schema_field({"type": "string", "maxLength": MAX_JSON_BYTES})
class ObjectTextField(ObjectField):
    """A JSON object as text, in a query string."""

    default_error_messages = {"text": "must have at most {longest} characters."}

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if isinstance(data, str):
            if len(data) > MAX_JSON_BYTES:
                self.fail("text", longest=MAX_JSON_BYTES)
            try:
                data = parse_json(data.encode("utf-8", "surrogatepass"))
            except UnusableJSON:
                self.fail("invalid")
        return super().to_internal_value(data)


class SelectionSerializer(serializers.Serializer):
    """Filters of memories, in query strings and bodies; `kind`, `tag` and `source` may be repeated."""

    status = OneOf(choices=[*values_of(Status), ALL], default=Status.ACTIVE.value)
    kind = ItemsField(child=OneOf(choices=values_of(Kind)), required=False, max_length=50)
    namespace = StringField(required=False, max_length=500)
    tag = TagsField(required=False, help_text="All of them.")
    trust = OneOf(choices=[trust.value for trust in Trust], required=False)
    channel = StringField(required=False, allow_blank=True, max_length=100)
    text = TextField(required=False, max_length=1000, help_text="Part of the content, in any case.")
    pinned = serializers.BooleanField(required=False, allow_null=True, default=None)
    metadata = ObjectTextField(
        required=False, help_text="A JSON object that the metadata contain, or whose operators ($gt, …) hold."
    )
    ended = serializers.BooleanField(default=False, help_text="Whether superseded and expired ones are included.")
    as_of = MomentOrDayField(required=False)
    created_after = MomentField(required=False)
    created_before = MomentField(required=False)
    updated_after = MomentField(required=False)
    updated_before = MomentField(required=False)
    used_after = MomentField(required=False)
    used_before = MomentField(required=False)
    min_strength = serializers.FloatField(
        required=False, min_value=0, max_value=MAX_STRENGTH, validators=[_validate_finite]
    )
    max_strength = serializers.FloatField(
        required=False, min_value=0, max_value=MAX_STRENGTH, validators=[_validate_finite]
    )

    def get_fields(self) -> dict[str, serializers.Field]:
        sources = ItemsField(child=OneOf(choices=values_of(Source)), required=False, max_length=50)
        return {**super().get_fields(), "source": sources}

    @staticmethod
    def selection(values: Mapping[str, Any], tenant: Tenant) -> MemorySelection:
        """Return validated values as a selection."""
        names = {field.name for field in fields(MemorySelection)}
        selected = {name: value for name, value in values.items() if name in names}
        if "as_of" in selected:
            selected["as_of"] = moment_of(selected["as_of"], zone_of(tenant.agent, tenant.actor))
        return MemorySelection(**selected)


class RevisionOut(ChangedByOut, serializers.ModelSerializer):
    class Meta:
        model = MemoryRevision
        fields = ("id", "number", "verb", "by", "reason", "changed_before", "changed_after", "created_at")
