"""The REST API: every app's addresses below one prefix."""

from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

from memoryhub.api import agents, usage
from memoryhub.api import schema as schema  # its extension registers itself

urlpatterns = [
    path("agents", agents.Agents.as_view(), name="agents"),
    path("agents/<str:agent_id>", agents.OneAgent.as_view(), name="agent"),
    path("actors", agents.Actors.as_view(), name="actors"),
    path("actors/export", agents.ActorExport.as_view(), name="actors-export"),
    path("jobs/<uuid:job_id>", usage.OneJob.as_view(), name="job"),
    path("usage", usage.Usage.as_view(), name="usage"),
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    path("docs", SpectacularSwaggerView.as_view(url_name="schema"), name="docs"),
    path("", include("conversations.api.urls")),
    path("", include("summaries.api.urls")),
    path("", include("strength.api.urls")),
]
