"""MCP tools of memories, and the pinned ones as a resource."""

from typing import Annotated, Any, Literal, cast
from uuid import UUID

from django.db.models import Q
from pydantic import Field
from rest_framework.exceptions import ValidationError

from conversations.actions.forgetting import check_may_forget, forget_messages
from conversations.models import Message
from memoryhub.api.fields import IdField, ReasonSerializer, StrictSerializer
from memoryhub.auth.principals import Scope
from memoryhub.embeddings.spaces import text_query
from memoryhub.mcp.calls import Call, resource, tool
from memoryhub.tenancy.policy import Trust
from strength.actions.curation import apply_transition, edit_memory
from strength.actions.memories import supersede_memory, write_memory
from strength.actions.search import MemorySearch, SearchResults, pinned_memories, search_memories, visible_memory
from strength.actions.what_if import EDIT
from strength.actions.what_if import what_if as effect_of
from strength.api.search import SearchIn
from strength.api.serializers import MemoryIn, MemoryPatch, SupersedeIn, new_memory
from strength.domain.memories import MAX_CONTENT_LENGTH
from strength.models import Memory

MAX_PINNED = 200
TITLE_LENGTH = 80
CONNECTOR_RESULTS = 10
MAX_PROJECT_LENGTH = 255
MAX_REASON_LENGTH = 1_000
MAX_ID_LENGTH = 100
Remembered = Literal["fact", "preference", "episode", "learning", "decision", "note"]
Text = Annotated[str, Field(max_length=MAX_CONTENT_LENGTH)]
Project = Annotated[str | None, Field(max_length=MAX_PROJECT_LENGTH)]
Reason = Annotated[str, Field(max_length=MAX_REASON_LENGTH)]
MemoryId = Annotated[UUID, Field(description="id from recall")]


class FetchIn(StrictSerializer):
    id = IdField()


@tool(scope=Scope.WRITE)
def remember(
    call: Call,
    content: Annotated[Text, Field(description="One self-contained statement")],
    kind: Remembered = "fact",
    pinned: Annotated[bool, Field(description="Must be part of every context")] = False,
    project: Annotated[Project, Field(description="Valid in this project only")] = None,
) -> dict[str, Any]:
    """Store something worth knowing in later conversations. The same text again reinforces it."""
    given = {"content": content, "kind": kind, "pinned": pinned}
    values = call.validated(
        MemoryIn, {"agent_id": call.agent_id, **given, **({"scope_project": project} if project else {})}
    )
    memory, is_new = write_memory(actor=call.writing(), new=new_memory(values), by=call.principal, now=call.now)
    return {"id": memory.pk, "status": memory.status, "new": is_new}


@tool(scope=Scope.READ, in_transaction=False)
def recall(
    call: Call,
    query: Annotated[Text, Field(description="A question or keywords")],
    limit: Annotated[int, Field(ge=1, le=50)] = 8,
    project: Project = None,
    repeat: Annotated[bool, Field(description="Also what this session was given before")] = False,
) -> dict[str, Any]:
    """Search the memories, best first. Results given earlier in this session are only counted."""
    results = _search(call, query, limit, project)
    memories = [found.memory for found in results.found]
    fresh = call.not_returned([_mark(each) for each in memories], repeat=repeat)
    shown = [_shown(each) for each in memories if _mark(each) in fresh]
    answer: dict[str, Any] = {"memories": shown}
    if len(shown) < len(memories):
        answer["given_before"] = len(memories) - len(shown)
    return answer | ({"degraded": list(results.degraded)} if results.degraded else {})


@tool(scope=Scope.WRITE, destructive=True)
def correct(
    call: Call,
    memory_id: MemoryId,
    content: Annotated[Text, Field(description="The whole new text")],
    changed: Annotated[bool, Field(description="It was right before: keep the old text as history")] = False,
    reason: Reason = "",
) -> dict[str, Any]:
    """Replace the text of a memory that is wrong, or that has changed."""
    memory = call.owned(Memory.objects.all(), memory_id)
    given = {"content": content, "reason": reason}
    if changed:
        values = call.validated(SupersedeIn, given)
        memory = supersede_memory(
            memory=memory, new=new_memory(values), at=call.now, by=call.principal, reason=reason, now=call.now
        )
    else:
        memory = edit_memory(
            memory=memory,
            values=call.validated(MemoryPatch, given),
            expected_version=None,
            by=call.principal,
            reason=reason,
            now=call.now,
        )
    return {"id": memory.pk, "status": memory.status}


@tool(scope=Scope.WRITE, destructive=True)
def forget(
    call: Call,
    memory_id: Annotated[UUID | None, Field(description="id from recall")] = None,
    message_id: Annotated[UUID | None, Field(description="Delete this message, and all that was drawn from it")] = None,
    reason: Reason = "",
) -> dict[str, Any]:
    """Archive a memory: it is found no more. People can bring it back. Or delete a message for good."""
    reason = call.validated(ReasonSerializer, {"reason": reason})["reason"]
    if (memory_id is None) == (message_id is None):
        raise ValidationError({"memory_id": ["Name either a memory or a message."]})
    if message_id is not None:
        check_may_forget(call.principal)
        message = call.owned(Message.objects.select_related("session"), message_id)
        deletion = forget_messages(
            session=message.session, chosen=Q(pk=message.pk), by=call.principal, reason=reason, now=call.now
        )
        return {"id": message_id, "deleted": deletion.counts}
    memory = apply_transition(
        memory=call.owned(Memory.objects.all(), cast(UUID, memory_id)),
        verb="archive",
        by=call.principal,
        reason=reason,
        now=call.now,
    )
    return {"id": memory.pk, "status": memory.status}


@tool(scope=Scope.WRITE, in_transaction=False)
def what_if(call: Call, memory_id: MemoryId, content: Text | None = None) -> dict[str, Any]:
    """Tell, without changing anything, what correcting a memory (without content: forgetting it) does to contexts."""
    memory = call.owned(Memory.objects.all(), memory_id)
    values = {} if content is None else call.validated(MemoryPatch, {"content": content})
    verb = "archive" if content is None else EDIT
    effect = effect_of(memory=memory, verb=verb, values=values, expected_version=None, by=call.principal, now=call.now)
    figures = {"contexts": len(effect.comparisons), "before": effect.held_before, "after": effect.held_after}
    others = {"brings_in": effect.brings_in, "pushes_out": effect.pushes_out}
    return figures | {
        name: [{"id": item["source_id"], "text": item["excerpt"], "contexts": count} for item, count in items]
        for name, items in others.items()
    }


@tool(scope=Scope.READ, in_transaction=False, profile="connector")
def search(call: Call, query: Text) -> dict[str, Any]:
    """Search the memories of this user."""
    found = _search(call, query, CONNECTOR_RESULTS, None).found
    return {"results": [_listed(each.memory) for each in found]}


@tool(scope=Scope.READ, profile="connector")
def fetch(call: Call, id: Annotated[str, Field(max_length=MAX_ID_LENGTH)]) -> dict[str, Any]:
    """Return the whole text of a search result."""
    memory_id = call.validated(FetchIn, {"id": id})["id"]
    memory = visible_memory(tenant=call.reading(), memory_id=memory_id, by=call.principal)
    return {**_listed(memory), "text": memory.content, "metadata": {"kind": memory.kind}}


@resource("memoryhub://pinned", "Pinned memories")
def pinned(call: Call) -> str:
    """Texts that are to be known in every conversation."""
    rows = pinned_memories(tenant=call.reading(), project=None, now=call.now, limit=MAX_PINNED)
    return "\n".join(f"- {memory.content}" for memory in rows)


def _search(call: Call, query: str, limit: int, project: str | None) -> SearchResults:
    given = {"query": query, "limit": limit, **({"project": project} if project else {})}
    values = call.validated(SearchIn, {"agent_id": call.agent_id, **given})
    tenant = call.reading()
    wanted = MemorySearch(
        query=text_query(values["query"], payer=tenant.payer),
        limit=values["limit"],
        project=values["project"],
        respells=True,
        details=False,
    )
    marks = Scope.WRITE in call.principal.scopes
    return search_memories(tenant=tenant, search=wanted, by=call.principal, mark=marks, now=call.now)


def _mark(memory: Memory) -> str:
    return f"{memory.pk}:{memory.version}"


def _shown(memory: Memory) -> dict[str, Any]:
    shown = {"id": memory.pk, "kind": memory.kind, "content": memory.content}
    if memory.trust != Trust.TRUSTED:
        shown["trust"] = memory.trust
    return shown | {"on": (memory.said_on or memory.created_at.date()).isoformat()}


def _listed(memory: Memory) -> dict[str, Any]:
    title = memory.content if len(memory.content) <= TITLE_LENGTH else f"{memory.content[:TITLE_LENGTH]}…"
    return {"id": memory.pk, "title": title, "url": f"memoryhub://memories/{memory.pk}"}
