"""Search and retrieval of memories over REST."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.actions.recall import FoundMessage, search_messages
from conversations.api.serializers import MessageOut, ScoreBreakdownField
from memoryhub.api.fields import (
    ItemsField,
    MomentField,
    MomentOrDayField,
    ObjectField,
    OneOf,
    StrictSerializer,
    StringField,
    TenantSerializer,
    TextField,
    moment_of,
)
from memoryhub.api.views import operation
from memoryhub.auth.principals import Scope
from memoryhub.embeddings.spaces import text_query, vector_query
from memoryhub.tenancy.policies import zone_of
from strength.actions.filters import MemorySelection
from strength.actions.search import FoundMemory, MemorySearch, retrieve_memories, search_memories
from strength.api.memories import MAX_FOUND, MemoryView
from strength.api.serializers import EmbeddingField, MemoryOut, TagsField, values_of
from strength.domain.memories import MAX_CONTENT_LENGTH, Kind, Status

MAX_OTHERS = 20


class KindsField(ItemsField):
    """One kind, or a list of kinds."""

    child = OneOf(choices=values_of(Kind))

    def to_internal_value(self, data: Any) -> list[str]:
        return list(super().to_internal_value([data] if isinstance(data, str) else data))


class FiltersIn(StrictSerializer):
    kind = KindsField(required=False, max_length=50)
    namespace = StringField(required=False, max_length=500)
    tags = TagsField(required=False)
    status = OneOf(choices=values_of(Status), required=False)
    created_after = MomentField(required=False)
    created_before = MomentField(required=False)
    as_of = MomentOrDayField(required=False)
    metadata = ObjectField(required=False)

    @staticmethod
    def filters(values: dict[str, Any], zone: tzinfo) -> MemorySelection:
        """Return validated values as filters."""
        renamed = {"tags": "tag"}
        if "as_of" in values:
            values = {**values, "as_of": moment_of(values["as_of"], zone)}
        return MemorySelection(**{renamed.get(key, key): value for key, value in values.items()})


class SearchIn(TenantSerializer):
    """A search, by text or by vector. `others` are users or agents whose memories are searched as well."""

    others = ItemsField(child=TenantSerializer(), required=False, default=list, max_length=MAX_OTHERS)
    query = TextField(required=False, max_length=MAX_CONTENT_LENGTH)
    embedding = EmbeddingField(required=False)
    perspective = TextField(required=False, allow_null=True, max_length=100, default=None)
    project = TextField(required=False, allow_null=True, max_length=255, default=None)
    limit = serializers.IntegerField(required=False, min_value=0, max_value=MAX_FOUND)
    candidate_limit = serializers.IntegerField(required=False, min_value=1, max_value=1000)
    similarity_threshold = serializers.FloatField(required=False, min_value=-1, max_value=1)
    filters = FiltersIn(required=False, default=dict)
    include_messages = serializers.BooleanField(default=False)
    mark_candidates = serializers.BooleanField(default=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("query" in attrs) == ("embedding" in attrs):
            raise serializers.ValidationError({"query": ["Send either a query or an embedding."]})
        return attrs


class RetrieveIn(TenantSerializer):
    """A query, and how many results each namespace gives."""

    query = TextField(max_length=MAX_CONTENT_LENGTH)
    config = ObjectField(required=False)


class FoundMemoryOut(serializers.Serializer):
    """A memory with its scores."""

    memory = MemoryOut()
    similarity = serializers.FloatField(source="breakdown.similarity_raw", allow_null=True)
    final_score = serializers.FloatField()
    score_breakdown = ScoreBreakdownField(source="breakdown.as_dict")


class FoundMessageOut(serializers.Serializer):
    """A past message with its scores."""

    message = MessageOut()
    similarity = serializers.FloatField(source="similarity_raw", allow_null=True)
    final_score = serializers.FloatField(source="relevance")
    score_breakdown = ScoreBreakdownField(source="breakdown")


class FoundOut(serializers.Serializer):
    """A memory or, with `include_messages`, a past message, with its scores."""

    memory = MemoryOut(required=False)
    message = MessageOut(required=False)
    similarity = serializers.FloatField(allow_null=True)
    final_score = serializers.FloatField()
    score_breakdown = ScoreBreakdownField()


class SearchOut(serializers.Serializer):
    """The best memories; with `include_messages`, the best past messages after them."""

    results = FoundOut(many=True)
    candidate_count = serializers.IntegerField()
    searched_for = serializers.CharField(
        help_text="Similar words of the memories, where the query's own find none; else empty."
    )
    degraded = serializers.ListField(child=serializers.CharField())


class RetrieveOut(serializers.Serializer):
    namespaces = serializers.DictField(child=FoundMemoryOut(many=True))
    degraded = serializers.ListField(child=serializers.CharField())


class MemorySearchView(MemoryView):
    idempotent_in_transaction = False

    @operation("memories_search", Scope.READ, request=SearchIn, responses=SearchOut)
    def post(self, request: Request) -> Response:
        """Return the best memories for a text or a vector, each with its score breakdown."""
        values = self.validated(SearchIn)
        tenant, text = self.reading(values), values.get("query")
        query = vector_query(values["embedding"]) if text is None else text_query(text, payer=tenant.payer)
        names = ("perspective", "project", "limit", "candidate_limit", "similarity_threshold")
        options: dict[str, Any] = {name: values.get(name) for name in names}
        search = MemorySearch(
            query=query,
            filters=FiltersIn.filters(values["filters"], zone_of(tenant.agent, tenant.actor)),
            respells=True,
            **options,
        )
        mark = values["mark_candidates"] and Scope.WRITE in self.principal.scopes
        others = [self.reading(other) for other in values["others"]]
        result = search_memories(
            tenant=tenant, search=search, by=self.principal, mark=mark, now=self.now, others=others
        )
        messages: Sequence[FoundMessage] = ()
        if values["include_messages"]:
            limit = values.get("limit", 10)
            messages = search_messages(
                actor_id=tenant.actor_id, query=query, limit=limit, payer=tenant.payer, respells=True
            )
        results = [*self.shown(FoundMemoryOut, result.found), *self.shown(FoundMessageOut, messages)]
        return Response(
            {
                "results": results,
                "candidate_count": result.candidate_count,
                "searched_for": result.searched_for,
                "degraded": list(result.degraded),
            }
        )


class MemoryRetrieve(MemoryView):
    idempotent_in_transaction = False

    @operation("memories_retrieve", Scope.READ, request=RetrieveIn, responses=RetrieveOut)
    def post(self, request: Request) -> Response:
        """Return the best memories of each namespace prefix, across all sessions."""
        values = self.validated(RetrieveIn)
        tenant = self.reading(values)
        query = text_query(values["query"], payer=tenant.payer)
        results: dict[str, list[FoundMemory]] = retrieve_memories(
            tenant=tenant,
            query=query,
            config=values.get("config"),
            by=self.principal,
            mark=Scope.WRITE in self.principal.scopes,
            now=self.now,
        )
        namespaces = {prefix: self.shown(FoundMemoryOut, hits) for prefix, hits in results.items()}
        return Response({"namespaces": namespaces, "degraded": ["embedder"] if query.degraded else []})
