"""All addresses: health without a prefix, the API, the admin."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import include, path
from django.views import defaults

from memoryhub.admin import pages
from memoryhub.api import errors, health


def home(request: HttpRequest) -> HttpResponse:
    """Send people who open the server to the admin."""
    return redirect("admin:index")


urlpatterns = [
    path("", home, name="home"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("api/v1/", include("memoryhub.api.urls")),
    path("i18n/", include("django.conf.urls.i18n")),
    path("admin/", include(pages.patterns())),
    path("admin/", admin.site.urls),
]


def _by_prefix(for_api: Any, for_people: Any) -> Any:
    def handler(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        handle = for_api if request.path.startswith("/api/") else for_people
        answer: HttpResponse = handle(request, *args, **kwargs)
        return answer

    return handler


handler400 = _by_prefix(errors.bad_request, defaults.bad_request)
handler404 = _by_prefix(errors.not_found, defaults.page_not_found)
handler500 = _by_prefix(errors.server_error, defaults.server_error)
