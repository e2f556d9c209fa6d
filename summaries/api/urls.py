"""Addresses of summaries."""

from django.urls import path

from summaries.api import views

urlpatterns = [
    path("summaries", views.Summaries.as_view(), name="summaries"),
    path("summaries/digest", views.SummariesDigest.as_view(), name="summaries-digest"),
    path("sessions/<uuid:session_id>/summary", views.OneSummary.as_view(), name="summary"),
    path(
        "sessions/<uuid:session_id>/summary/versions",
        views.SummaryVersions.as_view(),
        name="summary-versions",
    ),
    path(
        "sessions/<uuid:session_id>/summary/restore", views.SummaryRestore.as_view(), name="summary-restore"
    ),
]
