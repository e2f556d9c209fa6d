"""MCP tool of project documents, and the documents as resources."""

from typing import Annotated, Any, Literal

from pydantic import Field
from rest_framework.exceptions import ValidationError

from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Scope
from memoryhub.mcp.calls import Call, resource, tool
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import TrustPolicy
from summaries.actions.documents import append_entry, find_document, put_document, read_document
from summaries.actions.entries import trusted_text
from summaries.actions.projects import catalog_of, create_project, documents_of, project_named
from summaries.api.project_serializers import MAX_REQUESTED_NAME_LENGTH, DocumentIn, EntryIn
from summaries.domain.documents import MAX_DOCUMENT_LENGTH, MAX_DOCUMENT_NAME_LENGTH
from summaries.models import Document, Project

Text = Annotated[str, Field(max_length=MAX_DOCUMENT_LENGTH)]


@tool(scope=Scope.READ, destructive=True)
def project_file(
    call: Call,
    command: Literal["view", "write", "str_replace", "append"],
    project: Annotated[str, Field(max_length=MAX_REQUESTED_NAME_LENGTH)] = "",
    name: Annotated[
        str,
        Field(
            description="MEMORY.md, pinned.md, decisions.md, timeline.md or detail-<topic>.md",
            max_length=MAX_DOCUMENT_NAME_LENGTH,
        ),
    ] = "",
    text: Annotated[Text, Field(description="The whole file, the replacement, or the line to append")] = "",
    old_text: Annotated[Text, Field(description="str_replace: stands in the file exactly once")] = "",
) -> dict[str, Any]:
    """View or edit a project's notes. `view` without `name` lists its files, without `project` all projects.
    Editing creates what does not exist; former texts are kept.
    """
    if command == "view":
        return _view(call, project, name)
    call.require(Scope.WRITE)
    target = _project_to_edit(call, project)
    if command == "append":
        document = _append(call, target, name, text)
    else:
        document = _write(call, target, name, text, old_text if command == "str_replace" else None)
    return {"name": document.name, "version": document.version}


def _project_to_edit(call: Call, name: str) -> Project:
    """Return the project of this name, created if necessary."""
    actor = call.writing()
    try:
        return project_named(actor_id=actor.pk, name=name)
    except UnknownRow:
        return create_project(actor=actor, name=name, description="", by=call.principal, now=call.now)


def _view(call: Call, project: str, name: str) -> dict[str, Any]:
    actor_id = call.reading().actor_id
    if not project:
        return {"projects": catalog_of(actor_id=actor_id)}
    target = project_named(actor_id=actor_id, name=project)
    if not name:
        return {"files": [document.name for document in documents_of(target)]}
    return {"text": _read(call, target, name)}


def _read(call: Call, project: Project, name: str) -> str:
    return trusted_text(read_document(project=project, name=name, now=call.now))


def _write(call: Call, project: Project, name: str, text: str, old_text: str | None) -> Document:
    """Replace a document's text, or its only occurrence of `old_text`; untrusted lines stay at its end."""
    version = None
    if old_text is not None:
        document = find_document(project=project, name=name)
        before, version = trusted_text(document), document.version
        if not old_text or before.count(old_text) != 1:
            raise ValidationError({"old_text": [f"stands {before.count(old_text or ' ')} times in the file."]})
        text = before.replace(old_text, text)
    checked = call.validated(DocumentIn, {"text": text})["text"]
    return put_document(
        project=project,
        name=name,
        text=checked,
        by=call.principal,
        now=call.now,
        expected_version=version,
        keeps_pending=True,
    )


def _append(call: Call, project: Project, name: str, text: str) -> Document:
    values = call.validated(EntryIn, {"text": text})
    policy = effective_policy(TrustPolicy, project.actor.agent, project.actor)
    trust = policy.trust(channel=values["channel"], source_is_trusted=call.principal.is_trusted)
    return append_entry(
        project=project,
        document_name=name,
        text=values["text"],
        pinned=False,
        trust=trust,
        sources={"message_ids": [], "channel": values["channel"]},
        by=call.principal,
        now=call.now,
    )


@resource("memoryhub://projects", "Projects")
def projects(call: Call) -> str:
    """The projects by name; their files are at memoryhub://projects/{project}/{name}."""
    return catalog_of(actor_id=call.reading().actor_id)


@resource("memoryhub://projects/{project}/{name}", "Project file")
def project_document(call: Call, project: str, name: str) -> str:
    """A file of a project."""
    return _read(call, project_named(actor_id=call.reading().actor_id, name=project), name)
