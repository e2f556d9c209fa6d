"""Taking back what a person just changed of a project or a summary, as one step (SPEC A11)."""

from datetime import datetime

from django.db import transaction

from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.errors import told
from summaries.actions.curate import edit_summary
from summaries.actions.curate import restore_version as restore_summary
from summaries.actions.documents import restore_version as restore_document
from summaries.actions.projects import change_project, locked_project
from summaries.domain.projects import MEMORY, description_in
from summaries.models import Document, Project, Summary, SummaryVersion


@transaction.atomic
def put_project_back(
    *,
    project: Project,
    name: str,
    memory_version: int | None,
    expected_version: int | None,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> Project:
    """Give a project its former name, and MEMORY.md what it said at a version, which tells the description.

    Raises as `change_project` and `restore_version`.
    """
    project = locked_project(project, expected_version)
    if name != project.name:
        change_project(project=project, values={"name": name}, by=by, reason=reason, now=now)
    if memory_version is not None:
        memory = Document.objects.of(project.actor_id).filter(project=project, name=MEMORY).first()
        if memory is None:
            raise UnknownRow(told("No such document."))
        restore_document(
            document=memory, number=memory_version, expected_version=memory_version + 1, by=by, reason=reason, now=now
        )  # fmt: skip
        project = locked_project(project)
        _describe_as_before(project, by, reason, now)
    return project


def _describe_as_before(project: Project, by: Principal, reason: str, now: datetime) -> None:
    """Follow a MEMORY.md that says nothing of what the project is about: a text with a quote is followed already."""
    text = (
        Document.objects.of(project.actor_id).values_list("text", flat=True).get(project=project, name=MEMORY)
    )
    if project.description and not description_in(text):
        project.description, project.version, project.updated_at = "", project.version + 1, now
        project.save(update_fields=["description", "version", "updated_at"])


@transaction.atomic
def put_summary_back(
    *,
    summary: Summary,
    number: int,
    expected_version: int | None,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> Summary:
    """Bring back what a summary was at a version, and whether it was locked. Raises as `edit_summary`."""
    versions = SummaryVersion.objects.filter(actor_id=summary.actor_id, summary=summary)
    version = versions.filter(number=number).first()
    if version is None:
        raise UnknownRow(told("There is no such version."))
    restored = restore_summary(
        summary=summary, version=version, expected_version=expected_version, by=by, reason=reason, now=now
    )
    return edit_summary(
        summary=restored, values={"locked": version.locked}, expected_version=None, by=by, reason=reason, now=now
    )  # fmt: skip
