"""Memories over REST: read, write, curate."""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Q, Value
from django.db.models.functions import Coalesce
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

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
    TenantQuery,
    TenantSerializer,
    TextField,
    moment_of,
)
from memoryhub.api.pagination import Cursor, CursorPagination, PageQuery, page_of
from memoryhub.api.views import IF_MATCH, ApiView, etag, operation
from memoryhub.auth.access import Tenant, UnknownRow
from memoryhub.auth.principals import Scope
from memoryhub.embeddings.spaces import text_query
from memoryhub.tenancy.policies import zone_of
from memoryhub.tenancy.policy import Trust
from memoryhub.validators import UnusableJSON, parse_json
from strength.actions.curation import apply_transition, delete_memory, edit_memory, restore_revision
from strength.actions.drafts import NewMemory
from strength.actions.filters import ALL, MemorySelection, page_by_strength, select_memories, strengths_of
from strength.actions.forgetting import delete_with_sources, remaining_sources
from strength.actions.memories import supersede_memory, write_memory
from strength.actions.search import MemorySearch, search_memories
from strength.actions.tasks import DEFAULT_PERSPECTIVE
from strength.actions.tombstones import BlockedByTombstone
from strength.domain.memories import MAX_CONTENT_LENGTH, Kind, ScopeLevel, Source, Status
from strength.models import Memory, MemoryQuerySet, MemoryRevision, MemorySource
from strength.models.memory import load_memories

MAX_DIMENSIONS = 16_000
MAX_FOUND = 200
MAX_STRENGTH = 1_000_000.0
DATE_TIME = serializers.DateTimeField()
ORDERINGS = {"created_at": "created_at", "strength": "strength", "last_accessed_at": "last_used"}


def _choices(enum: type[Kind] | type[ScopeLevel] | type[Source] | type[Status]) -> list[str]:
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
    kind = OneOf(choices=_choices(Kind))
    namespace = StringField(max_length=500)
    tags = TagsField()
    scope_level = OneOf(choices=_choices(ScopeLevel))
    scope_domain = StringField(max_length=255, allow_blank=True)
    scope_project = StringField(max_length=255, allow_blank=True)
    learnings = LearningsField(validators=[_validate_key_lengths])
    metadata = ObjectField()
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
        fields["source"] = OneOf(choices=_choices(Source), required=False)
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
        return {**super().get_fields(), "source": OneOf(choices=_choices(Source), required=False)}


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
            "consolidation_level", "learnings", "metadata", "said_on", "valid_from", "valid_to", "superseded_by",
            "sources", "version", "created_at", "updated_at", "last_decay_at",
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

    status = OneOf(choices=[*_choices(Status), ALL], default=Status.ACTIVE.value)
    kind = ItemsField(child=OneOf(choices=_choices(Kind)), required=False, max_length=50)
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
        sources = ItemsField(child=OneOf(choices=_choices(Source)), required=False, max_length=50)
        return {**super().get_fields(), "source": sources}

    @staticmethod
    def selection(values: Mapping[str, Any], tenant: Tenant) -> MemorySelection:
        """Return validated values as a selection."""
        names = {field.name for field in fields(MemorySelection)}
        selected = {name: value for name, value in values.items() if name in names}
        if "as_of" in selected:
            selected["as_of"] = moment_of(selected["as_of"], zone_of(tenant.agent, tenant.actor))
        return MemorySelection(**selected)


class MemoryQuery(TenantQuery, SelectionSerializer):
    """An actor's memories that match filters."""


class MemoryListQuery(MemoryQuery, PageQuery):
    ordering = OneOf(choices=[f"{sign}{name}" for name in ORDERINGS for sign in ("", "-")], default="-created_at")
    q = TextField(
        required=False,
        max_length=MAX_CONTENT_LENGTH,
        help_text="Only the best matches of this text, as `POST memories/search` finds them, in one page.",
    )


WITH_QUERY: Final = frozenset(
    {"agent_id", "user_id", "q", "limit"}
    | {"kind", "namespace", "tag", "status", "metadata", "pinned", "as_of", "created_after", "created_before"}
)
"""Parameters of the list that a search knows as well."""


class CountOut(serializers.Serializer):
    count = serializers.IntegerField()


class RevisionOut(ChangedByOut, serializers.ModelSerializer):
    class Meta:
        model = MemoryRevision
        fields = ("id", "number", "verb", "by", "reason", "changed_before", "changed_after", "created_at")


class RestoreIn(ReasonSerializer):
    revision_id = IdField()


# Never used sorts before any use: a cursor cannot point at NULL.
LAST_USED = Coalesce("numbers__last_accessed_at", Value(datetime(1, 1, 2, tzinfo=UTC)))


def with_operation_id(view: type[APIView], operation_id: str, **attributes: Any) -> type[APIView]:
    """Return a subclass of a view whose POST has an operation id of its own in the schema."""
    subclass = type(view.__name__, (view,), attributes)
    return extend_schema_view(post=extend_schema(operation_id=operation_id))(subclass)


class StrengthPages(CursorPagination):
    """Pages of an actor's memories in the order of strengths."""

    def __init__(self, actor_id: UUID, status: str) -> None:
        self.strengths = strengths_of(Q(actor_id=actor_id), status)

    def fetch(self, queryset: Any, cursor: Cursor | None, most: int) -> list[Any]:
        strengths = self.beyond(self.strengths, cursor, ("strength_now", "memory_id"))
        rows = self.beyond(queryset, cursor, self.ordering)
        return list(page_by_strength(rows, strengths, limit=most))


class WithSourcesQuery(StrictSerializer):
    """Whether a deletion takes the messages too."""

    with_sources = serializers.BooleanField(default=False, help_text="Also delete the messages that it comes from.")


class MemoryDeletionOut(serializers.Serializer):
    """A deleted memory."""

    source_message_ids = serializers.ListField(
        child=serializers.UUIDField(), help_text="Messages that still say it; `DELETE messages/{message_id}`."
    )
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Number of deleted rows by kind.")


class MemoryView(ApiView):
    """Base of the views of memories."""

    def memory(self, memory_id: UUID) -> Memory:
        return self.owned(Memory.objects.all(), memory_id)

    def answer(self, memory: Memory, status_code: int = 200) -> Response:
        """Return the memory's current state with its ETag."""
        stored = load_memories([memory.actor_id], [memory.pk], details=True).get(memory.pk)
        if stored is None:
            raise UnknownRow(f"No memory {memory.pk}.")
        [body] = self.shown(MemoryOut, [stored])
        return Response(body, status=status_code, headers={"ETag": etag(stored.version)})

    def respond_to_write(self, write: Callable[[], tuple[Memory, bool]]) -> Response:
        """Answer with the memory that was written, 201 where it is new."""
        try:
            memory, is_new = write()
        except BlockedByTombstone as error:
            # Returned, not raised: raising would roll back the count of blocked writes.
            return self.handle_exception(error)
        return self.answer(memory, 201 if is_new else 200)

    def filtered_memories(self, tenant: Tenant, values: dict[str, Any]) -> MemoryQuerySet:
        """Return an actor's memories narrowed by a list's query string."""
        return select_memories(tenant, SelectionSerializer.selection(values, tenant), now=self.now)


class Memories(MemoryView):
    @operation("memories_list", Scope.READ, parameters=[MemoryListQuery], responses=page_of(MemoryOut))
    def get(self, request: Request) -> Response:
        """List an actor's memories; with `q` the best matches of a text, without marking them as candidates."""
        values = self.query(MemoryListQuery)
        if "q" in values:
            return self.best_matches(values)
        sign = "-" if values["ordering"].startswith("-") else ""
        column = ORDERINGS[values["ordering"].lstrip("-")]
        tenant = self.reading(values)
        rows = self.filtered_memories(tenant, values).with_numbers().annotate(last_used=LAST_USED)
        paginator = None
        if column == "strength":
            paginator = StrengthPages(tenant.actor_id, ALL if "as_of" in values else values["status"])
        return self.page(rows, MemoryOut, ordering=(f"{sign}{column}", f"{sign}id"), paginator=paginator)

    def best_matches(self, values: dict[str, Any]) -> Response:
        """Answer with the matches of a search as the only page. Raises ValidationError for what a search has not."""
        problems = {name: ["cannot be combined with q."] for name in self.request.query_params.keys() - WITH_QUERY}
        if values.get("limit", 0) > MAX_FOUND:
            problems["limit"] = [f"must be {MAX_FOUND} at most with q."]
        if problems:
            raise serializers.ValidationError(problems)
        tenant = self.reading(values)
        search = MemorySearch(
            query=text_query(values["q"], payer=tenant.payer),
            filters=SelectionSerializer.selection(values, tenant),
            limit=values.get("limit"),
        )
        found = search_memories(tenant=tenant, search=search, by=self.principal, mark=False, now=self.now).found
        shown = self.shown(MemoryOut, [hit.memory for hit in found])
        return Response({"next": None, "previous": None, "results": shown})

    @operation("memories_create", Scope.WRITE, request=MemoryIn, responses={201: MemoryOut, 200: MemoryOut})
    def post(self, request: Request) -> Response:
        """Write a memory; the same text again in the same namespace reinforces the existing one and answers 200.

        So does a text of the same kind and scope that differs in case, width, punctuation or words of emphasis.
        Within a minute, and without an `Idempotency-Key`, a repetition is taken for a retry and reinforces nothing.
        """
        values, has_idempotency_key = self.validated(MemoryIn), "Idempotency-Key" in request.headers
        new = new_memory(values, has_idempotency_key=has_idempotency_key)
        return self.respond_to_write(
            lambda: write_memory(actor=self.writing(values), new=new, by=self.principal, now=self.now)
        )


class MemoryCount(MemoryView):
    @operation("memories_count", Scope.READ, parameters=[MemoryQuery], responses=CountOut)
    def get(self, request: Request) -> Response:
        """Count an actor's memories that match these filters."""
        values = self.query(MemoryQuery)
        return Response({"count": self.filtered_memories(self.reading(values), values).count()})


class OneMemory(MemoryView):
    @operation("memory_get", Scope.READ, responses=MemoryOut)
    def get(self, request: Request, memory_id: UUID) -> Response:
        """Return a memory with its numbers and its sources."""
        return self.answer(self.memory(memory_id))

    @operation("memory_update", Scope.WRITE, request=MemoryPatch, responses=MemoryOut, parameters=[IF_MATCH])
    def patch(self, request: Request, memory_id: UUID) -> Response:
        """Edit a memory; the edit is a revision, and a new text is locked against automatic rewriting."""
        values = self.validated(MemoryPatch)
        memory = edit_memory(
            memory=self.memory(memory_id), values=values, reason=values.get("reason", ""), **self.change
        )
        return self.answer(memory)

    @operation(
        "memory_delete",
        Scope.WRITE,
        parameters=[WithSourcesQuery, IF_MATCH],
        responses={200: MemoryDeletionOut, 204: None},
    )
    def delete(self, request: Request, memory_id: UUID) -> Response:
        """Delete a memory with its revisions; its text is removed from receipts as well.

        Where messages that it comes from are stored, they still say it: the answer names them, or `with_sources`
        deletes them too.
        """
        with_sources = self.query(WithSourcesQuery)["with_sources"]
        memory = self.memory(memory_id)
        sources = remaining_sources(memory)
        if with_sources:
            counts = delete_with_sources(memory=memory, **self.change)
            return Response(MemoryDeletionOut({"source_message_ids": [], "counts": counts}).data)
        delete_memory(memory=memory, reason="", **self.change)
        if not sources:
            return Response(status=status.HTTP_204_NO_CONTENT)
        return Response(MemoryDeletionOut({"source_message_ids": sources, "counts": {"memories": 1}}).data)


class MemoryVerb(MemoryView):
    """One transition: pin, unpin, archive, reactivate, approve or reject."""

    scopes = {"POST": Scope.WRITE}
    verb = ""

    @extend_schema(request=ReasonSerializer, responses=MemoryOut, parameters=[IF_MATCH])
    def post(self, request: Request, memory_id: UUID) -> Response:
        """Change the memory's state; 409 where its state does not allow it."""
        memory, reason = self.memory(memory_id), self.validated(ReasonSerializer)["reason"]
        return self.answer(apply_transition(memory=memory, verb=self.verb, reason=reason, **self.change))


class MemorySupersede(MemoryView):
    @operation("memory_supersede", Scope.WRITE, request=SupersedeIn, responses={201: MemoryOut}, parameters=[IF_MATCH])
    def post(self, request: Request, memory_id: UUID) -> Response:
        """End a memory's validity and write its replacement; searches `as_of` an earlier time still find it."""
        values = self.validated(SupersedeIn)
        at = values.pop("valid_from", self.now)

        def supersede() -> tuple[Memory, bool]:
            memory, new = self.memory(memory_id), new_memory(values)
            return supersede_memory(memory=memory, new=new, at=at, reason=values["reason"], **self.change), True

        return self.respond_to_write(supersede)


class MemoryRevisions(MemoryView):
    @operation("memory_revisions_list", Scope.READ, parameters=[PageQuery], responses=page_of(RevisionOut))
    def get(self, request: Request, memory_id: UUID) -> Response:
        """List a memory's revisions, newest first."""
        memory = self.memory(memory_id)
        rows = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory=memory)
        return self.page(rows, RevisionOut, ordering=("-number",))


class MemoryRestore(MemoryView):
    @operation("memory_restore", Scope.WRITE, request=RestoreIn, responses=MemoryOut, parameters=[IF_MATCH])
    def post(self, request: Request, memory_id: UUID) -> Response:
        """Restore the curated fields to their values after a revision."""
        values = self.validated(RestoreIn)
        memory = self.memory(memory_id)
        revisions = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory=memory)
        revision = revisions.filter(pk=values["revision_id"]).first()
        if revision is None:
            raise UnknownRow(f"No revision {values['revision_id']} of this memory.")
        restored = restore_revision(memory=memory, revision=revision, reason=values["reason"], **self.change)
        return self.answer(restored)
