"""MCP tool of contexts."""

from typing import Annotated, Any

from pydantic import Field

from conversations.actions.context import ContextRequest, assemble_context
from conversations.api.blocks import MAX_TEXT_LENGTH
from conversations.api.serializers import ContextIn
from conversations.domain.content import blocks_of, text_of
from memoryhub.auth.principals import Scope
from memoryhub.mcp.calls import Call, tool

# The MCP host adds the time and caching itself.
OPTIONS = {"include_clock": False, "cache": False}


@tool(scope=Scope.READ, in_transaction=False)
def context(
    call: Call,
    message: Annotated[str, Field(description="What the user says now", max_length=MAX_TEXT_LENGTH)],
    project: Annotated[str | None, Field(max_length=255)] = None,
) -> dict[str, Any]:
    """Everything remembered that bears on a message: pinned memories, relevant ones, summaries, project files."""
    named = {"project": project} if project else {}
    values = call.validated(ContextIn, {"agent_id": call.agent_id, "message": message, **named})
    tenant = call.reading()
    assembled = assemble_context(
        tenant=tenant,
        request=ContextRequest(message=values["message"], project=values["project"], options=OPTIONS),
        by=call.principal,
        now=call.now,
    )
    if assembled.receipt:  # a user's first context creates the actor
        call.actor_id = assembled.receipt.actor_id
    *blocks, _message = blocks_of(assembled.assembly.messages[0]["content"])
    answer = {"instructions": assembled.assembly.system, "remembered": "\n\n".join(map(text_of, blocks))}
    degraded = assembled.metadata["degraded"]
    return answer | ({"degraded": degraded} if degraded else {})
