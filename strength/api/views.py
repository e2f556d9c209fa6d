"""Memories over REST."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Value
from django.db.models.functions import Coalesce
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.actions.recall import FoundMessage, search_messages
from memoryhub.api.etags import IF_MATCH, etag, expected_version
from memoryhub.api.fields import ReasonSerializer
from memoryhub.api.pagination import PageQuery, page_of
from memoryhub.api.problems import Problem
from memoryhub.api.views import ApiView
from memoryhub.auth.domain import Scope
from memoryhub.auth.tenancy import Tenant, UnknownRow
from memoryhub.providers.spaces import text_query, vector_query
from memoryhub.search.query import SearchQuery
from memoryhub.search.vectors import UnusableVector
from memoryhub.tenancy.namespaces import expand_namespace
from strength.actions.curate import (
    DuplicateMemory,
    WrongState,
    apply_transition,
    delete_memory,
    edit_memory,
    restore_revision,
)
from strength.actions.decisions import DecidedAgainst
from strength.actions.search import (
    FoundMemory,
    MemorySearch,
    retrieve_memories,
    search_memories,
)
from strength.actions.supersede import supersede_memory
from strength.actions.use import NotUsable
from strength.actions.write import write_memory
from strength.api.serializers import (
    CountOut,
    FiltersIn,
    FoundMemoryOut,
    FoundMessageOut,
    MemoryIn,
    MemoryListQuery,
    MemoryOut,
    MemoryPatch,
    MemoryQuery,
    RestoreIn,
    RetrieveIn,
    RetrieveOut,
    RevisionOut,
    SearchIn,
    SearchOut,
    SupersedeIn,
)
from strength.domain.memories import MemoryRefused
from strength.models import Memory, MemoryQuerySet, MemoryRevision

DEFAULT_LIMIT = 10
ORDERINGS = {"created_at": "created_at", "strength": "numbers__strength", "last_accessed_at": "last_used"}
# A memory that was never used is older than any use: a cursor cannot stand at a NULL.
LAST_USED = Coalesce("numbers__last_accessed_at", Value(datetime(1, 1, 2, tzinfo=UTC)))


def _refused(error: MemoryRefused) -> APIException:
    return ValidationError({error.field: [str(error)]})


def _unusable_vector(error: UnusableVector) -> APIException:
    return ValidationError({"embedding": [str(error)]})


def conflict(code: str) -> Any:
    """Return what makes a 409 of an exception."""
    return lambda error: Problem(status.HTTP_409_CONFLICT, code, str(error))


class MemoryView(ApiView):
    """What views of memories share."""

    problems = {
        MemoryRefused: _refused,
        UnusableVector: _unusable_vector,
        WrongState: conflict("wrong_state"),
        DuplicateMemory: conflict("duplicate_memory"),
        DecidedAgainst: conflict("decided_against"),
        NotUsable: conflict("wrong_state"),
    }

    def memory(self, memory_id: UUID) -> Memory:
        """Return the memory with this id if the key may see it."""
        return self.owned(Memory.objects.all(), memory_id)

    def answer(self, memory: Memory, status_code: int = 200) -> Response:
        """Return a memory as it stands now, with its ETag."""
        rows = Memory.objects.of([memory.actor_id]).with_numbers([memory.actor_id])
        fresh = rows.filter(pk=memory.pk).first()
        if fresh is None:
            raise UnknownRow(f"No memory {memory.pk}.")
        return Response(MemoryOut(fresh).data, status=status_code, headers={"ETag": etag(fresh.version)})

    def listed(self, tenant: Tenant, values: dict[str, Any]) -> MemoryQuerySet:
        """Return an actor's memories narrowed by a list's query string."""
        rows = Memory.objects.of([tenant.actor_id])
        if values["status"] != "all":
            rows = rows.filter(status=values["status"])
        if values.get("kind"):
            rows = rows.filter(kind=values["kind"])
        if values.get("namespace"):
            rows = rows.filter(namespace__startswith=_prefix(values["namespace"], tenant))
        if values.get("tag"):
            rows = rows.filter(tags__contains=[values["tag"]])
        if values["pinned"] is not None:
            rows = rows.filter(pinned=values["pinned"])
        return rows


def _prefix(namespace: str, tenant: Tenant) -> str:
    return expand_namespace(namespace, agent_id=tenant.agent_id, user_id=tenant.user_id)


class Memories(MemoryView):
    """Write and list memories."""

    scopes = {"GET": Scope.READ, "POST": Scope.WRITE}

    @extend_schema(operation_id="memories_list", parameters=[MemoryListQuery], responses=page_of(MemoryOut))
    def get(self, request: Request) -> Response:
        """List an actor's memories."""
        values = self.validated(MemoryListQuery, request.query_params.dict())
        sign = "-" if values["ordering"].startswith("-") else ""
        column = ORDERINGS[values["ordering"].lstrip("-")]
        tenant = self.reading(values)
        rows = self.listed(tenant, values).with_numbers([tenant.actor_id]).annotate(last_used=LAST_USED)
        return self.page(rows, MemoryOut, ordering=(f"{sign}{column}", f"{sign}id"))

    @extend_schema(request=MemoryIn, responses={201: MemoryOut, 200: MemoryOut})
    def post(self, request: Request) -> Response:
        """Write a memory; an equal text in the same namespace reinforces the first and answers 200."""
        values = self.validated(MemoryIn)
        try:
            memory, is_new = write_memory(
                actor=self.writing(values), new=MemoryIn.memory(values), by=self.principal, now=self.now
            )
        except DecidedAgainst as error:
            return self.handle_exception(error)  # returned, not raised: that it was held back is kept
        return self.answer(memory, 201 if is_new else 200)


class MemoryCount(MemoryView):
    """Count memories."""

    scopes = {"GET": Scope.READ}

    @extend_schema(parameters=[MemoryQuery], responses=CountOut)
    def get(self, request: Request) -> Response:
        """Return how many of an actor's memories a list with these filters would have."""
        values = self.validated(MemoryQuery, request.query_params.dict())
        return Response({"count": self.listed(self.reading(values), values).count()})


class OneMemory(MemoryView):
    """Read, edit and delete a memory."""

    scopes = {"GET": Scope.READ, "PATCH": Scope.WRITE, "DELETE": Scope.WRITE}

    @extend_schema(responses=MemoryOut)
    def get(self, request: Request, memory_id: UUID) -> Response:
        """Return a memory with its numbers and its sources."""
        return self.answer(self.memory(memory_id))

    @extend_schema(request=MemoryPatch, responses=MemoryOut, parameters=[IF_MATCH])
    def patch(self, request: Request, memory_id: UUID) -> Response:
        """Change curated values; the change is a revision, and locks a new text against automatic rewriting."""
        values = self.validated(MemoryPatch)
        memory = edit_memory(
            memory=self.memory(memory_id),
            values=values,
            expected_version=expected_version(request),
            by=self.principal,
            reason=values.get("reason", ""),
            now=self.now,
        )
        return self.answer(memory)

    @extend_schema(responses={204: None}, parameters=[IF_MATCH])
    def delete(self, request: Request, memory_id: UUID) -> Response:
        """Delete a memory with its revisions; its text leaves the receipts as well."""
        delete_memory(
            memory=self.memory(memory_id), expected_version=expected_version(request), by=self.principal, reason="",
            now=self.now,
        )  # fmt: skip
        return Response(status=status.HTTP_204_NO_CONTENT)


class MemoryVerb(MemoryView):
    """One curating verb: pin, unpin, archive, reactivate, approve or reject."""

    scopes = {"POST": Scope.WRITE}
    verb = ""

    @extend_schema(request=ReasonSerializer, responses=MemoryOut, parameters=[IF_MATCH])
    def post(self, request: Request, memory_id: UUID) -> Response:
        """Change the memory's state; a state from which that cannot be done is a 409."""
        memory = apply_transition(
            memory=self.memory(memory_id),
            verb=self.verb,
            by=self.principal,
            reason=self.validated(ReasonSerializer)["reason"],
            expected_version=expected_version(request),
            now=self.now,
        )
        return self.answer(memory)


class MemorySupersede(MemoryView):
    """Write what holds instead of a memory from a time on."""

    scopes = {"POST": Scope.WRITE}

    @extend_schema(request=SupersedeIn, responses={201: MemoryOut}, parameters=[IF_MATCH])
    def post(self, request: Request, memory_id: UUID) -> Response:
        """End the memory and write what holds since; the old one is kept, and found with `as_of` before that time."""
        values = self.validated(SupersedeIn)
        try:
            memory = supersede_memory(
                memory=self.memory(memory_id),
                new=SupersedeIn.memory(values),
                at=values.get("valid_from") or self.now,
                by=self.principal,
                reason=values["reason"],
                now=self.now,
                expected_version=expected_version(request),
            )
        except DecidedAgainst as error:
            return self.handle_exception(error)  # returned, not raised: that it was held back is kept
        return self.answer(memory, 201)


class MemoryRevisions(MemoryView):
    """A memory's curated changes."""

    scopes = {"GET": Scope.READ}

    @extend_schema(
        operation_id="memory_revisions_list", parameters=[PageQuery], responses=page_of(RevisionOut)
    )
    def get(self, request: Request, memory_id: UUID) -> Response:
        """List a memory's revisions, newest first."""
        memory = self.memory(memory_id)
        rows = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory=memory)
        return self.page(rows, RevisionOut, ordering=("-number",))


class MemoryRestore(MemoryView):
    """Bring back a revision."""

    scopes = {"POST": Scope.WRITE}

    @extend_schema(request=RestoreIn, responses=MemoryOut, parameters=[IF_MATCH])
    def post(self, request: Request, memory_id: UUID) -> Response:
        """Bring back the curated values as they stood after a revision."""
        values = self.validated(RestoreIn)
        memory = self.memory(memory_id)
        revision = MemoryRevision.objects.filter(
            actor_id=memory.actor_id, memory=memory, pk=values["revision_id"]
        ).first()
        if revision is None:
            raise UnknownRow(f"No revision {values['revision_id']} of this memory.")
        restored = restore_revision(
            memory=memory, revision=revision, expected_version=expected_version(request), by=self.principal,
            reason=values["reason"], now=self.now,
        )  # fmt: skip
        return self.answer(restored)


class MemorySearchView(MemoryView):
    """Search memories."""

    scopes = {"POST": Scope.READ}
    idempotent_in_transaction = False

    @extend_schema(request=SearchIn, responses=SearchOut)
    def post(self, request: Request) -> Response:
        """Return the best memories for a text or a vector, each with its score breakdown."""
        values = self.validated(SearchIn)
        tenant = self.reading(values)
        text = values.get("query")
        query = vector_query(values["embedding"]) if text is None else text_query(text, payer=tenant.payer)
        search = MemorySearch(
            query=query,
            perspective=values["perspective"],
            project=values["project"],
            limit=values.get("limit"),
            candidate_limit=values.get("candidate_limit"),
            similarity_threshold=values.get("similarity_threshold"),
            filters=FiltersIn.filters(values["filters"]),
        )
        results = search_memories(
            tenant=tenant,
            search=search,
            by=self.principal,
            mark=self._marks(values["mark_candidates"]),
            now=self.now,
        )
        messages = self._messages(tenant, query, values) if values["include_messages"] else []
        body = {
            "results": [
                *self.shown(FoundMemoryOut, results.found),
                *self.shown(FoundMessageOut, messages),
            ],
            "candidate_count": results.candidate_count,
            "degraded": list(results.degraded),
        }
        return Response(body)

    def _marks(self, wanted: bool) -> bool:
        return wanted and Scope.WRITE in self.principal.scopes

    def _messages(self, tenant: Tenant, query: SearchQuery, values: dict[str, Any]) -> Sequence[FoundMessage]:
        limit = values.get("limit", DEFAULT_LIMIT)
        return search_messages(actor_id=tenant.actor_id, query=query, limit=limit, payer=tenant.payer)


class MemoryRetrieve(MemoryView):
    """Retrieve the best of each configured namespace."""

    scopes = {"POST": Scope.READ}
    idempotent_in_transaction = False

    @extend_schema(request=RetrieveIn, responses=RetrieveOut)
    def post(self, request: Request) -> Response:
        """Return the best memories of each namespace prefix, across all sessions."""
        values = self.validated(RetrieveIn)
        tenant = self.reading(values)
        query = text_query(values["query"], payer=tenant.payer)
        found: dict[str, list[FoundMemory]] = retrieve_memories(
            tenant=tenant, query=query, config=values.get("config"), by=self.principal,
            mark=Scope.WRITE in self.principal.scopes, now=self.now,
        )  # fmt: skip
        body = {
            "namespaces": {prefix: self.shown(FoundMemoryOut, each) for prefix, each in found.items()},
            "degraded": ["embedder"] if query.degraded else [],
        }
        return Response(body)
