"""Memories over REST: read, write, curate."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Q, Value
from django.db.models.functions import Coalesce
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from memoryhub.api.fields import IdField, OneOf, ReasonSerializer, StrictSerializer, TenantQuery, TextField
from memoryhub.api.pagination import Cursor, CursorPagination, PageQuery, page_of
from memoryhub.api.views import IF_MATCH, ApiView, etag, operation
from memoryhub.auth.access import Tenant, UnknownRow
from memoryhub.auth.principals import Scope
from memoryhub.embeddings.spaces import text_query
from strength.actions.curation import apply_transition, delete_memory, edit_memory, restore_revision
from strength.actions.filters import ALL, page_by_strength, select_memories, strengths_of
from strength.actions.forgetting import delete_with_sources, remaining_sources
from strength.actions.memories import supersede_memory, write_memory
from strength.actions.search import MemorySearch, search_memories
from strength.actions.tombstones import BlockedByTombstone
from strength.api.serializers import (
    MemoryIn,
    MemoryOut,
    MemoryPatch,
    RevisionOut,
    SelectionSerializer,
    SupersedeIn,
    new_memory,
)
from strength.domain.memories import MAX_CONTENT_LENGTH
from strength.models import Memory, MemoryQuerySet, MemoryRevision
from strength.models.memory import load_memories

MAX_FOUND = 200
ORDERINGS = {"created_at": "created_at", "strength": "strength", "last_accessed_at": "last_used"}


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


class RestoreIn(ReasonSerializer):
    revision_id = IdField()


# Never used sorts before any use: a cursor cannot point at NULL.
LAST_USED = Coalesce("numbers__last_accessed_at", Value(datetime(1, 1, 2, tzinfo=UTC)))


def with_operation_id(view: type[APIView], operation_id: str, **attributes: Any) -> type[APIView]:
    """Return a subclass of a view with another operation id of its POST in the schema."""
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
    """Options of a deletion."""

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
            respells=True,
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
