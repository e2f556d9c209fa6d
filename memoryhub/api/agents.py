"""Agents and actors over REST."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime
from tempfile import TemporaryFile
from typing import Any

from django.db import connection
from django.http import StreamingHttpResponse
from django.utils import timezone
from django.utils.http import content_disposition_header
from django.utils.text import get_valid_filename
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from memoryhub.api.fields import (
    AgentIdField,
    ItemsField,
    ObjectField,
    OneOf,
    StrictSerializer,
    TenantQuery,
    TextField,
    UserIdField,
)
from memoryhub.api.pagination import PageQuery, page_of
from memoryhub.api.views import IF_MATCH, ApiView, etag, operation
from memoryhub.auth import audit
from memoryhub.auth.access import Tenant, UnknownRow
from memoryhub.auth.actions import create_agent, set_actor_policy, update_agent
from memoryhub.auth.erasure import erase_user
from memoryhub.auth.principals import Principal, Scope
from memoryhub.importexport.native.exporter import CHUNK_BYTES, Selection, export
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.namespaces import namespace_queries
from memoryhub.tenancy.policies import effective_values
from memoryhub.tenancy.policy import STRATEGIES

MAX_PROMPT_LENGTH = 100_000


class StrategiesIn(StrictSerializer):
    """Long-term strategies, switched on or off; omitted ones are on."""

    def get_fields(self) -> dict[str, serializers.Field]:
        return {name: serializers.BooleanField(required=False) for name in STRATEGIES}


class AgentPatch(StrictSerializer):
    """Fields of an agent that can be set."""

    name = TextField(required=False, allow_blank=True, max_length=255)
    language = OneOf(choices=Agent._meta.get_field("language").choices or [], required=False)
    system_prompt = TextField(required=False, allow_blank=True, max_length=MAX_PROMPT_LENGTH)
    domain = TextField(required=False, allow_blank=True, max_length=255)
    related_domains = ItemsField(child=TextField(max_length=255), required=False, max_length=100)
    current_project = TextField(required=False, allow_blank=True, max_length=255)
    fixed_user_id = UserIdField()
    policy = ObjectField(required=False)
    strategies = StrategiesIn(required=False)
    topics_include = ItemsField(child=TextField(max_length=255), required=False, max_length=100)
    topics_exclude = ItemsField(child=TextField(max_length=255), required=False, max_length=100)
    retrieval_config = ObjectField(required=False, allow_null=True)

    def validate_retrieval_config(self, value: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the configuration; raises NamespaceError where it cannot be used."""
        if value is not None:
            namespace_queries(value, agent_id="agent", user_id="", field="retrieval_config")
        return value


class AgentIn(AgentPatch):
    """A new agent."""

    agent_id = AgentIdField()


class AgentOut(serializers.ModelSerializer):
    """An agent; `strategies` has every strategy, `policy` only what differs from the defaults."""

    strategies = serializers.SerializerMethodField()

    class Meta:
        model = Agent
        fields = (
            "agent_id", "name", "language", "system_prompt", "domain", "related_domains", "current_project",
            "fixed_user_id", "policy", "strategies", "topics_include", "topics_exclude", "retrieval_config",
            "created_at", "updated_at",
        )  # fmt: skip

    def get_strategies(self, agent: Agent) -> dict[str, bool]:
        return {name: agent.strategies.get(name, True) for name in STRATEGIES}


class AgentOfUserOut(AgentOut):
    """An agent as a key bound to one user sees it: without what the operator wrote for the model."""

    def to_representation(self, agent: Agent) -> dict[str, Any]:
        return {**super().to_representation(agent), "system_prompt": "", "policy": {}}


def agent_serializer(by: Principal) -> type[AgentOut]:
    return AgentOut if by.user_id is None else AgentOfUserOut


class ActorPatch(StrictSerializer):
    """Policy overrides of a user."""

    policy = ObjectField()


class ActorOut(serializers.Serializer):
    """A user's overrides, and every policy value in effect for that user."""

    agent_id = serializers.CharField()
    user_id = serializers.CharField()
    policy = serializers.DictField()
    effective_policy = serializers.DictField()


class ErasedOut(serializers.Serializer):
    """Number of rows deleted and anonymised, by table; `remains` names copies that an erasure cannot reach."""

    erased = serializers.DictField(child=serializers.IntegerField())
    anonymised = serializers.DictField(child=serializers.IntegerField())
    remains = serializers.ListField(child=serializers.CharField())
    vacuum_job_id = serializers.UUIDField(allow_null=True)


class EraseQuery(TenantQuery):
    """User to erase, and whether the tables are vacuumed afterwards."""

    vacuum = serializers.BooleanField(
        required=False, default=False, help_text="Free the space of the deleted rows, in the background."
    )


class Agents(ApiView):
    @operation("agents_list", Scope.READ, parameters=[PageQuery], responses=page_of(AgentOut))
    def get(self, request: Request) -> Response:
        """List the agents that the key may touch."""
        return self.page(
            Agent.objects.among(self.principal.agent_ids), agent_serializer(self.principal), ordering=("agent_id",)
        )

    @operation("agents_create", Scope.ADMIN, request=AgentIn, responses={201: AgentOut})
    def post(self, request: Request) -> Response:
        """Create an agent; 409 where there is one with this id."""
        values = self.validated(AgentIn)
        agent = create_agent(agent_id=values.pop("agent_id"), values=values, by=self.principal, now=self.now)
        return Response(AgentOut(agent).data, status=201, headers={"ETag": etag(agent.version)})


class OneAgent(ApiView):
    @operation("agent_get", Scope.READ, responses=AgentOut)
    def get(self, request: Request, agent_id: str) -> Response:
        """Return an agent."""
        agent = Agent.objects.among(self.principal.agent_ids).filter(agent_id=agent_id).first()
        if agent is None:
            raise UnknownRow(f"No agent {agent_id!r}.")
        return Response(agent_serializer(self.principal)(agent).data, headers={"ETag": etag(agent.version)})

    @operation("agent_update", Scope.ADMIN, request=AgentPatch, parameters=[IF_MATCH], responses=AgentOut)
    def patch(self, request: Request, agent_id: str) -> Response:
        """Change an agent's fields; what is left out stays."""
        agent = update_agent(agent_id=agent_id, values=self.validated(AgentPatch), **self.change)
        return Response(AgentOut(agent).data, headers={"ETag": etag(agent.version)})


def _actor_answer(tenant: Tenant) -> Response:
    body = {
        "agent_id": tenant.agent_id,
        "user_id": tenant.user_id,
        "policy": tenant.actor.policy if tenant.actor else {},
        "effective_policy": effective_values(tenant.agent, tenant.actor),
    }
    return Response(body, headers={"ETag": etag(tenant.actor.version if tenant.actor else 0)})


class Actors(ApiView):
    @operation("actor_get", Scope.READ, parameters=[TenantQuery], responses=ActorOut)
    def get(self, request: Request) -> Response:
        """Return what a user overrides and every policy value as it holds."""
        return _actor_answer(self.reading(self.query(TenantQuery)))

    @operation("actor_update", Scope.WRITE, parameters=[TenantQuery, IF_MATCH], request=ActorPatch, responses=ActorOut)
    def patch(self, request: Request) -> Response:
        """Replace what a user overrides."""
        actor = self.writing(self.query(TenantQuery))
        actor = set_actor_policy(actor=actor, policy=self.validated(ActorPatch)["policy"], **self.change)
        return _actor_answer(Tenant(actor.agent_id, actor.user_id, actor.agent, actor))

    @operation("actor_erase", Scope.ADMIN, parameters=[EraseQuery], responses={200: ErasedOut})
    def delete(self, request: Request) -> Response:
        """Erase a user everywhere; return how many rows of each table went, and how many stay without the user."""
        values = self.query(EraseQuery)
        erasure = erase_user(
            agent_id=values["agent_id"],
            user_id=values.get("user_id", self.principal.user_id or ""),
            vacuum=values["vacuum"],
            by=self.principal,
            now=self.now,
        )
        return Response(ErasedOut(erasure).data)


JSON_LINES = "application/x-ndjson"
MAX_ID_IN_NAME = 60


class JSONLinesRenderer(JSONRenderer):
    """Accept `application/x-ndjson`; the view writes the body, errors are JSON."""

    media_type = JSON_LINES
    format = "jsonl"


class ActorExport(ApiView):
    renderer_classes = [JSONRenderer, JSONLinesRenderer]

    @operation("actor_export", Scope.ADMIN, parameters=[TenantQuery], responses={(200, JSON_LINES): OpenApiTypes.STR})
    def get(self, request: Request) -> StreamingHttpResponse:
        """Return everything of a user, or of an agent itself; a body without the line `{"end": …}` broke off."""
        tenant = self.reading(self.query(TenantQuery))
        if tenant.actor is None:
            raise UnknownRow("No such user of this agent.")
        return export_of(tenant.actor, by=self.principal, now=self.now, streams=hasattr(request, "scope"))


def export_of(actor: Actor, *, by: Principal, now: datetime, streams: bool) -> StreamingHttpResponse:
    """Return all rows of a user as a file; with `streams` for an ASGI server, which would collect a plain iterator."""
    audit.record(by=by, verb="export", row=actor, now=now)
    selection = Selection(actor.agent_id, actor.user_id)
    pieces = stream_from_thread(lambda: export(selection)) if streams else export(selection)
    name = content_disposition_header(True, file_name(actor, now)) or "attachment"
    headers = {"Content-Disposition": name, "Cache-Control": "no-store"}
    return StreamingHttpResponse(pieces, content_type=JSON_LINES, headers=headers)


def file_name(actor: Actor, now: datetime) -> str:
    """Return agent, user and day; a user's id may hold any characters, and those of paths are left out."""
    ids = (actor.agent_id[:MAX_ID_IN_NAME], actor.user_id[:MAX_ID_IN_NAME])
    return get_valid_filename("-".join((*filter(None, ids), f"{timezone.localdate(now)}.jsonl")))


async def stream_from_thread(make: Callable[[], Iterator[bytes]]) -> AsyncIterator[bytes]:
    """Run a database-reading iterator in one thread, and yield its output in pieces of at most `CHUNK_BYTES` bytes.

    The output is spooled to a temporary file at full speed, so that a slow client holds no connection or transaction.
    """
    loop, grown, closed, size, sent = asyncio.get_running_loop(), asyncio.Event(), threading.Event(), 0, 0

    def write() -> None:
        nonlocal size
        pieces = make()
        try:
            for piece in pieces:
                if closed.is_set():
                    return
                size += spool.write(piece)
                loop.call_soon_threadsafe(grown.set)
        finally:
            pieces.close()  # type: ignore[attr-defined]
            connection.close()  # of this thread

    with TemporaryFile(buffering=0) as spool, ThreadPoolExecutor(max_workers=1) as thread:
        writing = loop.run_in_executor(thread, copy_context().run, write)
        writing.add_done_callback(lambda _: grown.set())
        try:
            while True:
                grown.clear()
                is_whole = writing.done()
                if sent < size:
                    piece = os.pread(spool.fileno(), CHUNK_BYTES, sent)
                    sent += len(piece)
                    yield piece
                elif is_whole:
                    break
                else:
                    await grown.wait()
            await writing
        finally:
            closed.set()
            await asyncio.wait([writing])  # the file is its own until then
