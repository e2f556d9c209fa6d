"""A context broken down for a page: tokens by layer, candidates with scores, differences between runs, the prompt.

Shared by the playground and the page of a receipt. Works on items as a receipt stores them, without the database.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.urls import NoReverseMatch, reverse
from django.utils.html import escape
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from conversations.domain.assembly import Assembly
from conversations.domain.budget import Reason
from conversations.domain.differences import Item, identity
from conversations.domain.layers import BY_NAME, LAYERS, MEMORY_LAYERS, PINNED, SYSTEM, USER_MESSAGE
from conversations.domain.routing import AUTO, UNNAMED
from memoryhub.admin.base import excerpt, format_count

LAYER_ORDER: Final = (SYSTEM, *(layer.name for layer in LAYERS), USER_MESSAGE)
"""Layers in the order of the prompt."""

LAYER_LABELS: Final[Mapping[str, Any]] = {
    SYSTEM: _("System prompt"),
    **{layer.name: layer.label for layer in LAYERS},
    USER_MESSAGE: _("The user’s message"),
}
FRAME: Final = "frame"
"""Tokens that belong to no entry: headings, the block's delimiters, the overhead of messages."""

REASON_LABELS: Final[Mapping[str, Any]] = {
    Reason.INCLUDED: _("included whole"),
    Reason.TRIMMED: _("included, trimmed so that the rest fits"),
    Reason.OVER_BUDGET: _("left out: the token limit was reached"),
    Reason.TOO_LARGE: _("larger alone than the tokens that are left"),
    Reason.LAYER_BUDGET: _("the token share of “{layer}” was used up"),
    Reason.LIMIT: _("the limit of entries of “{layer}” was reached"),
    Reason.DUPLICATE: _("the same text is in the context already"),
    Reason.REPEATS_OMITTED: _("the same text is a candidate of another part too, and was left out there"),
    Reason.EMPTY: _("it is empty"),
    Reason.SWITCHED_OFF: _("“{layer}” is disabled"),
    Reason.ROLE: _("system and tool messages do not enter contexts"),
    Reason.ORPHAN: _("an answer to a question that is not in the context"),
}
SCORE_LABELS: Final[Mapping[str, Any]] = {
    "similarity_weighted": _("relevance"),
    "strength_weighted": _("strength"),
    "recency_weighted": _("recency"),
    "similarity_raw": _("similar meaning"),
    "word_raw": _("same words"),
    "own_relevance": _("relevance alone"),
}
WEIGHTED_SCORES: Final = ("similarity_weighted", "strength_weighted", "recency_weighted")

# Admin pages of sources. The apps of memories and summaries may not be imported here, so pages are given by name.
SOURCE_PAGES: Final = {
    "memory": "admin:strength_memory_change",
    "message": "admin:conversations_message_change",
    "summary": "admin:summaries_summary_change",
    "document": "admin:summaries_document_change",
}
"""By kind of candidate."""

PROFILE_PAGE: Final = "admin:strength_profile_change"
CURATE_PAGE: Final = "admin:strength_memory_curate"
ARCHIVE: Final = ("archive", _("Archive"))
LAYER_VERBS: Final[Mapping[str, Sequence[tuple[str, Any]]]] = {
    **{layer: (("pin", _("Pin")), ARCHIVE) for layer in MEMORY_LAYERS},
    PINNED: (("unpin", _("Unpin")), ARCHIVE),
}
MAX_PER_LAYER: Final = 40
EXCERPT_LENGTH: Final = 200
CACHED_EXCERPT_LENGTH: Final = 100


@dataclass(frozen=True)
class RunOutcome:
    """The part of a run that the next is compared with, small enough to be cached."""

    total: int
    limit: int
    layers: dict[str, int]
    items: dict[str, tuple[str, bool, int, str]] = field(repr=False)
    """By identity: the candidate's layer, whether it entered, its tokens, the beginning of its text."""
    nonce_tokens: int | None = None
    """Tokens that the nonce of the block takes by chance; None where that is unknown: in a receipt."""


def run_outcome(items: Iterable[Item], *, total: int, limit: int, nonce_tokens: int | None = None) -> RunOutcome:
    listed = list(items)
    return RunOutcome(
        total=total,
        limit=limit,
        layers={layer: _tokens(listed, layer) for layer in LAYER_ORDER},
        items={
            identity(item): (item["layer"], item["included"], item["tokens"], item["excerpt"][:CACHED_EXCERPT_LENGTH])
            for item in listed
            if item["layer"] not in (SYSTEM, USER_MESSAGE)
        },
        nonce_tokens=nonce_tokens,
    )


def token_budget(
    items: Sequence[Item], *, total: int, limit: int, before: RunOutcome | None = None, nonce_tokens: int | None = None
) -> dict[str, Any]:
    """Return the use of tokens by layer, and of the run before as it would have been with this context's nonce."""
    tokens_by_layer = {layer: _tokens(items, layer) for layer in LAYER_ORDER}
    tokens_by_layer[FRAME] = max(0, total - sum(tokens_by_layer.values()))
    all_tokens = max(1, sum(tokens_by_layer.values()))
    total_before, tokens_before = None, dict[str, int]()
    if before is not None:
        total_before = before.total
        if before.nonce_tokens is not None and nonce_tokens is not None:
            total_before += nonce_tokens - before.nonce_tokens
        tokens_before = {**before.layers, FRAME: max(0, total_before - sum(before.layers.values()))}
    shares, x = [], 0.0
    for layer, tokens in tokens_by_layer.items():
        of_layer = [item for item in items if item["layer"] == layer]
        percent, former = 100 * tokens / all_tokens, tokens_before.get(layer)
        # Where the earlier nonce's token count is unknown, the difference may come from the nonce alone.
        is_uncertain = layer == FRAME and before is not None and before.nonce_tokens is None
        share = {"layer": layer, "label": LAYER_LABELS.get(layer, _("Headings and frame")), "tokens": tokens}
        share |= {"percent": percent, "x": f"{x:.3f}", "width": f"{percent:.3f}", "offered": len(of_layer)}
        share |= {"entered": sum(item["included"] for item in of_layer), "before": former}
        share["more"] = None if former is None or is_uncertain else tokens - former
        shares.append(share)
        x += percent
    used = min(100.0, 100 * total / limit) if limit else 0.0
    budget = {"total": total, "limit": limit, "left": max(0, limit - total), "percent": used, "width": f"{used:.2f}"}
    return {**budget, "shares": shares, "total_before": total_before, "limit_before": before and before.limit}


def candidate_groups(
    items: Sequence[Item], *, may_curate: bool = False, before: RunOutcome | None = None
) -> list[dict[str, Any]]:
    """Return every layer's candidates by score, best first; without scores they keep their order."""
    groups = []
    for layer in LAYER_ORDER:
        of_layer = sorted((item for item in items if item["layer"] == layer), key=_score, reverse=True)
        if of_layer:
            group = {
                "layer": layer,
                "label": LAYER_LABELS[layer],
                "rows": [_row(item, may_curate=may_curate, before=before) for item in of_layer[:MAX_PER_LAYER]],
                "entered": sum(1 for item in of_layer if item["included"]),
                "offered": len(of_layer),
                "left_out": max(0, len(of_layer) - MAX_PER_LAYER),
            }
            groups.append(group)
    return groups


def reason_label(item: Mapping[str, Any]) -> str:
    """Return why a candidate entered or not; reasons that are about its layer name it."""
    reason, layer = item.get("reason", ""), item.get("layer", "")
    if reason not in REASON_LABELS:
        return str(reason)
    return str(REASON_LABELS[reason]).format(layer=LAYER_LABELS.get(layer, layer))


def removed_candidates(before: RunOutcome, items: Iterable[Item]) -> list[dict[str, Any]]:
    """Return candidates of the run before that are none any more, first those that had entered."""
    identities = {identity(item) for item in items}
    removed = [
        {"label": LAYER_LABELS.get(layer, layer), "text": text, "entered": entered, "tokens": tokens}
        for identity, (layer, entered, tokens, text) in before.items.items()
        if identity not in identities
    ]
    return sorted(removed, key=lambda row: not row["entered"])[:MAX_PER_LAYER]


def side_by_side(before: RunOutcome, now: RunOutcome) -> dict[str, Any]:
    """Return what entered only the one and only the other context, and how much entered both."""
    entered, entered_now = ({key for key, item in run.items.items() if item[1]} for run in (before, now))

    def rows_of(run: RunOutcome, keys: Iterable[str]) -> list[dict[str, Any]]:
        selected = [run.items[key] for key in sorted(keys)][:MAX_PER_LAYER]
        return [
            {"label": LAYER_LABELS.get(layer, layer), "text": text, "tokens": tokens}
            for layer, _entered, tokens, text in selected
        ]

    return {
        "before": {"total": before.total, "limit": before.limit, "only": rows_of(before, entered - entered_now)},
        "now": {"total": now.total, "limit": now.limit, "only": rows_of(now, entered_now - entered)},
        "in_both": len(entered & entered_now),
    }


def _tokens(items: Iterable[Item], layer: str) -> int:
    return sum(item["tokens"] for item in items if item["layer"] == layer and item["included"])


def _score(item: Item) -> float:
    score, relevance = item["final_score"], item["relevance"]
    return float(score if score is not None else relevance if relevance is not None else -1.0)


def _row(item: Item, *, may_curate: bool, before: RunOutcome | None) -> dict[str, Any]:
    layer, key = item["layer"], item["source_id"]
    is_line = "memory_ids" in item
    curate = _page_url(CURATE_PAGE, key) if may_curate and layer in LAYER_VERBS and not is_line else None
    return {
        **{name: item[name] for name in ("layer", "source_id", "tokens", "relevance", "included", "reason")},
        "text": (item["excerpt"] or "")[:EXCERPT_LENGTH],
        "score": item["final_score"],
        "parts": _parts(item["score_breakdown"] or {}),
        "why": reason_label(item),
        "page": _page_url(PROFILE_PAGE if is_line else _source_page(layer), key),
        "curate": curate,
        "is_memory": layer in LAYER_VERBS and not is_line and bool(key),
        "verbs": LAYER_VERBS[layer] if curate else (),
        "change": _change(item, before) if before else "",
    }


def _source_page(layer: str) -> str | None:
    return SOURCE_PAGES[BY_NAME[layer].kind] if layer in BY_NAME else None


def _parts(breakdown: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = [name for name in WEIGHTED_SCORES if name in breakdown]
    names = names or [name for name in SCORE_LABELS if name in breakdown]
    values = [(name, breakdown[name]) for name in names if isinstance(breakdown[name], int | float)]
    return [
        {"label": SCORE_LABELS[name], "value": value, "width": f"{100 * min(1.0, max(0.0, value)):.1f}"}
        for name, value in values
    ]


def _change(item: Item, before: RunOutcome) -> str:
    if item["layer"] in (SYSTEM, USER_MESSAGE):
        return ""
    former = before.items.get(identity(item))
    if former is None:
        return gettext("new")
    layer, entered, tokens, _text = former
    if layer != item["layer"]:
        return gettext("was in: %(layer)s") % {"layer": LAYER_LABELS.get(layer, layer)}
    if entered != item["included"]:
        return gettext("was included before") if entered else gettext("was left out before")
    if item["included"] and tokens != item["tokens"]:
        return gettext("had %(tokens)s tokens before") % {"tokens": format_count(tokens)}
    return ""


def _page_url(name: str | None, key: str | None) -> str | None:
    if not name or not key:
        return None
    try:
        return reverse(name, args=[key])
    except NoReverseMatch:
        return None


MAX_PREVIEW_BYTES: Final = 60_000
"""Escaped bytes of all texts together; a quotation mark has six."""

USER_MESSAGE_BYTES: Final = 4_000
"""Reserved for the user's own message, which comes last."""

MIN_DATA_LENGTH: Final = 200

_NONCE: Final = re.compile(r"(?<=<remembered-)[0-9a-f]{16}(?=>)|(?<=</remembered-)[0-9a-f]{16}(?=>)")
_FIXED_NONCE: Final = "0" * 16


def prompt_as_json(assembly: Assembly) -> str:
    body: dict[str, Any] = {} if assembly.system is None else {"system": assembly.system}
    return json.dumps({**body, "messages": assembly.messages}, ensure_ascii=False, indent=2)


def prompt_preview(assembly: Assembly) -> dict[str, Any]:
    """Return the prompt by message, its texts cut for the page, and as JSON if short; role "" is `system`."""
    messages = [("", assembly.system)] if assembly.system is not None else []
    messages += [(message["role"], message["content"]) for message in assembly.messages]
    room, turns, is_cut = MAX_PREVIEW_BYTES - USER_MESSAGE_BYTES, [], False
    for index, (role, content) in enumerate(messages, start=1):
        if index == len(messages):
            room += USER_MESSAGE_BYTES
        texts = []
        for block in _block_texts(content):
            text = _truncate(block, room)
            room -= _size(text)
            is_cut = is_cut or len(text) < len(block)
            texts.append({"text": text, "length": len(block), "is_cut": len(text) < len(block)})
        turns.append({"role": role, "texts": texts})
    as_json = prompt_as_json(assembly)
    return {"turns": turns, "is_cut": is_cut, "as_json": as_json if _size(as_json) <= MAX_PREVIEW_BYTES else None}


def count_nonce_tokens(assembly: Assembly, count: Callable[[str], int]) -> int:
    """Return the tokens that the block's nonce takes more than a fixed one, which differ from run to run."""
    texts = [text for message in assembly.messages for text in _block_texts(message["content"])]
    return sum(count(text) - count(_NONCE.sub(_FIXED_NONCE, text)) for text in texts if _NONCE.search(text))


def _block_texts(content: str | Sequence[dict[str, Any]] | None) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for block in content or ():
        is_text = block.get("type") == "text"
        yield block["text"] if is_text else json.dumps(_without_data(block), ensure_ascii=False)


def _without_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_data(item) for name, item in value.items()}
    if isinstance(value, str) and len(value) > MIN_DATA_LENGTH:
        return f"{value[:40]}… ({len(value)})"
    return value


def _size(text: str) -> int:
    return len(escape(text).encode())


def _truncate(text: str, limit: int) -> str:
    part = text[: max(0, limit)]
    while part and _size(part) > limit:
        part = part[: len(part) // 2]
    return part


def project_label(project: str | None) -> str:
    """Return the requested project in words; None means no project, UNNAMED that none was named."""
    if project is None:
        return gettext("no project")
    if project == UNNAMED:
        return gettext("the agent’s current project, or the one found by routing")
    if project == AUTO:
        return gettext("found by the message")
    return excerpt(project, 60)
