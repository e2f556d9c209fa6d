"""What goes in and out over REST for memories."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from conversations.api.serializers import MessageOut
from memoryhub.api.fields import (
    IdField,
    MomentField,
    ObjectField,
    OneOf,
    ReasonSerializer,
    StrictSerializer,
    StringField,
    TenantQuery,
    TenantSerializer,
    TextField,
)
from strength.actions.learning import GENERAL
from strength.actions.search import FoundMemory, MemoryFilters
from strength.actions.write import NewMemory
from strength.domain.memories import Kind, ScopeLevel, Source, Status
from strength.models import Memory, MemoryRevision, MemorySource

LONGEST_CONTENT = 100_000
MOST_DIMENSIONS = 16_000
STRONGEST = 1_000_000.0
DATE_TIME = serializers.DateTimeField()


def _values(words: type[Kind] | type[ScopeLevel] | type[Source] | type[Status]) -> list[str]:
    return [word.value for word in words]


class EmbeddingField(serializers.ListField):
    """A vector: finite numbers that fit half precision once scaled to unit length."""

    child = serializers.FloatField(min_value=-1e30, max_value=1e30)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"min_length": 1, "max_length": MOST_DIMENSIONS, **kwargs})


class StrengthsField(serializers.DictField):
    """Strength by perspective."""

    child = serializers.FloatField(min_value=0, max_value=STRONGEST)


class LearningsField(serializers.DictField):
    """What was learnt, by perspective."""

    child = TextField(max_length=10_000)


class TagsField(serializers.ListField):
    """At most 50 tags of at most 100 characters."""

    child = StringField(max_length=100)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_length": 50, **kwargs})


def _short_keys(value: dict[Any, Any]) -> None:
    if len(value) > 50 or any(not 0 < len(key) <= 100 for key in value):
        raise serializers.ValidationError("has at most 50 perspectives of 1 to 100 characters.")


class CuratedIn(StrictSerializer):
    """The values that people decide about."""

    content = TextField(max_length=LONGEST_CONTENT)
    kind = OneOf(choices=_values(Kind))
    namespace = StringField(max_length=500)
    tags = TagsField()
    scope_level = OneOf(choices=_values(ScopeLevel))
    scope_domain = StringField(max_length=255, allow_blank=True)
    scope_project = StringField(max_length=255, allow_blank=True)
    learnings = LearningsField(validators=[_short_keys])
    pinned = serializers.BooleanField()
    confidence = serializers.FloatField(min_value=0, max_value=1, allow_null=True)
    valid_from = MomentField(allow_null=True)
    valid_to = MomentField(allow_null=True)

    def get_fields(self) -> dict[str, serializers.Field]:
        """Return the fields, none of them required."""
        fields: dict[str, serializers.Field] = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields


class MemoryPatch(CuratedIn):
    """An edit: what is left out stays."""

    reason = TextField(required=False, allow_blank=True, max_length=1000)


class MemoryIn(CuratedIn, TenantSerializer):
    """A memory to write."""

    perspective = TextField(max_length=100)
    learning = TextField(max_length=10_000)
    strength = serializers.FloatField(min_value=0, max_value=STRONGEST)
    strength_by_perspective = StrengthsField(validators=[_short_keys])
    embedding = EmbeddingField()
    source_message_ids = serializers.ListField(child=IdField(), max_length=500)
    channel = StringField(max_length=100, allow_blank=True)

    def get_fields(self) -> dict[str, serializers.Field]:
        """Return the fields; whose memory it is, and its text, are required."""
        fields = super().get_fields()
        # `source` is a field's own attribute, so it cannot stand in the class body.
        fields["source"] = OneOf(choices=_values(Source), required=False)
        fields["agent_id"].required = fields["content"].required = True
        return fields

    @staticmethod
    def memory(values: dict[str, Any]) -> NewMemory:
        """Return validated values as a new memory."""
        names = {"agent_id", "user_id", "perspective", "learning"}
        given: dict[str, Any] = {key: value for key, value in values.items() if key not in names}
        for name, words in (("kind", Kind), ("scope_level", ScopeLevel), ("source", Source)):
            if name in given:
                given[name] = words(given[name])
        if "learning" in values:
            perspective = values.get("perspective", GENERAL)
            given["learnings"] = {**given.get("learnings", {}), perspective: values["learning"]}
        return NewMemory(**given)


class SupersedeIn(ReasonSerializer):
    """What holds instead of a memory, and since when."""

    content = TextField(max_length=LONGEST_CONTENT)
    tags = TagsField(required=False)
    source_message_ids = serializers.ListField(child=IdField(), max_length=500, required=False)
    channel = StringField(max_length=100, allow_blank=True, required=False)
    confidence = serializers.FloatField(min_value=0, max_value=1, allow_null=True, required=False)
    valid_from = MomentField(required=False)

    def get_fields(self) -> dict[str, serializers.Field]:
        """Return the fields; `source` is a field's own attribute, so it cannot stand in the class body."""
        return {**super().get_fields(), "source": OneOf(choices=_values(Source), required=False)}

    @staticmethod
    def memory(values: dict[str, Any]) -> NewMemory:
        """Return validated values as a new memory."""
        given = {key: value for key, value in values.items() if key not in {"reason", "valid_from"}}
        if "source" in given:
            given["source"] = Source(given["source"])
        return NewMemory(**given)


class SourceOut(serializers.ModelSerializer):
    """A message that a memory comes from."""

    class Meta:
        model = MemorySource
        fields = ("message_id", "session_id", "channel", "trust", "created_at")


class MemoryOut(serializers.ModelSerializer):
    """A memory with its numbers and where it comes from."""

    agent_id = serializers.CharField(source="actor.agent_id", read_only=True)
    user_id = serializers.CharField(source="actor.user_id", read_only=True)
    strength = serializers.FloatField(source="numbers.strength", read_only=True)
    access_count = serializers.IntegerField(source="numbers.access_count", read_only=True)
    candidate_count = serializers.IntegerField(source="numbers.candidate_count", read_only=True)
    last_accessed_at = serializers.DateTimeField(source="numbers.last_accessed_at", read_only=True)
    impact_score = serializers.FloatField(source="numbers.impact_score", read_only=True)
    consolidation_level = serializers.IntegerField(source="numbers.consolidation_level", read_only=True)
    last_decay_at = serializers.SerializerMethodField()
    strength_by_perspective = serializers.SerializerMethodField()
    superseded_by = serializers.UUIDField(source="superseded_by_id", read_only=True, allow_null=True)
    sources = SourceOut(many=True, read_only=True)

    class Meta:
        model = Memory
        fields = (
            "id", "agent_id", "user_id", "content", "namespace", "kind", "tags", "scope_level", "scope_domain",
            "scope_project", "status", "pinned", "locked", "source", "channel", "trust", "confidence", "strength",
            "strength_by_perspective", "access_count", "candidate_count", "last_accessed_at", "impact_score",
            "consolidation_level", "learnings", "valid_from", "valid_to", "superseded_by", "sources", "version",
            "created_at", "updated_at", "last_decay_at",
        )  # fmt: skip

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_last_decay_at(self, memory: Memory) -> str | None:
        """Return up to when its decay is reckoned, None where it never decayed."""
        moment = memory.numbers.last_decay_at
        return None if moment == memory.created_at else DATE_TIME.to_representation(moment)

    def get_strength_by_perspective(self, memory: Memory) -> dict[str, float]:
        """Return the strength in each perspective that the memory was used from."""
        return {each.perspective: each.now(memory.numbers) for each in memory.perspectives.all()}


class MemoryQuery(TenantQuery):
    """Which memories are listed or counted."""

    status = OneOf(choices=[*_values(Status), "all"], default=Status.ACTIVE.value)
    kind = OneOf(choices=_values(Kind), required=False)
    namespace = StringField(required=False, max_length=500)
    tag = StringField(required=False, max_length=100)
    pinned = serializers.BooleanField(required=False, allow_null=True, default=None)


class MemoryListQuery(MemoryQuery):
    """Which memories are listed, and in which order."""

    ordering = OneOf(
        choices=[
            "created_at",
            "-created_at",
            "strength",
            "-strength",
            "last_accessed_at",
            "-last_accessed_at",
        ],
        default="-created_at",
    )
    limit = serializers.IntegerField(required=False, min_value=1, max_value=500)
    cursor = StringField(required=False)


class CountOut(serializers.Serializer):
    """How many there are."""

    count = serializers.IntegerField()


class KindsField(serializers.ListField):
    """One kind, or a list of kinds."""

    child = OneOf(choices=_values(Kind))

    def to_internal_value(self, data: Any) -> list[str]:
        """Return the kinds as a list."""
        return list(super().to_internal_value([data] if isinstance(data, str) else data))


class FiltersIn(StrictSerializer):
    """What a search is narrowed to."""

    kind = KindsField(required=False)
    namespace = StringField(required=False, max_length=500)
    tags = TagsField(required=False)
    status = OneOf(choices=_values(Status), required=False)
    created_after = MomentField(required=False)
    created_before = MomentField(required=False)
    as_of = MomentField(required=False)

    @staticmethod
    def filters(values: dict[str, Any]) -> MemoryFilters:
        """Return validated values as filters."""
        renamed = {"kind": "kinds"}
        return MemoryFilters(**{renamed.get(key, key): value for key, value in values.items()})


class SearchIn(TenantSerializer):
    """What to search for: a text, or a vector."""

    query = TextField(required=False, max_length=LONGEST_CONTENT)
    embedding = EmbeddingField(required=False)
    perspective = TextField(required=False, allow_null=True, max_length=100, default=None)
    project = TextField(required=False, allow_null=True, max_length=255, default=None)
    limit = serializers.IntegerField(required=False, min_value=0, max_value=200)
    candidate_limit = serializers.IntegerField(required=False, min_value=1, max_value=1000)
    similarity_threshold = serializers.FloatField(required=False, min_value=-1, max_value=1)
    filters = FiltersIn(required=False, default=dict)
    include_messages = serializers.BooleanField(default=False)
    mark_candidates = serializers.BooleanField(default=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the values; raises a validation error without exactly one of query and embedding."""
        if ("query" in attrs) == ("embedding" in attrs):
            raise serializers.ValidationError({"query": ["Send either a query or an embedding."]})
        return attrs


class RetrieveIn(TenantSerializer):
    """What to retrieve the best of each namespace for."""

    query = TextField(max_length=LONGEST_CONTENT)
    config = ObjectField(required=False)


class FoundMemoryOut(serializers.Serializer):
    """A memory with the scores that brought it here."""

    memory = MemoryOut()
    similarity = serializers.FloatField(source="breakdown.similarity_raw", allow_null=True)
    final_score = serializers.FloatField()
    score_breakdown = serializers.SerializerMethodField()

    def get_score_breakdown(self, found: FoundMemory) -> dict[str, float | None]:
        """Return the parts of the score by name."""
        return found.breakdown.as_dict()


class FoundMessageOut(serializers.Serializer):
    """A past message with the scores that brought it here."""

    message = MessageOut()
    similarity = serializers.FloatField(source="similarity_raw", allow_null=True)
    final_score = serializers.FloatField(source="relevance")
    score_breakdown = serializers.DictField(source="breakdown")


class SearchOut(serializers.Serializer):
    """The best memories; with `include_messages`, the best past messages after them."""

    results = serializers.ListField(child=serializers.DictField())
    candidate_count = serializers.IntegerField()
    degraded = serializers.ListField(child=serializers.CharField())


class RetrieveOut(serializers.Serializer):
    """The best of each namespace."""

    namespaces = serializers.DictField(child=serializers.ListField(child=serializers.DictField()))
    degraded = serializers.ListField(child=serializers.CharField())


class RevisionOut(serializers.ModelSerializer):
    """One curated change."""

    by = serializers.SerializerMethodField()

    class Meta:
        model = MemoryRevision
        fields = ("id", "number", "verb", "by", "reason", "changed_before", "changed_after", "created_at")

    def get_by(self, revision: MemoryRevision) -> dict[str, str]:
        """Return who made the change."""
        return {"kind": revision.who_kind, "id": revision.who_id, "name": revision.who_name}


class RestoreIn(ReasonSerializer):
    """Which revision to bring back."""

    revision_id = IdField()
