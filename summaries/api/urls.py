"""Addresses of summaries."""

from django.urls import path

from summaries.api import project_lifecycle as lifecycle
from summaries.api import projects, summaries

DOCUMENT = "projects/<str:project_name>/documents/<str:document_name>"

urlpatterns = [
    path("summaries", summaries.Summaries.as_view(), name="summaries"),
    path("summaries/digest", summaries.SummariesDigest.as_view(), name="summaries-digest"),
    path("sessions/<uuid:session_id>/summary", summaries.OneSummary.as_view(), name="summary"),
    path("sessions/<uuid:session_id>/summary/versions", summaries.SummaryVersions.as_view(), name="summary-versions"),
    path("sessions/<uuid:session_id>/summary/restore", summaries.SummaryRestore.as_view(), name="summary-restore"),
    path("projects", projects.Projects.as_view(), name="projects"),
    path("projects/catalog", projects.Catalog.as_view(), name="projects-catalog"),
    path("projects/events", projects.Events.as_view(), name="projects-events"),
    path("projects/events/daily", projects.DailyEvents.as_view(), name="projects-events-daily"),
    path("projects/events/<uuid:event_id>/undo", lifecycle.EventUndo.as_view(), name="project-event-undo"),
    path("projects/route", projects.Route.as_view(), name="projects-route"),
    path("projects/routes", projects.Routes.as_view(), name="projects-routes"),
    path("projects/routes/<uuid:route_id>/correct", projects.RouteCorrection.as_view(), name="route-correct"),
    path("projects/routes/<uuid:route_id>/misplaced", lifecycle.RouteMisplaced.as_view(), name="route-misplaced"),
    path("projects/<str:project_name>/archive", lifecycle.ProjectArchive.as_view(), name="project-archive"),
    path("projects/<str:project_name>/reactivate", lifecycle.ProjectReactivate.as_view(), name="project-reactivate"),
    path("projects/<str:project_name>/merge", lifecycle.ProjectMerge.as_view(), name="project-merge"),
    path("projects/<str:project_name>", projects.OneProject.as_view(), name="project"),
    path(DOCUMENT, projects.OneDocument.as_view(), name="document"),
    path(f"{DOCUMENT}/versions", projects.DocumentVersions.as_view(), name="document-versions"),
    path(f"{DOCUMENT}/backups", projects.DocumentBackups.as_view(), name="document-backups"),
    path(f"{DOCUMENT}/restore", projects.DocumentRestore.as_view(), name="document-restore"),
    path(f"{DOCUMENT}/entries", projects.DocumentEntries.as_view(), name="document-entries"),
    path(f"{DOCUMENT}/move", lifecycle.DocumentMove.as_view(), name="document-move"),
    path(f"{DOCUMENT}/compact", projects.DocumentCompaction.as_view(), name="document-compact"),
]
