"""Which projects a message may belong to, the likeliest first, and what a router is shown of corrections (SPEC P4).

For people who put a routing right: quick enough for a whole list, so no document is read.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from django.db.models import F, Window
from django.db.models.functions import Left, RowNumber

from memoryhub.search.analysis import analyse
from summaries.actions.routing import LONGEST_MESSAGE, NEWEST_CORRECTIONS
from summaries.domain.routing import Profile, evidence, likeness, profile_of
from summaries.models import Project, RoutingDecision

MOST_WEIGHED: Final = 40
"""Projects of an actor, those changed last."""

LOOKED_AT: Final = 1_000
"""Characters of a message."""


@dataclass(frozen=True)
class Shown:
    """A correction that a router may be shown, and how like a message it is."""

    decision_id: UUID
    message: str = field(repr=False)
    project: str
    likeness: float


def profiles_of(actor_ids: Iterable[UUID]) -> Mapping[UUID, Sequence[Profile]]:
    """Return what the names and descriptions of each actor's latest projects say."""
    place = Window(RowNumber(), partition_by=F("actor_id"), order_by=[F("updated_at").desc(), F("id").desc()])
    rows = Project.objects.filter(actor_id__in=set(actor_ids)).annotate(place=place)
    profiles: dict[UUID, list[Profile]] = defaultdict(list)
    latest = rows.filter(place__lte=MOST_WEIGHED).order_by("place")
    for actor_id, name, description in latest.values_list("actor_id", "name", "description"):
        profiles[actor_id].append(profile_of(name, description=description, texts=()))
    return profiles


def likeliest(message: str, profiles: Sequence[Profile], *, first: str | None = None, most: int) -> list[str]:
    """Return the names of projects that share most with a message; `first` is what was decided, and comes first."""
    found = evidence(analyse(message[:LOOKED_AT]), profiles)
    ranked = sorted(found, key=lambda name: -found[name])  # stable: else those changed last
    names = [first, *(name for name in ranked if name != first)] if first else ranked
    return names[:most]


def shown_examples(*, actor_id: UUID, message: str, most: int) -> list[Shown]:
    """Return the corrections that a router would be shown for a message, the most alike first."""
    rows = RoutingDecision.objects.filter(actor_id=actor_id, corrected_project__isnull=False)
    rows = rows.annotate(beginning=Left("message", LONGEST_MESSAGE)).order_by("-corrected_at", "-id")
    latest = list(rows.values_list("pk", "beginning", "corrected_project__name")[:NEWEST_CORRECTIONS])
    terms = frozenset(analyse(message[:LONGEST_MESSAGE]))
    alike = [Shown(*row, likeness=likeness(terms, frozenset(analyse(row[1])))) for row in latest]
    return sorted(alike, key=lambda each: -each.likeness)[:most]
