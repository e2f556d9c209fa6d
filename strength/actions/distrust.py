"""Read how the statements that were last drawn from a user's messages fared, by the checks and in the review."""

from django.db.models import OuterRef, Subquery

from conversations.domain.statements.grounding import UNRELIABLE
from memoryhub.tenancy.models import Actor
from strength.actions.revisions import DOUBT
from strength.domain.distrust import RECENT
from strength.domain.memories import Source, Status
from strength.models import Memory, MemoryRevision


def recent_failures(actor: Actor) -> list[bool]:
    """Return of the last statements, newest first, whether they failed a check or were rejected.

    An approved statement passed, whatever the checks said; one that waits only because of the model passed them.
    """
    first = MemoryRevision.objects.filter(actor_id=actor.id, memory_id=OuterRef("pk"), number=1)
    drawn = Memory.objects.of([actor.id]).filter(source=Source.EXTRACTION).order_by("-created_at", "-id")
    rows = drawn.annotate(doubt=Subquery(first.values(f"beside__{DOUBT}__0")))[:RECENT]
    return [
        status == Status.REJECTED or (status == Status.PENDING and doubt not in {None, UNRELIABLE})
        for status, doubt in rows.values_list("status", "doubt")
    ]
