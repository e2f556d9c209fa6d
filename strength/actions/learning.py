"""Recording what a task taught (SPEC S9)."""

from datetime import datetime

from memoryhub.auth.domain import Principal
from memoryhub.tenancy.models import Actor
from strength.actions.write import NewMemory, write_memory
from strength.domain.memories import Kind, Source
from strength.models import Memory

GENERAL = "general"
"""The perspective of a learning that states none."""


def record_learning(
    *, actor: Actor, content: str, learning: str, perspective: str | None, by: Principal, now: datetime
) -> Memory:
    """Write a learning as a memory, or find the one with its text; raises as `write_memory` does."""
    new = NewMemory(
        content=content,
        kind=Kind.LEARNING,
        source=Source.TASK,
        learnings={perspective or GENERAL: learning} if learning else {},
    )
    memory, _ = write_memory(actor=actor, new=new, by=by, now=now)
    return memory
