"""What summaries bring into a context: what this session was about so far, else the one before it; and a project."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Case, QuerySet, TextField, When
from django.db.models.functions import Right

from conversations.actions.context import LayerRequest
from conversations.domain.layers import PROJECT, SESSION_SUMMARY, Candidate, LayerResult
from conversations.domain.text import sections_of
from conversations.models import Session
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.llm.tokens.counter import count_raw
from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import document_weights, word_score
from memoryhub.search.query import SearchQuery
from memoryhub.tenancy.domain import Trust
from memoryhub.tenancy.policies import effective_policy
from summaries.actions.projects import hold_project, note_event
from summaries.domain.documents import MEMORY, PINNED, best_sections, document_order, without_lines
from summaries.domain.policy import ProjectPolicy
from summaries.domain.projects import EventKind
from summaries.domain.summaries import Generator
from summaries.models import Document, DocumentEntry, Project, Summary

WHOLE: Final = (PINNED, MEMORY)
"""What always comes along, the dearest first: a context that is too long trims the last document first."""

SEARCHED_DOCUMENTS: Final = 10
SEARCHED_END: Final = 20_000
"""How many other documents are searched, those changed last, and how many characters of each, from its end."""

FLOOR: Final = 0.15
"""A section that says less than this of what the message could find does not answer it."""


@dataclass(frozen=True)
class Brought:
    """One document of a project as it may stand in a context."""

    document_id: UUID
    name: str
    text: str = field(repr=False)
    updated_at: datetime
    relevance: float | None = None


def project_for_context(
    *,
    actor_id: UUID,
    name: str,
    query: SearchQuery,
    most_searched_tokens: int,
    is_trial: bool = False,
    now: datetime,
) -> list[Brought]:
    """Return what a project brings into a context, and note that it was read; [] where there is no such project.

    Entries that nobody believes stay out. A trial is no reading, and is not noted.
    """
    project = Project.objects.of(actor_id).select_related("actor__agent").filter(name=name).first()
    if project is None:
        return []
    rows = Document.objects.of(actor_id).filter(project=project)
    doubted = _doubted(actor_id, project)
    whole = sorted(rows.filter(name__in=WHOLE), key=lambda each: WHOLE.index(each.name))
    brought = [
        Brought(each.pk, each.name, without_lines(each.text, doubted.get(each.pk, set())), each.updated_at)
        for each in whole
    ]
    if most_searched_tokens and query.words is not None:
        brought += _answering(rows.exclude(name__in=WHOLE), query, doubted, most_searched_tokens)
    brought = [each for each in brought if each.text.strip()]
    if not is_trial:
        _note(project, brought, now)
    return brought


def _doubted(actor_id: UUID, project: Project) -> dict[Any, set[bytes]]:
    entries = DocumentEntry.objects.filter(
        actor_id=actor_id, document__project=project, document__actor_id=actor_id, trust=Trust.UNTRUSTED
    )
    doubted: dict[Any, set[bytes]] = {}
    for document_id, digest in entries.values_list("document_id", "text_digest"):
        doubted.setdefault(document_id, set()).add(bytes(digest))
    return doubted


def _answering(
    rows: QuerySet[Document], query: SearchQuery, doubted: dict[Any, set[bytes]], most_tokens: int
) -> list[Brought]:
    """Return the sections of other documents that answer the message, within so many tokens for all of them."""

    def score(section: str) -> float:
        return word_score(document_weights(analyse(section)), query.words) if query.words else 0.0

    found: list[Brought] = []
    # A line is known by its whole text: where lines are doubted they go before the text is cut, never after.
    end = Case(
        When(pk__in=list(doubted), then="text"), default=Right("text", SEARCHED_END), output_field=TextField()
    )
    latest = rows.order_by("-updated_at", "-id").annotate(end=end)
    for pk, name, end, updated_at in latest.values_list("pk", "name", "end", "updated_at")[
        :SEARCHED_DOCUMENTS
    ]:
        text = without_lines(end, doubted.get(pk, set()))[-SEARCHED_END:]
        sections, best = best_sections(
            sections_of(text), score, floor=FLOOR, most_tokens=most_tokens, count=count_raw
        )
        if sections:
            found.append(Brought(pk, name, "".join(sections), updated_at, best))
    return _within(
        sorted(found, key=lambda each: (-(each.relevance or 0.0), document_order(each.name))), most_tokens
    )


def _within(found: list[Brought], most_tokens: int) -> list[Brought]:
    kept, left = [], most_tokens
    for each in found:
        tokens = count_raw(each.text)
        if tokens <= left:
            kept.append(each)
            left -= tokens
    return kept


@transaction.atomic
def _note(project: Project, brought: list[Brought], now: datetime) -> None:
    try:
        hold_project(project)
    except UnknownRow:
        return  # deleted meanwhile: what was read of it still is what it said
    note_event(
        actor=project.actor, project=project, kind=EventKind.READ, tokens=sum(count_raw(each.text) for each in brought),
        outcome="context", details={"document_ids": [str(each.document_id) for each in brought]}, now=now,
    )  # fmt: skip


def session_summary(request: LayerRequest) -> LayerResult:
    """Offer the session's own summary, else the latest trusted one of a session before it."""
    if not request.policy.include_session_summary:
        return LayerResult()
    summary = summary_for_context(actor_id=request.tenant.actor_id, session=request.session)
    if summary is None:
        return LayerResult()
    text = introduced(
        summary.text,
        language=request.tenant.agent.language if request.tenant.agent else "en",
        is_own=request.session is not None and summary.session_id == request.session.pk,
        is_excerpts=summary.generator == Generator.EXTRACTIVE and not summary.locked,
        ended_at=summary.end_time,
    )
    return LayerResult(
        (
            Candidate(
                layer=SESSION_SUMMARY,
                content=text,
                source_id=str(summary.pk),
                created_at=summary.end_time.isoformat(),
            ),
        )
    )


def project(request: LayerRequest) -> LayerResult:
    """Offer the documents of the project that the request names, or that a router found."""
    if not request.project or not request.policy.include_project:
        return LayerResult()
    policy = effective_policy(ProjectPolicy, request.tenant.agent, request.tenant.actor)
    brought = project_for_context(
        actor_id=request.tenant.actor_id,
        name=request.project,
        query=request.query,
        most_searched_tokens=policy.project_search_tokens,
        is_trial=request.is_trial,
        now=request.now,
    )
    return LayerResult(tuple(_document(each) for each in brought))


def _document(brought: Brought) -> Candidate:
    return Candidate(
        layer=PROJECT,
        content=brought.text,
        source_id=str(brought.document_id),
        title=brought.name,
        created_at=brought.updated_at.isoformat(),
        relevance=brought.relevance,
    )


@dataclass(frozen=True, slots=True)
class Labels:
    """The line above a summary in a context, by what it is of."""

    excerpts: str
    previous: str
    previous_excerpts: str


LABELS: Final[Mapping[str, Labels]] = {
    "en": Labels(
        excerpts="(Sentences taken from the conversation as they were said.)",
        previous="(Of the conversation before, of {day}.)",
        previous_excerpts="(Of the conversation before, of {day}: sentences as they were said.)",
    ),
    "ja": Labels(
        excerpts="（会話から抜き出した発言）",
        previous="（前回の会話、{day}）",
        previous_excerpts="（前回の会話、{day}。会話から抜き出した発言）",
    ),
}


def introduced(text: str, *, language: str, is_own: bool, is_excerpts: bool, ended_at: datetime) -> str:
    """Return a summary as a context shows it: with a line that says whose it is, and what kind, where that matters."""
    labels = LABELS.get(language, LABELS["en"])
    if is_own:
        line = labels.excerpts if is_excerpts else ""
    else:
        line = labels.previous_excerpts if is_excerpts else labels.previous
    return f"{line.format(day=f'{ended_at:%Y-%m-%d}')}\n{text}" if line else text


def summary_for_context(*, actor_id: UUID, session: Session | None) -> Summary | None:
    """Return the session's own summary, else the latest trusted one of a session before it (SPEC U7, M10).

    Without a session, the actor's latest trusted one.
    """
    summaries = Summary.objects.of(actor_id)
    return summaries.trusted().first() if session is None else summaries.for_session(session).first()
