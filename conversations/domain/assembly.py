"""Put a context together: let candidates in, fit them into the limit, write them, and say what happened.

Everything comes in as values (the layers' candidates, the policy, the nonce, the token counter) and goes out
as values. Who fetched the candidates, who stores the receipt and who calls the model is not known here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from conversations.domain.budget import (
    COMPRESSED,
    Cut,
    Reason,
    Selection,
    ShareUse,
    apply_cuts,
    cuts_needed,
    plan_cuts,
    select,
)
from conversations.domain.formats import (
    FORMATS,
    IMAGE_TOKENS,
    REPLY_TOKENS,
    CountTokens,
    Format,
    InvalidContext,
    Written,
    check_context,
    count_context,
)
from conversations.domain.layers import (
    PINNED,
    PROJECT,
    RECALL,
    REMEMBERED,
    SEMANTIC,
    SESSION_SUMMARY,
    SYSTEM,
    USER_MESSAGE,
    WORKING,
    Candidate,
    Content,
    Contents,
    LayerResult,
)
from conversations.domain.policy import DEFAULT_POLICY, ContextPolicy
from conversations.domain.prompt import (
    Frame,
    Language,
    Prompt,
    Turn,
    attachments_given_way,
    blocks_of,
    check_nonce,
    excerpt,
    render,
    render_entry,
    render_system,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyRequest:
    """All that a context is made of.

    `nonce`: 32 lower-case hexadecimal digits, drawn anew for each call. `project`: the name that the
    metadata tell when that project's memory is in the result. `disclosed`: the project that the model is to name
    in its answer, because nobody was sure of it. `image_tokens`: the fixed estimate per image.
    """

    message: str
    nonce: str
    policy: ContextPolicy = DEFAULT_POLICY
    layers: tuple[LayerResult, ...] = ()
    language: Language = "en"
    format: Format = "anthropic"
    project: str | None = None
    disclosed: str | None = None
    image_tokens: int = IMAGE_TOKENS

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every candidate of every layer, in the order given."""
        return tuple(candidate for layer in self.layers for candidate in layer.candidates)

    @property
    def frame(self) -> Frame:
        """The words that never give way."""
        return Frame(
            policy=self.policy,
            message=self.message,
            nonce=self.nonce,
            language=self.language,
            disclosed=self.disclosed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Figures of what is in the result, not of what was offered (SPEC X8)."""

    working_memory_count: int
    semantic_memory_count: int
    recall_count: int
    pinned_count: int
    has_session_summary: bool
    project: str | None
    total_tokens: int
    token_limit: int
    compression_applied: bool
    degraded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of the receipt (SPEC X9): a candidate, or one of the two texts that never give way.

    `tokens` counts the entry by itself: as it entered, else as it was offered. `reason` is a `Reason`.
    """

    layer: str
    source_id: str | None
    excerpt: str
    tokens: int
    relevance: float | None
    final_score: float | None
    score_breakdown: Mapping[str, float] | None
    included: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """A finished context: ready for the provider, with its figures and its receipt's items.

    `system` is None in the OpenAI form, where it is the first message.
    """

    system: str | list[dict[str, Any]] | None
    messages: list[dict[str, Any]]
    metadata: Metadata
    items: tuple[Item, ...]
    layer_budgets: tuple[ShareUse, ...]


def assemble(request: AssemblyRequest, count: CountTokens) -> Assembly:
    """Return the fullest context that stays within the policy's token limit.

    `count` returns the tokens of one text. Raises InvalidContext for a blank message, ContextTooLarge
    where system prompt and message alone exceed the limit, NonceCollision where the caller must draw
    another nonce.
    """
    if not request.message.strip():
        raise InvalidContext(["the user's message is empty"])
    bench = _Bench(request, count)
    selection = select(bench.candidates, policy=request.policy, cost=bench.cost)
    bench.refuse_too_large(selection)
    contents = bench.fit(selection.contents)
    system, messages = bench.write(contents)
    items = _items(bench, selection, contents)
    metadata = _metadata(bench, contents, items, bench.total((system, messages)))
    check_context(system, messages, metadata.total_tokens, metadata.token_limit)
    return Assembly(
        system=system,
        messages=messages,
        metadata=metadata,
        items=items,
        layer_budgets=tuple(selection.shares),
    )


class _Bench:
    """One assembly's material: the candidates, and a counter that reads no text twice."""

    def __init__(self, request: AssemblyRequest, count: CountTokens) -> None:
        self.request = request
        self.frame = request.frame
        self.candidates: Sequence[Candidate] = request.candidates
        self.count: Callable[[str], int] = cache(count)

    def cost(self, place: int, content: Content) -> int:
        """Return the tokens of one candidate by itself."""
        candidate = self.candidates[place]
        if candidate.layer == WORKING:
            return self._turn_cost(Turn(candidate.role, blocks_of(content)))
        return self.count(render_entry(candidate, content, number=1, phrases=self.frame.phrases))

    def fit(self, contents: Contents) -> dict[int, Content]:
        """Return what is left once enough has given way."""
        cuts = plan_cuts(self.candidates, contents)
        limit = self.request.policy.token_limit

        @cache
        def freed() -> list[int]:
            return self._freed(contents, cuts)

        def total_at(number: int) -> int:
            left = apply_cuts(contents, cuts[:number])
            return self.total(self._form(render(self.frame, self.candidates, left)))

        needed = cuts_needed(total_at, count=len(cuts), freed=freed, limit=limit)
        return apply_cuts(contents, cuts[:needed])

    def refuse_too_large(self, selection: Selection) -> None:
        """Refuse what alone is more than the limit leaves: one huge message must not push out all the others."""
        room = self.request.policy.token_limit - self.total(
            self._form(render(self.frame, self.candidates, {}))
        )
        for place, content in list(selection.contents.items()):
            if self._least(place, content) > room:
                del selection.contents[place]
                selection.refused[place] = Reason.TOO_LARGE

    def _least(self, place: int, content: Content) -> int:
        """Return the tokens of what cannot give way by parts; a project's text can, section by section."""
        if self.candidates[place].layer == PROJECT:
            return 0
        return self.cost(place, [content, *attachments_given_way(content)][-1])

    def write(self, contents: Contents) -> Written:
        """Return system and messages, checked for the nonce."""
        prompt = render(self.frame, self.candidates, contents)
        has_block = any(self.candidates[place].layer in REMEMBERED for place in contents)
        check_nonce(prompt, self.frame.nonce, has_block=has_block)
        return self._form(prompt)

    def total(self, written: Written) -> int:
        """Return the tokens of what is written."""
        return count_context(*written, self.count, image_tokens=self.request.image_tokens)

    def _form(self, prompt: Prompt) -> Written:
        return FORMATS[self.request.format](prompt, self.frame.phrases)

    def _turn_cost(self, turn: Turn) -> int:
        _, messages = self._form(Prompt("", (turn,)))
        return self.total((None, messages[-1:])) - REPLY_TOKENS

    def _freed(self, contents: Contents, cuts: Sequence[Cut]) -> list[int]:
        """Estimate what each cut frees: the entry by itself before it, less what is left of it."""
        left = {place: self.cost(place, content) for place, content in contents.items()}
        freed = []
        for cut in cuts:
            rest = 0 if cut.leaves is None else self.cost(cut.place, cut.leaves)
            freed.append(left[cut.place] - rest)
            left[cut.place] = rest
        return freed


def _items(bench: _Bench, selection: Selection, contents: Contents) -> tuple[Item, ...]:
    """Return the receipt's lines: the system prompt, every candidate in the order offered, the message."""
    offered = (_item(bench, selection, contents, place) for place in range(len(bench.candidates)))
    system = _fixed_item(bench, SYSTEM, render_system(bench.frame))
    return (system, *offered, _fixed_item(bench, USER_MESSAGE, bench.frame.message))


def _item(bench: _Bench, selection: Selection, contents: Contents, place: int) -> Item:
    candidate = bench.candidates[place]
    content = contents.get(place, candidate.content)
    return Item(
        layer=candidate.layer,
        source_id=candidate.source_id,
        excerpt=excerpt(candidate.content, bench.frame.phrases),
        tokens=bench.cost(place, content),
        relevance=candidate.relevance,
        final_score=candidate.final_score,
        score_breakdown=candidate.score_breakdown,
        included=place in contents,
        reason=_reason(candidate, selection, contents, place).value,
    )


def _reason(candidate: Candidate, selection: Selection, contents: Contents, place: int) -> Reason:
    if place not in contents:
        return selection.refused.get(place, Reason.OVER_BUDGET)
    return Reason.INCLUDED if contents[place] == candidate.content else Reason.TRIMMED


def _fixed_item(bench: _Bench, layer: str, text: str) -> Item:
    return Item(
        layer=layer,
        source_id=None,
        excerpt=excerpt(text, bench.frame.phrases),
        tokens=bench.count(text),
        relevance=None,
        final_score=None,
        score_breakdown=None,
        included=True,
        reason=Reason.INCLUDED.value,
    )


def _metadata(bench: _Bench, contents: Contents, items: Sequence[Item], total_tokens: int) -> Metadata:
    layers = [bench.candidates[place].layer for place in contents]
    request = bench.request
    return Metadata(
        working_memory_count=layers.count(WORKING),
        semantic_memory_count=layers.count(SEMANTIC),
        recall_count=layers.count(RECALL),
        pinned_count=layers.count(PINNED),
        has_session_summary=SESSION_SUMMARY in layers,
        project=request.project if PROJECT in layers else None,
        total_tokens=total_tokens,
        token_limit=request.policy.token_limit,
        compression_applied=any(item.reason in COMPRESSED for item in items),
        degraded=tuple(dict.fromkeys(name for layer in request.layers for name in layer.degraded)),
    )
