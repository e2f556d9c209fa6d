"""Take deleted messages out of summaries, documents and decisions (SPEC C6)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from uuid import UUID

from django.db.models import Q

from conversations.actions.forgetting import Forgotten
from conversations.actions.receipts import forget_sources
from memoryhub.api.idempotency import forget_answers
from memoryhub.jobs.queue import enqueue
from memoryhub.tenancy.models import delete_rows
from memoryhub.tenancy.policy import Trust
from summaries.actions.projects import replace_text
from summaries.actions.summaries import SummaryRequest
from summaries.domain.documents import DocumentKind, bare_line, line_digest, lines_by_digest, reverted, without_lines
from summaries.domain.projects import MAX_DESCRIPTION_LENGTH, one_line
from summaries.domain.summaries import JOB
from summaries.models import Document, DocumentEntry, DocumentVersion, Project, RoutingDecision, Summary, SummaryDraft


def forget_written(forgotten: Forgotten) -> Counter[str]:
    """Delete or change what was written from deleted messages; return counts."""
    if forgotten.keeps_drawn:
        _drop_sources(forgotten)
        return (_forget_summary(forgotten) if forgotten.is_whole else Counter()) + _forget_decisions(forgotten)
    return _forget_summary(forgotten) + _forget_entries(forgotten) + _forget_decisions(forgotten)


def _forget_summary(forgotten: Forgotten) -> Counter[str]:
    """Delete the session's summary if it covers deleted messages, with its versions, and enqueue another.

    Also one that a person edited: its text may repeat the deleted words.
    """
    own = {"actor_id": forgotten.actor.pk, "session_id": forgotten.session.pk}
    SummaryDraft.objects.filter(**own).delete()
    covering = Q() if forgotten.is_whole else Q(message_count__gte=forgotten.first_seq)
    rows = Summary.objects.filter(covering, **own)
    texts = list(rows.values_list("pk", "text"))
    if not texts:
        return Counter()
    keys = [key for key, _text in texts]
    forgotten.take("summaries", texts)
    _forget_texts(forgotten, keys)
    delete_rows(rows)
    if forgotten.rewrites:
        session_id = str(forgotten.session.pk)
        payload = {"session_id": session_id, **SummaryRequest(anew=True).payload()}
        enqueue(JOB, actor_id=forgotten.actor.pk, key=f"{session_id}:forgotten", payload=payload)
    return Counter(summaries=len(keys))


def _entries_of(forgotten: Forgotten) -> tuple[list[DocumentEntry], list[DocumentEntry]]:
    """Return the entries that lose a source, those with others and those without; both without the deleted ones."""
    deleted = {str(key) for key in forgotten.message_ids}
    entries = DocumentEntry.objects.filter(actor_id=forgotten.actor.pk).select_related("document")
    kept: list[DocumentEntry] = []
    alone: list[DocumentEntry] = []
    for entry in entries.filter(source__message_ids__has_any_keys=sorted(deleted)):
        entry.source["message_ids"] = [key for key in entry.source["message_ids"] if key not in deleted]
        (kept if entry.source["message_ids"] else alone).append(entry)
    return kept, alone


def _drop_sources(forgotten: Forgotten) -> None:
    for entry in [each for entries in _entries_of(forgotten) for each in entries]:
        entry.save(update_fields=["source"])


def _forget_entries(forgotten: Forgotten) -> Counter[str]:
    """Delete entries that rest on deleted messages alone from all documents; others wait for approval."""
    kept, gone = _entries_of(forgotten)
    waiting = sum(entry.trust == Trust.TRUSTED for entry in kept)
    for entry in kept:
        entry.trust = Trust.UNTRUSTED
        entry.save(update_fields=["source", "trust"])
    documents = {entry.document_id: entry.document for entry in gone}
    digests = {bytes(entry.text_digest) for entry in gone}
    lines_of = {key: sorted(set(_lines_with(document, digests))) for key, document in documents.items()}
    forgotten.take("entries", [(key, line) for key, of_one in lines_of.items() for line in of_one])
    lines = {line for of_one in lines_of.values() for line in of_one}
    descriptions = {one_line(text)[:MAX_DESCRIPTION_LENGTH] for text in forgotten.texts} - {""}
    projects = Project.objects.of(forgotten.actor.pk).filter(description__in=descriptions)
    described = dict(projects.values_list("pk", "description"))
    quotes = {f"> {description}" for description in described.values()}
    changed = _remove_lines(forgotten, documents, digests | set(map(line_digest, quotes)), lines | quotes)
    projects.update(description="")
    DocumentEntry.objects.filter(actor_id=forgotten.actor.pk, pk__in=[entry.pk for entry in gone]).delete()
    _forget_texts(forgotten, [*described, *changed, *(entry.document_id for entry in [*kept, *gone])])
    return Counter(entries=len(gone), entries_for_review=waiting, project_descriptions=len(described))


def _lines_with(document: Document, digests: set[bytes]) -> Iterator[str]:
    """Yield the lines with these digests, without bullets, from all texts that a document has had."""
    for text in (document.text, *document.versions.values_list("text", flat=True)):
        yield from (bare_line(line) for digest, line in lines_by_digest(text).items() if digest in digests)


def _remove_lines(
    forgotten: Forgotten, documents: Mapping[UUID, Document], digests: set[bytes], lines: set[str]
) -> list[UUID]:
    """Remove lines from these documents, those that they were moved to, and all former texts; return what changed.

    The documents' new version makes a compaction that has read the lines before write nothing.
    """
    holds = Q(pk__in=[])
    for line in lines:
        holds |= Q(text__contains=line)
    rows = Document.objects.of(forgotten.actor.pk).filter(holds | Q(pk__in=documents))
    texts = {document.pk: _uncompacted(document, digests) for document in rows}
    for version in DocumentVersion.objects.filter(holds, actor_id=forgotten.actor.pk):
        version.text = without_lines(version.text, digests)
        version.save(update_fields=["text"])
    changed = []
    for document in rows:
        text = without_lines(texts[document.pk], digests)
        if text != document.text:
            changed.append(document.pk)
            document.text = text  # the version that the replacement keeps does not have the lines either
            replace_text(
                document, text, kind=DocumentKind.EDIT, by=forgotten.by, reason=forgotten.reason, now=forgotten.now
            )
    return changed


def _uncompacted(document: Document, digests: set[bytes]) -> str:
    """Return a document's text without the compactions that rewrote these lines; their results are deleted.

    A rewritten text may repeat the words in any form. What was written since is kept.
    """
    versions = list(document.versions.order_by("number"))
    compactions = [
        (version, after)
        for version, after in zip(versions, [*(version.text for version in versions[1:]), document.text], strict=True)
        if version.kind == DocumentKind.COMPACTION
    ]
    lost = [
        digests & lines_by_digest(version.text).keys() - lines_by_digest(after).keys() for version, after in compactions
    ]
    if not any(lost):
        return document.text
    first = next(place for place, each in enumerate(lost) if each)
    text = document.text
    for version, after in reversed(compactions[first:]):
        text = reverted(text, before=version.text, after=after)
    document.versions.filter(number__gt=compactions[first][0].number).delete()
    return text


def _forget_decisions(forgotten: Forgotten) -> Counter[str]:
    """Delete the routing decisions about deleted messages: they repeat the text, and the model's reason quotes it."""
    of_session = Q(session=forgotten.session.pk) if forgotten.is_whole else Q(pk__in=[])
    of_texts = Q(message__in=forgotten.texts - {""}) & (Q(session=forgotten.session.pk) | Q(session=None))
    rows = RoutingDecision.objects.filter(of_session | of_texts, actor_id=forgotten.actor.pk)
    return Counter(routes=rows.delete()[0])


def _forget_texts(forgotten: Forgotten, row_ids: list[UUID]) -> None:
    if row_ids:
        forget_sources(row_ids)
        forget_answers(actor=forgotten.actor, row_ids=row_ids)
