"""Context layers: the session's summary, or the one before it (SPEC U7), and the documents of a project (SPEC P5)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import Case, Q, QuerySet, TextField, When
from django.db.models.functions import Right

from conversations.actions.context import LayerRequest
from conversations.actions.writing import headings_language
from conversations.domain.content import sections_of
from conversations.domain.layers import PROJECT, SESSION_SUMMARY, Candidate, LayerResult
from memoryhub.auth.access import UnknownRow
from memoryhub.db.prepared import Param, PreparedQuery
from memoryhub.llm.tokens import count_raw
from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import document_weights, word_score
from memoryhub.search.query import SearchQuery
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import Trust
from summaries.actions.entries import untrusted_digests
from summaries.actions.projects import active_project, hold_project, note_event
from summaries.domain.documents import MEMORY, PINNED, best_sections, document_order, without_lines
from summaries.domain.policy import ProjectPolicy
from summaries.domain.projects import EventKind
from summaries.domain.summaries import Generator
from summaries.models import Document, DocumentEntry, Project, Summary, summary_for

WHOLE_DOCUMENTS: Final = (PINNED, MEMORY)
"""Documents that are always included, by falling importance: a context that is too long trims the last first."""

SEARCHED_DOCUMENTS: Final = 10
SEARCHED_LENGTH: Final = 20_000
"""Number of other documents that are searched, the latest changed, and characters of each, from its end."""

MIN_RELEVANCE: Final = 0.15
"""Share of the message's possible word score below which a section is no answer."""


LATEST_SUMMARY: Final = PreparedQuery(lambda: Summary.objects.with_end_offset())
NEAREST_SUMMARY: Final = PreparedQuery(lambda: Summary.objects.with_end_offset().by_nearness(Param("session")))

LABELS: Final[Mapping[str, Mapping[tuple[bool, str], str]]] = {
    "en": {
        (True, Generator.LLM): "",
        (True, Generator.EXTRACTIVE): "(Sentences taken from the conversation as they were said.)",
        (True, Generator.PERSON): "(Written by a person.)",
        (False, Generator.LLM): "(Of the conversation before, of {day}.)",
        (False, Generator.EXTRACTIVE): "(Of the conversation before, of {day}: sentences as they were said.)",
        (False, Generator.PERSON): "(Of the conversation before, of {day}; written by a person.)",
    },
    "ja": {
        (True, Generator.LLM): "",
        (True, Generator.EXTRACTIVE): "（会話から抜き出した発言）",
        (True, Generator.PERSON): "（人が書いた要約）",
        (False, Generator.LLM): "（前回の会話、{day}）",
        (False, Generator.EXTRACTIVE): "（前回の会話、{day}。会話から抜き出した発言）",
        (False, Generator.PERSON): "（前回の会話、{day}。人が書いた要約）",
    },
}
"""First line of a summary by language, whether it is of this session, and its origin."""


def session_summary(request: LayerRequest) -> LayerResult:
    """Offer the session's own summary, else the latest trusted one of a session before it."""
    if not request.policy.include_session_summary:
        return LayerResult()
    session, of_actor = request.context.session, Q(actor_id=request.tenant.actor_id)
    if session is None:
        summary = LATEST_SUMMARY.first(of_actor & Q(trust=Trust.TRUSTED))
    else:
        summary = NEAREST_SUMMARY.first(of_actor & summary_for(session), session=session.pk)
    if summary is None:
        return LayerResult()
    # A locked extractive summary was edited by a person; older ones did not record that as generator.
    is_edited = summary.locked and summary.generator == Generator.EXTRACTIVE
    text = with_origin_line(
        summary.text,
        language=headings_language(request.tenant, request.context.message),
        is_own=session is not None and summary.session_id == session.pk,
        generator=Generator.PERSON if is_edited else summary.generator,
        ended_at=summary.local_end(request.zone),
    )
    candidate = Candidate(
        layer=SESSION_SUMMARY, content=text, source_id=str(summary.pk), created_at=summary.end_time.isoformat()
    )
    return LayerResult((candidate,))


def with_origin_line(text: str, *, language: str, is_own: bool, generator: str, ended_at: datetime) -> str:
    """Return a summary below a line about its origin: another session, an extract, or a person."""
    line = LABELS.get(language, LABELS["en"])[is_own, generator]
    return f"{line.format(day=f'{ended_at:%Y-%m-%d}')}\n{text}" if line else text


def project(request: LayerRequest) -> LayerResult:
    """Offer the documents of the project that the request or a router names, and record that it was read.

    MEMORY.md and pinned.md are included whole, other documents by the sections that match the message. Untrusted
    entries are left out. A dry run records nothing.
    """
    if not request.project or not request.policy.include_project:
        return LayerResult()
    actor_id = request.tenant.actor_id
    project = active_project(actor_id=actor_id, name=request.project)
    if project is None:
        return LayerResult()
    policy = effective_policy(ProjectPolicy, request.tenant.agent, request.tenant.actor)
    documents = project.current_documents
    untrusted = untrusted_digests(DocumentEntry.objects.filter(actor_id=actor_id, document__in=documents))
    whole = sorted(
        documents.filter(name__in=WHOLE_DOCUMENTS), key=lambda document: WHOLE_DOCUMENTS.index(document.name)
    )
    candidates = [
        _candidate(document, without_lines(document.text, untrusted.get(document.pk, set()))) for document in whole
    ]
    if policy.project_search_tokens and request.query.words is not None:
        others = documents.exclude(name__in=WHOLE_DOCUMENTS)
        candidates += _search(others, request.query, untrusted, policy.project_search_tokens)
    candidates = [candidate for candidate in candidates if str(candidate.content).strip()]
    if not request.dry_run:
        _note_reading(project, candidates, request.now)
    return LayerResult(tuple(candidates))


def _candidate(document: Document, text: str) -> Candidate:
    return Candidate(
        layer=PROJECT,
        content=text,
        source_id=str(document.pk),
        title=document.name,
        created_at=document.updated_at.isoformat(),
    )


def _search(
    documents: QuerySet[Document], query: SearchQuery, untrusted: Mapping[UUID, set[bytes]], max_tokens: int
) -> list[Candidate]:
    def score(section: str) -> float:
        return min(1.0, word_score(document_weights(analyse(section)), query.words)) if query.words else 0.0

    matches: list[tuple[float, Candidate]] = []
    # A line is identified by its whole text, so untrusted lines are removed before the text is cut.
    end = Case(
        When(pk__in=list(untrusted), then="text"), default=Right("text", SEARCHED_LENGTH), output_field=TextField()
    )
    latest = documents.defer("text").annotate(end=end).order_by("-updated_at", "-id")[:SEARCHED_DOCUMENTS]
    for document in latest:
        text = without_lines(document.end, untrusted.get(document.pk, set()))[-SEARCHED_LENGTH:]
        sections, best = best_sections(
            sections_of(text), score, floor=MIN_RELEVANCE, most_tokens=max_tokens, count=count_raw
        )
        if sections:
            matches.append((best, replace(_candidate(document, "".join(sections)), relevance=best)))
    matches.sort(key=lambda match: (-match[0], document_order(match[1].title)))
    return _within([candidate for _, candidate in matches], max_tokens)


def _within(candidates: list[Candidate], max_tokens: int) -> list[Candidate]:
    selected, remaining = [], max_tokens
    for candidate in candidates:
        tokens = count_raw(str(candidate.content))
        if tokens <= remaining:
            selected.append(candidate)
            remaining -= tokens
    return selected


@transaction.atomic
def _note_reading(project: Project, candidates: list[Candidate], now: datetime) -> None:
    try:
        hold_project(project)
    except UnknownRow:
        return  # deleted concurrently
    note_event(
        actor=project.actor,
        project=project,
        kind=EventKind.READ,
        tokens=sum(count_raw(str(candidate.content)) for candidate in candidates),
        outcome="context",
        details={"document_ids": [candidate.source_id for candidate in candidates]},
        now=now,
    )
