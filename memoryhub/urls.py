"""All addresses: health without a prefix, the API of every app below `/api/v1/`, the admin."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

from memoryhub.admin import base
from memoryhub.api import agents, errors, health, usage


def home(request: HttpRequest) -> HttpResponse:
    return redirect("admin:index")


API: list[URLPattern | URLResolver] = [
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

urlpatterns = [
    path("", home, name="home"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("api/v1/", include(API)),
    path("i18n/", include("django.conf.urls.i18n")),
    path("admin/", include(base.page_urls())),
    path("admin/", admin.site.urls),
]


def _by_prefix(for_api: Any, for_people: Any) -> Any:
    def handler(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        handle = for_api if request.path.startswith("/api/") else for_people
        answer: HttpResponse = handle(request, *args, **kwargs)
        return answer

    return handler


def _page(status: int, template: str = "") -> Any:
    """Return what shows people the page of an error: by itself, for what failed may be what other pages are made of."""

    def show(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
        of_admin = {"is_of_admin": request.path.startswith("/admin/")}
        return HttpResponse(render_to_string(template or f"{status}.html", of_admin), status=status)

    return show


handler400 = _by_prefix(errors.bad_request, _page(400))
handler403 = _by_prefix(errors.forbidden, _page(403))
handler404 = _by_prefix(errors.not_found, _page(404))
handler500 = _by_prefix(errors.server_error, _page(500))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    answer: HttpResponse = _by_prefix(errors.forbidden, _page(403, "403_csrf.html"))(request)
    return answer
