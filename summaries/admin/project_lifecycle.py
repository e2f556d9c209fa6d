"""Buttons and pages of a project's lifecycle: archive, merge, move lines, undo."""

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import as_uuid, clock
from memoryhub.admin.curated import EditorAdmin, address
from memoryhub.admin.object_actions import (
    Change,
    Done,
    change_url,
    object_action,
    report_done,
    submitted_change,
    submitted_text,
)
from memoryhub.errors import DomainError
from summaries.actions.project_lifecycle import (
    Transfer,
    archive_project,
    events_to_undo,
    merge_projects,
    move_entries,
    move_misplaced,
    reactivate_project,
    undo_event,
)
from summaries.actions.projects import project_named
from summaries.actions.updates import misplaced_entries
from summaries.admin.base import EVENTS, person_may
from summaries.domain.documents import lines_by_digest
from summaries.domain.projects import MAX_NAME_LENGTH, EventKind, ProjectStatus
from summaries.models import Document, Project, ProjectEvent, RoutingDecision

MAX_PROJECTS = 200
MAX_LINES = 500


def may_manage_life(request: HttpRequest) -> bool:
    """Return whether the user may archive, merge, move and undo; needs permission to change and delete projects."""
    return person_may(request, "change_project") and person_may(request, "delete_project")


def other_project_names(project: Project) -> list[str]:
    rows = Project.objects.of(project.actor_id).active().exclude(pk=project.pk).order_by("name")
    return list(rows.values_list("name", flat=True)[:MAX_PROJECTS])


def transfer_result(transfer: Transfer) -> Done:
    """Return the report of a merge or move, with its undo."""
    assert transfer.event is not None
    number = sum(document.added for document in transfer.documents)
    words = ngettext("%(number)d line was moved to %(name)s.", "%(number)d lines were moved to %(name)s.", number)
    undo = address("undo", Project(pk=transfer.event.project_id), event=transfer.event.pk)
    return Done(words % {"number": number, "name": transfer.into}, undo=undo)


class ProjectLife(EditorAdmin):
    """Lifecycle views of `ProjectAdmin`: archive, reactivate, merge, undo."""

    def lifecycle_context(self, request: HttpRequest, project: Project) -> dict[str, Any]:
        events = events_to_undo(project) if may_manage_life(request) else []
        deleted = Document.objects.of(project.actor_id).filter(
            pk__in=[event.details["document_id"] for event in events if "document_id" in event.details]
        )
        names = {str(key): name for key, name in deleted.values_list("pk", "name")}
        return {
            "status": project.status,
            "merged_into": project.merged_into,
            "may_end": may_manage_life(request) and project.status is not ProjectStatus.DELETED,
            "others": other_project_names(project) if project.status is ProjectStatus.ACTIVE else [],
            "undoable": [
                {
                    "event": event,
                    "kind": EVENTS[event.kind],
                    "document": names.get(str(event.details.get("document_id")), ""),
                    "into": event.outcome if event.kind != EventKind.DELETE else "",
                    "undo": address("undo", project, event=event.pk),
                }
                for event in events
            ],
        }

    @object_action(may_manage_life)
    def archive_view(self, request: HttpRequest, project: Project, change: Change) -> Done:
        archive_project(project=project, **change)
        words = gettext("%(name)s was archived.") % {"name": project.name}
        return Done(words, undo=address("reactivate", project))

    @object_action(may_manage_life)
    def reactivate_view(self, request: HttpRequest, project: Project, change: Change) -> Done:
        reactivate_project(project=project, **change)
        words = gettext("%(name)s is active again.") % {"name": project.name}
        return Done(words, undo=address("archive", project))

    @object_action(may_manage_life, confirm="preview_of_merge")
    def merge_view(self, request: HttpRequest, project: Project, change: Change) -> Done:
        return transfer_result(_merged(request, project, dry_run=False))

    def preview_of_merge(self, request: HttpRequest, project: Project) -> HttpResponse:
        if not may_manage_life(request):
            raise PermissionDenied
        try:
            preview = _merged(request, project, dry_run=True)
        except DomainError as error:
            self.message_user(request, str(error), "ERROR")
            return HttpResponseRedirect(change_url(project))
        title = _("Merge %(name)s into %(into)s?") % {"name": project.name, "into": preview.into}
        return self.subpage(request, project, "summaries/project/merge", title=title, preview=preview)

    @object_action(may_manage_life)
    def undo_view(self, request: HttpRequest, project: Project, change: Change) -> Done:
        rows = ProjectEvent.objects.filter(actor_id=project.actor_id)
        key = as_uuid(submitted_text(request, "event"))
        event = rows.filter(pk=key).first() if key is not None else None
        if event is None:
            raise DomainError(_("There is no such event."))
        undone = undo_event(event=event, **change)
        return Done(gettext("Undone."), to=change_url(undone))

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        report_done(request, gettext("%(name)s was created.") % {"name": obj.name})
        return HttpResponseRedirect(change_url(obj))

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: Any) -> HttpResponse:
        answer = super().response_delete(request, obj_display, obj_id)
        rows = ProjectEvent.objects.filter(project_id=obj_id, kind=EventKind.DELETE)
        if (event := rows.order_by("-id").first()) is not None and may_manage_life(request):
            words = gettext("%(name)s can be brought back for 30 days.") % {"name": event.project_name}
            report_done(request, words, undo=address("undo", Project(pk=obj_id), event=event.pk))
        return answer  # type: ignore[no-any-return]


def _merged(request: HttpRequest, project: Project, *, dry_run: bool) -> Transfer:
    into = project_named(actor_id=project.actor_id, name=submitted_text(request, "into"))
    return merge_projects(source=project, into=into, dry_run=dry_run, **submitted_change(request))


def move_selected_lines(request: HttpRequest, document: Document, change: Change) -> Done:
    """Move the chosen lines of a document to another project, or to a new one."""
    new_name = submitted_text(request, "new_name")[:MAX_NAME_LENGTH]
    into = submitted_text(request, "into")
    target = None if new_name else project_named(actor_id=document.actor_id, name=into)
    digests = [digest for value in request.POST.getlist("line") if (digest := digest_of(value))]
    transfer = move_entries(
        source=document.project, lines={document.name: digests}, into=target, new_name=new_name, **change
    )
    return transfer_result(transfer)


def lines_page(model_admin: EditorAdmin, request: HttpRequest, document: Document) -> HttpResponse:
    if not may_manage_life(request):
        raise PermissionDenied
    lines = [
        {"digest": digest.hex(), "text": line}
        for digest, line in lines_by_digest(document.text).items()
        if not line.startswith(("#", ">"))
    ]
    return model_admin.subpage(
        request,
        document,
        "summaries/document/move",
        title=_("Move lines of %(name)s") % {"name": document.name},
        lines=lines[:MAX_LINES],
        left_out=max(0, len(lines) - MAX_LINES),
        others=other_project_names(document.project),
        longest_name=MAX_NAME_LENGTH,
    )


def digest_of(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def movable_entries(request: HttpRequest, decision: RoutingDecision) -> list[dict[str, Any]]:
    """Return the lines that a wrong decision caused and that its project still holds; none for users without rights."""
    if not may_manage_life(request) or decision.corrected_project_id is None:
        return []
    return [
        {"id": entry.pk, "document": entry.document, "text": line}
        for entry in misplaced_entries(decision, now=clock())
        if (line := lines_by_digest(entry.document.text).get(bytes(entry.text_digest)))
    ]


def move_selected_entries(request: HttpRequest, decision: RoutingDecision, change: Change) -> Done:
    """Move the chosen lines of `movable_entries` to the right project."""
    chosen: list[UUID] = [key for value in request.POST.getlist("entry") if (key := as_uuid(value))]
    return transfer_result(move_misplaced(decision=decision, entry_ids=chosen, **change))
