"""Take deleted messages out of summaries, documents and decisions (SPEC C6)."""

from collections import Counter
from uuid import UUID

from django.db.models import Q

from conversations.actions.forgetting import Forgotten
from conversations.actions.receipts import forget_sources
from memoryhub.api.idempotency import forget_answers
from memoryhub.jobs.queue import enqueue
from memoryhub.tenancy.policy import Trust
from summaries.actions.projects import replace_text
from summaries.actions.summaries import SummaryRequest
from summaries.domain.documents import DocumentKind, without_lines
from summaries.domain.summaries import JOB
from summaries.models import Document, DocumentEntry, RoutingDecision, Summary, SummaryDraft


def forget_written(forgotten: Forgotten) -> Counter[str]:
    """Delete or change what was written from deleted messages; return counts."""
    return _forget_summary(forgotten) + _forget_entries(forgotten) + _forget_decisions(forgotten)


def _forget_summary(forgotten: Forgotten) -> Counter[str]:
    """Delete the session's summary if it covers deleted messages, with its versions, and enqueue another.

    Also one that a person edited: its text may repeat the deleted words.
    """
    own = {"actor_id": forgotten.actor.pk, "session_id": forgotten.session.pk}
    SummaryDraft.objects.filter(**own).delete()
    covering = Q() if forgotten.is_whole else Q(message_count__gte=forgotten.first_seq)
    rows = Summary.objects.filter(covering, **own)
    keys = list(rows.values_list("pk", flat=True))
    if not keys:
        return Counter()
    _forget_texts(forgotten, keys)
    rows.delete()
    if not forgotten.is_whole:
        session_id = str(forgotten.session.pk)
        payload = {"session_id": session_id, **SummaryRequest(anew=True).payload()}
        enqueue(JOB, actor_id=forgotten.actor.pk, key=f"{session_id}:forgotten", payload=payload)
    return Counter(summaries=len(keys))


def _forget_entries(forgotten: Forgotten) -> Counter[str]:
    """Delete entries that rest on deleted messages alone from their documents; others wait for approval."""
    deleted = {str(key) for key in forgotten.message_ids}
    rows = DocumentEntry.objects.filter(
        actor_id=forgotten.actor.pk, source__message_ids__has_any_keys=sorted(deleted)
    ).select_related("document")
    gone: dict[UUID, tuple[Document, set[bytes]]] = {}
    waiting = 0
    for entry in rows:
        entry.source["message_ids"] = [key for key in entry.source["message_ids"] if key not in deleted]
        if entry.source["message_ids"]:
            waiting += entry.trust == Trust.TRUSTED
            entry.trust = Trust.UNTRUSTED
            entry.save(update_fields=["source", "trust"])
        else:
            gone.setdefault(entry.document_id, (entry.document, set()))[1].add(bytes(entry.text_digest))
            entry.delete()
    for document, digests in gone.values():
        _remove_lines(document, digests, forgotten)
    _forget_texts(forgotten, [entry.document_id for entry in rows])
    return Counter(entries=sum(len(digests) for _, digests in gone.values()), entries_for_review=waiting)


def _remove_lines(document: Document, digests: set[bytes], forgotten: Forgotten) -> None:
    """Remove lines from a document and all its versions; a compaction that has read it before writes nothing."""
    for version in document.versions.all():
        version.text = without_lines(version.text, digests)
        version.save(update_fields=["text"])
    text = without_lines(document.text, digests)
    document.text = text  # the version that the replacement keeps does not have the lines either
    replace_text(document, text, kind=DocumentKind.EDIT, by=forgotten.by, reason=forgotten.reason, now=forgotten.now)


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
