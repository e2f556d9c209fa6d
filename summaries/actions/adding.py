"""Giving a project one more document under a name that is free, and taking an empty one away again (SPEC P1)."""

from datetime import datetime

from django.db import transaction

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.errors import DomainError, told
from summaries.actions.documents import put_document
from summaries.actions.projects import check_trusted, locked_project
from summaries.domain.projects import check_document_name, free_name, is_stand_in, one_line, propose_name
from summaries.models import Document, Project


class NotAdded(DomainError):
    """The document is there already."""


class NotEmpty(DomainError):
    """Something was written into the document; it goes with its project alone."""


@transaction.atomic
def add_document(
    *, project: Project, name: str = "", topic: str = "", by: Principal, reason: str = "", now: datetime
) -> Document:
    """Make an empty document: the one that is named, or one about a topic, under a name that is free.

    Where the name cannot say the topic, for want of Latin letters, the text begins with it.

    Raises NotAdded, BadDocumentName, UnknownRow, Forbidden.
    """
    check_trusted(by)
    project = locked_project(project)
    taken = set(Document.objects.of(project.actor_id).filter(project=project).values_list("name", flat=True))
    topic = one_line(topic)
    name, text = (name, "") if name else _detail(topic, taken)
    check_document_name(name)
    if name in taken:
        raise NotAdded(told("The project has a document %(name)s already.", name=name))
    return put_document(project=project, name=name, text=text, by=by, reason=reason, now=now)


def _detail(topic: str, taken: set[str]) -> tuple[str, str]:
    """Return the name of a document about a topic, and what it says at first."""
    topics = {name.removeprefix("detail-").removesuffix(".md") for name in taken}
    name = f"detail-{free_name(propose_name(topic), topics)}.md"
    return name, f"# {topic}\n" if topic and is_stand_in(name) else ""


@transaction.atomic
def remove_empty_document(*, document: Document, by: Principal, reason: str = "", now: datetime) -> None:
    """Remove a document that nothing was ever written into. Raises NotEmpty, UnknownRow, Forbidden."""
    check_trusted(by)
    project = locked_project(Project(pk=document.project_id, actor_id=document.actor_id))
    rows = Document.objects.of(document.actor_id).select_for_update().filter(pk=document.pk)
    locked = rows.first()
    if locked is None:
        raise UnknownRow(told("No such document."))
    if locked.version > 1 or not _says_nothing(locked):
        raise NotEmpty(
            told("Something was written into this document meanwhile; it can be emptied, not removed.")
        )
    audit.record(
        by=by, verb="delete", object_kind="document", object_id=locked.pk, actor=project.actor, reason=reason, now=now
    )  # fmt: skip
    locked.delete()


def _says_nothing(document: Document) -> bool:
    """Say whether a document says nothing, or no more than the topic that its name was made of."""
    topic = document.text.removeprefix("# ").removesuffix("\n")
    is_topic = document.text == f"# {topic}\n" and document.name.startswith(f"detail-{propose_name(topic)}")
    return not document.text or (is_topic and is_stand_in(document.name))
