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

from conversations.actions.context import AUTO, UNNAMED
from conversations.domain.assembly import Assembly
from conversations.domain.budget import Reason
from conversations.domain.layers import (
    PINNED,
    PROJECT,
    RECALL,
    SEMANTIC,
    SESSION_SUMMARY,
    SYSTEM,
    USER_MESSAGE,
    WORKING,
)
from memoryhub.admin.base import excerpt, grouped

Item = Mapping[str, Any]

ORDER: Final = (SYSTEM, PINNED, SEMANTIC, RECALL, PROJECT, SESSION_SUMMARY, WORKING, USER_MESSAGE)
"""In the order of the prompt."""

LAYERS: Final[Mapping[str, Any]] = {
    SYSTEM: _("System prompt"),
    PINNED: _("Pinned memories"),
    SEMANTIC: _("Related memories"),
    RECALL: _("Earlier messages"),
    PROJECT: _("Project memory"),
    SESSION_SUMMARY: _("Session summary"),
    WORKING: _("Last messages"),
    USER_MESSAGE: _("The user’s message"),
}
FRAME: Final = "frame"
"""Tokens that belong to no entry: headings, the block's delimiters, the overhead of messages."""

REASONS: Final[Mapping[str, Any]] = {
    Reason.INCLUDED: _("included whole"),
    Reason.TRIMMED: _("included, trimmed so that the rest fits"),
    Reason.OVER_BUDGET: _("left out: the token limit was reached"),
    Reason.TOO_LARGE: _("larger alone than the tokens that are left"),
    Reason.LAYER_BUDGET: _("the token share of its layer was used up"),
    Reason.LIMIT: _("the limit of entries of its layer was reached"),
    Reason.DUPLICATE: _("the same is in the context already"),
    Reason.EMPTY: _("it is empty"),
    Reason.SWITCHED_OFF: _("its layer is disabled"),
    Reason.ROLE: _("system and tool messages do not enter contexts"),
}
PARTS: Final[Mapping[str, Any]] = {
    "similarity_weighted": _("relevance"),
    "strength_weighted": _("strength"),
    "recency_weighted": _("recency"),
    "similarity_raw": _("similar meaning"),
    "word_raw": _("same words"),
    "own_relevance": _("relevance alone"),
}
WEIGHTED: Final = ("similarity_weighted", "strength_weighted", "recency_weighted")

# Pages of sources. Memories and summaries live above this app: their pages are known by name only.
SOURCE_PAGES: Final = {
    PINNED: "admin:strength_memory_change",
    SEMANTIC: "admin:strength_memory_change",
    RECALL: "admin:conversations_message_change",
    WORKING: "admin:conversations_message_change",
    SESSION_SUMMARY: "admin:summaries_summary_change",
    PROJECT: "admin:summaries_document_change",
}
MEMORIES: Final = (PINNED, SEMANTIC)
CURATE: Final = "admin:strength_memory_curate"
VERBS: Final[Mapping[str, Sequence[tuple[str, Any]]]] = {
    PINNED: (("unpin", _("Unpin")), ("archive", _("Archive"))),
    SEMANTIC: (("pin", _("Pin")), ("archive", _("Archive"))),
}
MOST_OF_A_LAYER: Final = 40
SHOWN_EXCERPT: Final = 200
KEPT_EXCERPT: Final = 100


@dataclass(frozen=True)
class Share:
    """A layer's part of the tokens; `x` and `width` are percentages of the used tokens, formatted for SVG."""

    layer: str
    label: Any
    tokens: int
    percent: float
    x: str
    width: str
    entered: int
    offered: int
    before: int | None = None
    is_uncertain: bool = False
    """Whether a difference may come from the nonce alone: how many tokens the one before took is unknown."""

    @property
    def more(self) -> int | None:
        return None if self.before is None or self.is_uncertain else self.tokens - self.before


@dataclass(frozen=True)
class Budget:
    """The use of tokens against the limit."""

    total: int
    limit: int
    shares: list[Share]
    total_before: int | None = None
    limit_before: int | None = None

    @property
    def percent(self) -> float:
        return min(100.0, 100 * self.total / self.limit) if self.limit else 0.0

    @property
    def width(self) -> str:
        return f"{self.percent:.2f}"

    @property
    def left(self) -> int:
        return max(0, self.limit - self.total)


@dataclass(frozen=True)
class Part:
    """One part of a score, with the width of its bar."""

    label: Any
    value: float
    width: str


@dataclass(frozen=True)
class Row:
    """One candidate: its text, tokens, scores, and why it entered or not."""

    layer: str
    source_id: str | None
    text: str
    tokens: int
    relevance: float | None
    score: float | None
    parts: list[Part]
    included: bool
    reason: str
    page: str | None = None
    curate: str | None = None
    verbs: Sequence[tuple[str, Any]] = ()
    change: str = ""

    @property
    def why(self) -> Any:
        return REASONS.get(self.reason, self.reason)


@dataclass(frozen=True)
class Group:
    """A layer's candidates, best first."""

    layer: str
    label: Any
    rows: list[Row]
    entered: int
    offered: int
    left_out: int = 0
    """Number of candidates that are not listed."""


@dataclass(frozen=True)
class RemovedCandidate:
    """A candidate of the run before that is none now."""

    label: Any
    text: str
    entered: bool
    tokens: int


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

    def total_with(self, nonce_tokens: int | None) -> int:
        return (
            self.total
            if self.nonce_tokens is None or nonce_tokens is None
            else self.total - self.nonce_tokens + nonce_tokens
        )

    def frame_with(self, nonce_tokens: int | None) -> int:
        return max(0, self.total_with(nonce_tokens) - sum(self.layers.values()))


def run_outcome(
    items: Iterable[Item], *, total: int, limit: int, nonce_tokens: int | None = None
) -> RunOutcome:
    """Return the part of a run that a later one is compared with."""
    listed = list(items)
    return RunOutcome(
        total=total,
        limit=limit,
        layers={layer: _tokens(listed, layer) for layer in ORDER},
        items={
            _identity(item): (item["layer"], item["included"], item["tokens"], item["excerpt"][:KEPT_EXCERPT])
            for item in listed
            if item["layer"] not in (SYSTEM, USER_MESSAGE)
        },
        nonce_tokens=nonce_tokens,
    )


def token_budget(
    items: Sequence[Item],
    *,
    total: int,
    limit: int,
    before: RunOutcome | None = None,
    nonce_tokens: int | None = None,
) -> Budget:
    """Return the use of tokens layer by layer; those that belong to none are the frame.

    The run before is shown as it would have been with this context's nonce.
    """
    figures = [(layer, _tokens(items, layer)) for layer in ORDER]
    frame = max(0, total - sum(tokens for _layer, tokens in figures))
    whole = max(1, sum(tokens for _layer, tokens in figures) + frame)
    shares, x = [], 0.0
    for layer, tokens in [*figures, (FRAME, frame)]:
        percent = 100 * tokens / whole
        shares.append(
            Share(
                layer=layer,
                label=LAYERS.get(layer, _("Headings and frame")),
                tokens=tokens,
                percent=percent,
                x=f"{x:.3f}",
                width=f"{percent:.3f}",
                entered=sum(1 for item in items if item["layer"] == layer and item["included"]),
                offered=sum(1 for item in items if item["layer"] == layer),
                before=_before(before, layer, nonce_tokens),
                is_uncertain=layer == FRAME and before is not None and before.nonce_tokens is None,
            )
        )
        x += percent
    return Budget(
        total=total,
        limit=limit,
        shares=shares,
        total_before=before.total_with(nonce_tokens) if before else None,
        limit_before=before.limit if before else None,
    )


def candidate_groups(
    items: Sequence[Item], *, may_curate: bool = False, before: RunOutcome | None = None
) -> list[Group]:
    """Return every layer's candidates by score, best first; without scores they keep their order."""
    groups = []
    for layer in ORDER:
        of_layer = [item for item in items if item["layer"] == layer]
        ranked = sorted(of_layer, key=_worth, reverse=True)
        if ranked:
            rows = [_row(item, may_curate=may_curate, before=before) for item in ranked[:MOST_OF_A_LAYER]]
            groups.append(
                Group(
                    layer=layer,
                    label=LAYERS[layer],
                    rows=rows,
                    entered=sum(1 for item in of_layer if item["included"]),
                    offered=len(of_layer),
                    left_out=max(0, len(of_layer) - MOST_OF_A_LAYER),
                )
            )
    return groups


def removed_candidates(before: RunOutcome, items: Iterable[Item]) -> list[RemovedCandidate]:
    """Return candidates of the run before that are none any more, first those that had entered."""
    now = {_identity(item) for item in items}
    gone = [
        RemovedCandidate(LAYERS.get(layer, layer), text, entered, tokens)
        for identity, (layer, entered, tokens, text) in before.items.items()
        if identity not in now
    ]
    return sorted(gone, key=lambda each: not each.entered)[:MOST_OF_A_LAYER]


def _before(before: RunOutcome | None, layer: str, nonce_tokens: int | None) -> int | None:
    if before is None:
        return None
    return before.frame_with(nonce_tokens) if layer == FRAME else before.layers.get(layer)


def _tokens(items: Iterable[Item], layer: str) -> int:
    return sum(item["tokens"] for item in items if item["layer"] == layer and item["included"])


def _identity(item: Item) -> str:
    """Return the key of a candidate across runs; a memory keeps its own when it is pinned."""
    layer, key = item["layer"], item["source_id"] or item["excerpt"]
    return f"{'memory' if layer in MEMORIES else layer} {key}"


def _worth(item: Item) -> float:
    score, relevance = item["final_score"], item["relevance"]
    return float(score if score is not None else relevance if relevance is not None else -1.0)


def _row(item: Item, *, may_curate: bool, before: RunOutcome | None) -> Row:
    layer, key = item["layer"], item["source_id"]
    curate = _address(CURATE, key) if may_curate and layer in VERBS else None
    return Row(
        layer=layer,
        source_id=key,
        text=(item["excerpt"] or "")[:SHOWN_EXCERPT],
        tokens=item["tokens"],
        relevance=item["relevance"],
        score=item["final_score"],
        parts=_parts(item["score_breakdown"] or {}),
        included=item["included"],
        reason=item["reason"],
        page=_address(SOURCE_PAGES.get(layer), key),
        curate=curate,
        verbs=VERBS[layer] if curate else (),
        change=_change(item, before) if before else "",
    )


def _parts(breakdown: Mapping[str, Any]) -> list[Part]:
    """Return the weighted parts of the score; where there are none, the parts of the relevance."""
    names = [name for name in WEIGHTED if name in breakdown]
    names = names or [name for name in PARTS if name in breakdown]
    values = [(name, breakdown[name]) for name in names if isinstance(breakdown[name], int | float)]
    return [Part(PARTS[name], value, f"{100 * min(1.0, max(0.0, value)):.1f}") for name, value in values]


def _change(item: Item, before: RunOutcome) -> str:
    """Return the difference to the run before in words; "" where there is none."""
    if item["layer"] in (SYSTEM, USER_MESSAGE):
        return ""
    was = before.items.get(_identity(item))
    if was is None:
        return gettext("new")
    layer, entered, tokens, _text = was
    if layer != item["layer"]:
        return gettext("was among: %(layer)s") % {"layer": LAYERS.get(layer, layer)}
    if entered != item["included"]:
        return gettext("had entered before") if entered else gettext("was left out before")
    if item["included"] and tokens != item["tokens"]:
        return gettext("had %(tokens)s tokens before") % {"tokens": grouped(tokens)}
    return ""


def _address(name: str | None, key: str | None) -> str | None:
    if not name or not key:
        return None
    try:
        return reverse(name, args=[key])
    except NoReverseMatch:
        return None


MOST_BYTES: Final = 60_000
"""Of all texts together, escaped as in the page: a quotation mark is six bytes."""

LEAST_OF_THE_LAST: Final = 4_000
"""Reserved for the user's own message, which comes last."""

SHORTEST_DATA: Final = 200

_NONCE: Final = re.compile(r"(?<=<remembered-)[0-9a-f]{32}(?=>)|(?<=</remembered-)[0-9a-f]{32}(?=>)")
_FIXED_NONCE: Final = "0" * 32


@dataclass(frozen=True)
class PromptText:
    """One text of the prompt, possibly cut; `length` is that of the whole."""

    text: str = field(repr=False)
    length: int

    @property
    def is_cut(self) -> bool:
        return len(self.text) < self.length


@dataclass(frozen=True)
class PromptTurn:
    """One message with its blocks; `role` "" is the separate `system`."""

    role: str
    texts: list[PromptText]


@dataclass(frozen=True)
class PromptPreview:
    """The prompt message by message, and as JSON where that is short enough for the page."""

    turns: list[PromptTurn]
    as_json: str | None = field(repr=False)

    @property
    def is_cut(self) -> bool:
        return any(text.is_cut for turn in self.turns for text in turn.texts)


def prompt_as_json(assembly: Assembly) -> str:
    """Return the prompt as JSON, as a provider takes it."""
    body: dict[str, Any] = {} if assembly.system is None else {"system": assembly.system}
    return json.dumps({**body, "messages": assembly.messages}, ensure_ascii=False, indent=2)


def prompt_preview(assembly: Assembly) -> PromptPreview:
    """Return the prompt, its texts cut where they are too long for a page."""
    sent = [("", assembly.system)] if assembly.system is not None else []
    sent += [(message["role"], message["content"]) for message in assembly.messages]
    texts = [(role, list(_block_texts(content))) for role, content in sent]
    room, turns = MOST_BYTES - LEAST_OF_THE_LAST, []
    for place, (role, blocks) in enumerate(texts):
        if place == len(texts) - 1:
            room += LEAST_OF_THE_LAST
        shown = []
        for block in blocks:
            text = _within(block, room)
            room -= _size(text)
            shown.append(PromptText(text, len(block)))
        turns.append(PromptTurn(role, shown))
    whole = prompt_as_json(assembly)
    return PromptPreview(turns, whole if _size(whole) <= MOST_BYTES else None)


def count_nonce_tokens(assembly: Assembly, count: Callable[[str], int]) -> int:
    """Return the tokens that the block's nonce takes more than a fixed one, which differ from run to run."""
    texts = [text for message in assembly.messages for text in _block_texts(message["content"])]
    return sum(count(text) - count(_NONCE.sub(_FIXED_NONCE, text)) for text in texts if _NONCE.search(text))


def _block_texts(content: str | Sequence[dict[str, Any]] | None) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for block in content or ():
        yield block["text"] if block.get("type") == "text" else _reference(block)


def _reference(block: dict[str, Any]) -> str:
    return json.dumps(_without_data(block), ensure_ascii=False)


def _without_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_data(each) for name, each in value.items()}
    if isinstance(value, str) and len(value) > SHORTEST_DATA:
        return f"{value[:40]}… ({len(value)})"
    return value


def _size(text: str) -> int:
    return len(escape(text).encode())


def _within(text: str, most: int) -> str:
    shown = text[: max(0, most)]
    while shown and _size(shown) > most:
        shown = shown[: len(shown) // 2]
    return shown


def project_in_words(project: str | None) -> str:
    """Return the requested project in words; None means no project, UNNAMED that none was named."""
    if project is None:
        return gettext("no project")
    if project == UNNAMED:
        return gettext("the agent’s current project, or the one found by routing")
    if project == AUTO:
        return gettext("found by the message")
    return excerpt(project, 60)
