"""All addresses: health without a prefix, the API of every app below `/api/v1/` (SPEC H1), the admin."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularSwaggerSplitView

from memoryhub.admin import base, sign_in
from memoryhub.api import agents, health, imports, schema, usage
from memoryhub.api.errors import OUTSIDE_VIEWS
from memoryhub.api.problems import plain_problem

API: list[URLPattern | URLResolver] = [
    path("agents", agents.Agents.as_view(), name="agents"),
    path("agents/<str:agent_id>", agents.OneAgent.as_view(), name="agent"),
    path("actors", agents.Actors.as_view(), name="actors"),
    path("actors/export", agents.ActorExport.as_view(), name="actors-export"),
    path("imports", imports.Imports.as_view(), name="imports"),
    path("imports/<uuid:import_id>", imports.OneImport.as_view(), name="import"),
    path("imports/<uuid:import_id>/chunks", imports.ImportChunks.as_view(), name="import-chunks"),
    path("imports/<uuid:import_id>/orders", imports.ImportOrders.as_view(), name="import-orders"),
    path("jobs/<uuid:job_id>", usage.OneJob.as_view(), name="job"),
    path("usage", usage.Usage.as_view(), name="usage"),
    path("schema", schema.SchemaView.as_view(), name="schema"),
    path("docs", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
    path("", include("conversations.api.urls")),
    path("", include("summaries.api.urls")),
    path("", include("strength.api.urls")),
    path("", include("memoryhub.webhooks.api.urls")),
]

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index"), name="home"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("api/v1/", include(API)),
    path("i18n/", include("django.conf.urls.i18n")),
    path("admin/", include(sign_in.URLS)),
    path("admin/", include(base.page_urls())),
    path("admin/", admin.site.urls),
]

NO_OPENAI_CALL = "Of OpenAI's API there are chat/completions, responses and models only, not embeddings."
"""OpenAI's SDKs show the `error` of an answer, and of any other 404 nothing but its number."""


def _error_page(status: int, template: str = "") -> Any:
    """Return an error handler: a problem for clients of the API, for people a page free of what may have failed."""

    def handler(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
        if status == 404 and request.path.startswith("/api/v1/openai/"):
            error = {"message": NO_OPENAI_CALL, "type": "invalid_request_error", "param": None, "code": "not_found"}
            return plain_problem(404, "not_found", NO_OPENAI_CALL, error=error)
        if request.path.startswith("/api/"):
            return plain_problem(status, *OUTSIDE_VIEWS[status])
        values = {
            "is_of_admin": request.path.startswith("/admin/"),
            "csp_nonce": getattr(request, "csp_nonce", ""),  # unset if an earlier middleware failed
        }
        return HttpResponse(render_to_string(template or f"{status}.html", values), status=status)

    return handler


handler400, handler403, handler404, handler500 = map(_error_page, (400, 403, 404, 500))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    answer: HttpResponse = _error_page(403, "403_csrf.html")(request)
    return answer
