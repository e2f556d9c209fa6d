"""The effect of a change on the latest contexts, as the memory's page and the review show it (SPEC X13)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django.http import HttpRequest
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from conversations.actions.replays import Comparison
from conversations.admin.context_breakdown import EXCERPT_LENGTH, LAYER_LABELS
from conversations.admin.playground import PERMISSIONS
from conversations.domain.differences import Item, Outcome
from memoryhub.admin.base import excerpt
from strength.actions.curation import TRANSITIONS
from strength.actions.what_if import DELETE, EDIT, WhatIf
from strength.admin import bulk

MAX_ENTRIES: Final = 10
"""Entries of each side that are listed for all contexts together."""

MAX_QUERY_LENGTH: Final = 200

VERB_LABELS: Final[Mapping[str, Any]] = {
    EDIT: _("Save"),
    **{verb: bulk.LABELS[verb] for verb in TRANSITIONS},
    DELETE: bulk.LABELS[bulk.DELETE],
    "merge": bulk.LABELS["merge"],
}


def may_see_contexts(request: HttpRequest) -> bool:
    """Return whether the person may see all that contexts hold."""
    user: Any = request.user
    return bool(user.has_perms(PERMISSIONS))


def heading(verb: str) -> str:
    return gettext("What would change: %(verb)s") % {"verb": VERB_LABELS[verb]}


def effect_context(effect: WhatIf) -> dict[str, Any]:
    return {
        "effect_summary": _summary(effect),
        "brings_in": _entries(effect.brings_in),
        "pushes_out": _entries(effect.pushes_out),
        "compared": [_compared(each, str(effect.memory_id)) for each in effect.changed],
    }


def _summary(effect: WhatIf) -> list[str]:
    total, changed = len(effect.comparisons), len(effect.changed)
    if not total:
        return [gettext("No context has been assembled yet that could hold this memory.")]
    if not changed:
        text = ngettext(
            "The latest context would not change.", "None of the latest %(count)d contexts would change.", total
        )
        return [text % {"count": total}]
    text = gettext("%(changed)d of the latest %(count)d contexts would change.")
    held = gettext("The memory is in %(before)d of them now, and would be in %(after)d.")
    figures = {"before": effect.held_before, "after": effect.held_after}
    return [text % {"changed": changed, "count": total}, held % figures]


def _entries(entries: Iterable[tuple[Item, int]]) -> Mapping[str, Any]:
    listed, rows = list(entries), []
    for item, count in listed[:MAX_ENTRIES]:
        contexts = ngettext("in %(count)d context", "in %(count)d contexts", count) % {"count": count}
        rows.append({**_entry(item), "contexts": contexts})
    return {"rows": rows, "left_out": max(0, len(listed) - MAX_ENTRIES)}


def _entry(item: Item) -> dict[str, Any]:
    label = LAYER_LABELS.get(item["layer"], item["layer"])
    return {"label": label, "text": item["excerpt"][:EXCERPT_LENGTH], "tokens": item["tokens"]}


def _compared(each: Comparison, memory_id: str) -> dict[str, Any]:
    held, would_hold = (bool(side and side.holds(memory_id)) for side in (each.before, each.after))
    if held != would_hold:
        verdict = gettext("enters") if would_hold else gettext("leaves")
    else:
        verdict = gettext("stays, changed") if held else gettext("others change")
    return {
        "receipt": each.receipt,
        "query": excerpt(each.receipt.query, MAX_QUERY_LENGTH),
        "verdict": verdict,
        "before": _side(each.before, each.difference.went),
        "after": _side(each.after, each.difference.came),
    }


def _side(outcome: Outcome | None, only: Sequence[Item]) -> dict[str, Any] | None:
    if outcome is None:
        return None
    return {"total": outcome.total_tokens, "limit": outcome.token_limit, "only": [_entry(item) for item in only]}
