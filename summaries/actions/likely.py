"""Which projects a message may belong to, the likeliest first (SPEC P4).

For people who put a routing right: quick enough for a whole list, so no document is read.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from memoryhub.search.analysis import analyse
from summaries.domain.routing import Profile, evidence, profile_of
from summaries.models import Project

MOST_WEIGHED: Final = 40
"""Projects of an actor, those changed last."""

LONGEST_WEIGHED: Final = 1_000
"""Characters of a message."""


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
    found = evidence(analyse(message[:LONGEST_WEIGHED]), profiles)
    ranked = sorted(found, key=lambda name: -found[name])  # stable: else those changed last
    names = [first, *(name for name in ranked if name != first)] if first else ranked
    return names[:most]
