"""Read how the statements fared that a model drew last, by the checks and in the review (SPEC L6)."""

from collections.abc import Iterator
from typing import Final

from django.conf import settings
from django.db.models import OuterRef, QuerySet, Subquery

from conversations.domain.statements.grounding import UNRELIABLE
from memoryhub.doctor import Finding, Level
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import Trust
from strength.actions.revisions import DOUBT
from strength.domain.distrust import FEWEST, RECENT, often_fails
from strength.domain.memories import Source, Status
from strength.models import Memory, MemoryRevision

NEWEST: Final = 2_000
"""Memories of all users among which `doctor` looks for extracted ones."""


def recent_failures(actor: Actor) -> list[bool]:
    """Return of the last statements, newest first, whether they failed a check or were rejected.

    An approved statement passed, whatever the checks said; one that waits only because of the model passed them.
    Statements of untrusted messages do not count: strangers could keep a user's own from being learnt.
    """
    return _failures(Memory.objects.of([actor.id]).order_by("-created_at", "-id"))


def _failures(memories: QuerySet[Memory]) -> list[bool]:
    first = MemoryRevision.objects.filter(actor_id=OuterRef("actor_id"), memory_id=OuterRef("pk"), number=1)
    drawn = memories.filter(source=Source.EXTRACTION, trust=Trust.TRUSTED)
    rows = drawn.annotate(doubt=Subquery(first.values(f"beside__{DOUBT}__0")))[:RECENT]
    return [
        status == Status.REJECTED or (status == Status.PENDING and doubt not in {None, UNRELIABLE})
        for status, doubt in rows.values_list("status", "doubt")
    ]


def diagnose() -> Iterator[Finding]:
    """Yield for `manage.py doctor` whether the model of extraction often fails the checks, over all users."""
    newest = Memory.objects.order_by("-pk").values("pk")[:NEWEST]
    failed = _failures(Memory.objects.filter(pk__in=newest).order_by("-pk"))
    if settings.LLM.provider == "none" or len(failed) < FEWEST:
        return
    detail = f"{sum(failed)} of the last {len(failed)} statements failed a check or were rejected"
    if often_fails(failed):
        detail += "; where that holds for a user, all of them wait for a person: set MEMORYHUB_LLM_MODEL_EXTRACT to a "
        yield Finding(Level.WARNING, "extracted statements", detail + "better model")
    else:
        yield Finding(Level.FINE, "extracted statements", detail)
