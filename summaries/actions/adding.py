"""Giving a project one more document under a name that is free, and taking an empty one away again (SPEC P1)."""

from datetime import datetime

from django.db import transaction

from memoryhub.access import audit
from memoryhub.access.domain import Principal
from memoryhub.access.tenancy import UnknownRow
from memoryhub.refusals import Refusal, told
from summaries.actions.documents import put_document
from summaries.actions.projects import check_trusted, locked_project
from summaries.domain.projects import check_document_name, free_name, propose_name
from summaries.models import Document, Project


class NotAdded(Refusal):
    """The document is there already."""


class NotEmpty(Refusal):
    """Something was written into the document; it goes with its project alone."""


@transaction.atomic
def add_document(
    *, project: Project, name: str = "", topic: str = "", by: Principal, reason: str = "", now: datetime
) -> Document:
    """Make an empty document: the one that is named, or one about a topic, under a name that is free.

    Raises NotAdded, BadDocumentName, UnknownRow, Forbidden.
    """
    check_trusted(by)
    project = locked_project(project)
    taken = set(Document.objects.of(project.actor_id).filter(project=project).values_list("name", flat=True))
    name = name or _free_detail(topic, taken)
    check_document_name(name)
    if name in taken:
        raise NotAdded(told("The project has a document %(name)s already.", name=name))
    return put_document(project=project, name=name, text="", by=by, reason=reason, now=now)


def _free_detail(topic: str, taken: set[str]) -> str:
    topics = {name.removeprefix("detail-").removesuffix(".md") for name in taken}
    return f"detail-{free_name(propose_name(topic), topics)}.md"


@transaction.atomic
def remove_empty_document(*, document: Document, by: Principal, reason: str = "", now: datetime) -> None:
    """Remove a document that nothing was ever written into. Raises NotEmpty, UnknownRow, Forbidden."""
    check_trusted(by)
    project = locked_project(Project(pk=document.project_id, actor_id=document.actor_id))
    rows = Document.objects.of(document.actor_id).select_for_update().filter(pk=document.pk)
    locked = rows.first()
    if locked is None:
        raise UnknownRow(told("No such document."))
    if locked.text or locked.version > 1:
        raise NotEmpty(
            told("Something was written into this document meanwhile; it can be emptied, not removed.")
        )
    audit.record(
        by=by, verb="delete", object_kind="document", object_id=locked.pk, actor=project.actor, reason=reason, now=now
    )  # fmt: skip
    locked.delete()
