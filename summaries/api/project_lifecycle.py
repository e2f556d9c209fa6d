"""REST views of the life of projects: archive, merge, move entries, undo."""

from collections.abc import Callable
from typing import Any, Final

from rest_framework.request import Request
from rest_framework.response import Response

from memoryhub.api.fields import ReasonSerializer, TenantQuery
from memoryhub.api.pagination import page_of
from memoryhub.api.views import operation
from memoryhub.auth.principals import Scope
from summaries.actions.project_lifecycle import (
    archive_project,
    merge_projects,
    move_entries,
    move_misplaced,
    reactivate_project,
    undo_event,
)
from summaries.actions.updates import misplaced_entries
from summaries.api.project_serializers import MergeIn, MisplacedIn, MisplacedOut, MoveIn, ProjectOut, TransferOut
from summaries.api.projects import ProjectView
from summaries.domain.documents import line_digest, lines_by_digest
from summaries.models import Project, ProjectEvent, RoutingDecision

REASONED: Final[dict[str, Any]] = {"request": ReasonSerializer, "responses": ProjectOut}


class _ReasonedView(ProjectView):
    def changed(self, action: Callable[..., Project], **values: Any) -> Response:
        """Run an action with the request's reason, and return the project."""
        reason = self.validated(ReasonSerializer)["reason"]
        project = action(**values, by=self.principal, reason=reason, now=self.now)
        return self.tagged(ProjectOut(project).data, project.version)


class ProjectArchive(_ReasonedView):
    @operation("project_archive", Scope.CURATE, parameters=[TenantQuery], **REASONED)
    def post(self, request: Request, project_name: str) -> Response:
        """Take a project out of catalogs, routing and contexts; it is kept whole, and read only."""
        return self.changed(archive_project, project=self.project(project_name))


class ProjectReactivate(_ReasonedView):
    @operation("project_reactivate", Scope.CURATE, parameters=[TenantQuery], **REASONED)
    def post(self, request: Request, project_name: str) -> Response:
        """Bring an archived project back; one that was merged comes back by undoing the merge."""
        return self.changed(reactivate_project, project=self.project(project_name))


class ProjectMerge(ProjectView):
    @operation("project_merge", Scope.CURATE, request=MergeIn, parameters=[TenantQuery], responses=TransferOut)
    def post(self, request: Request, project_name: str) -> Response:
        """Add a project's entries to another's documents with their origins, and archive it.

        Messages that were routed or corrected to it count as the other's from then on.
        """
        values = self.validated(MergeIn)
        transfer = merge_projects(
            source=self.project(project_name),
            into=self.project(values["into"]),
            dry_run=values["dry_run"],
            by=self.principal,
            reason=values["reason"],
            now=self.now,
        )
        return Response(TransferOut(transfer).data)


class DocumentMove(ProjectView):
    @operation("document_move", Scope.CURATE, request=MoveIn, parameters=[TenantQuery], responses=TransferOut)
    def post(self, request: Request, project_name: str, document_name: str) -> Response:
        """Move lines with their origins to another project, or to a new one."""
        values = self.validated(MoveIn)
        transfer = move_entries(
            source=self.project(project_name),
            lines={document_name: [line_digest(line) for line in values["lines"]]},
            into=None if values["new_project"] else self.project(values["into"]),
            new_name=values["into"],
            document_name=values.get("document", ""),
            dry_run=values["dry_run"],
            by=self.principal,
            reason=values["reason"],
            now=self.now,
        )
        return Response(TransferOut(transfer).data)


class RouteMisplaced(ProjectView):
    @operation("route_misplaced_list", Scope.READ, responses=page_of(MisplacedOut))
    def get(self, request: Request, route_id: Any) -> Response:
        """List what was written into the wrong project because of a decision that was corrected since."""
        entries = misplaced_entries(self._decision(route_id), now=self.now)
        results = [
            MisplacedOut(entry, context={"lines": lines_by_digest(entry.document.text)}).data for entry in entries
        ]
        return Response({"next": None, "previous": None, "results": results})

    @operation("route_misplaced_move", Scope.CURATE, request=MisplacedIn, responses=TransferOut)
    def post(self, request: Request, route_id: Any) -> Response:
        """Move it to the project that the message was corrected to."""
        values = self.validated(MisplacedIn)
        transfer = move_misplaced(
            decision=self._decision(route_id),
            entry_ids=values.get("entry_ids"),
            dry_run=values["dry_run"],
            by=self.principal,
            reason=values["reason"],
            now=self.now,
        )
        return Response(TransferOut(transfer).data)

    def _decision(self, route_id: Any) -> RoutingDecision:
        rows = RoutingDecision.objects.select_related("project", "corrected_project", "session")
        return self.owned(rows, route_id)


class EventUndo(_ReasonedView):
    @operation("project_event_undo", Scope.CURATE, **REASONED)
    def post(self, request: Request, event_id: Any) -> Response:
        """Undo a merge, a move or, for 30 days, the deletion of a project or document; what was written since stays."""
        return self.changed(undo_event, event=self.owned(ProjectEvent.objects.all(), event_id))
