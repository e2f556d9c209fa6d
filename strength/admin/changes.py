"""A memory's revisions for people: which words went, which came, and what else was changed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext

from memoryhub.admin.base import excerpt
from memoryhub.admin.comparing import Effort
from memoryhub.admin.differences import Piece, compared
from strength.admin.words import FIELDS, STATUSES, VERBS
from strength.models import Memory, MemoryRevision

LONGEST_SHOWN: Final = 3_000
"""Characters of one difference; what is left out is told, and stands in the whole text."""

AROUND: Final = 120
"""Characters that are shown around a change of what stayed as it was."""

LONGEST_VALUE: Final = 300
MOST_STEPS: Final = 1_500_000
"""Of comparing all the texts of a page; about a quarter of a second."""

DATES: Final = ("valid_from", "valid_to")
CHOSEN: Final = ("kind", "scope_level")
"""Fields that hold one of a few words, which have other names for people."""

SAME, GONE, NEW, CUT = "same", "gone", "new", "cut"


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of a difference: what stayed, went, came, or is left out here."""

    kind: str
    text: str


def changes_of(revisions: Sequence[MemoryRevision]) -> list[dict[str, Any]]:
    """Return what each revision changed, in words; as many texts are compared as a page has time for."""
    effort = Effort(MOST_STEPS)
    return [_change_of(revision, effort) for revision in revisions]


def _change_of(revision: MemoryRevision, effort: Effort) -> dict[str, Any]:
    before, after = revision.changed_before, revision.changed_after
    names = [] if revision.verb == "create" else sorted({*before, *after} - {"locked"})
    return {
        "revision": revision,
        "verb": VERBS.get(revision.verb, revision.verb),
        "changes": [_change(name, before.get(name), after.get(name), effort) for name in names],
    }


def _change(name: str, before: Any, after: Any, effort: Effort) -> dict[str, Any]:
    runs = difference(before or "", after or "", effort) if name == "content" else None
    return {
        "name": FIELDS.get(name, name), "runs": runs,
        "before": "" if runs else _value(name, before), "after": "" if runs else _value(name, after),
    }  # fmt: skip


def difference(before: str, after: str, effort: Effort | None = None) -> list[Run] | None:
    """Return two texts as one, with what went and what came; None where they are too long to be compared."""
    pieces = compared(before, after, effort)
    if pieces is None:
        return None
    return list(_cut(_shortened(list(_interleaved(*pieces)))))


def _interleaved(one: Sequence[Piece], other: Sequence[Piece]) -> Iterator[Run]:
    """Yield the pieces of both in order; what both have, once."""
    mine, theirs = iter(one), iter(other)
    left, right = next(mine, None), next(theirs, None)
    while left is not None or right is not None:
        if left is not None and left.own:
            yield Run(GONE, left.text)
            left = next(mine, None)
        elif right is not None and right.own:
            yield Run(NEW, right.text)
            right = next(theirs, None)
        else:
            yield Run(SAME, right.text if right is not None else "")
            left, right = next(mine, None), next(theirs, None)


def _shortened(runs: Sequence[Run]) -> Iterator[Run]:
    """Yield the runs; of long ones that stayed, what stands next to a change."""
    last = len(runs) - 1
    for place, run in enumerate(runs):
        if run.kind != SAME or len(run.text) <= 2 * AROUND:
            yield run
            continue
        if place > 0:
            yield Run(SAME, run.text[:AROUND])
        yield Run(CUT, "…")
        if place < last:
            yield Run(SAME, run.text[-AROUND:])


def _cut(runs: Iterator[Run]) -> Iterator[Run]:
    left = LONGEST_SHOWN
    for run in runs:
        if len(run.text) > left:
            yield Run(run.kind, run.text[:left])
            yield Run(CUT, "…")
            return
        left -= len(run.text)
        yield run


def _value(name: str, value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "–"
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if name in DATES and (moment := parse_datetime(str(value))):
        return date_format(localtime(moment), "DATETIME_FORMAT")
    if name == "status":
        return str(STATUSES.get(value, value))
    if name in CHOSEN:
        field: Any = Memory._meta.get_field(name)
        return str(dict(field.flatchoices).get(value, value))
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return excerpt(text, LONGEST_VALUE)
