"""Admin pages that belong to no single model, each behind its permissions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

View = Callable[..., HttpResponse]


@dataclass(frozen=True)
class Page:
    """A page below /admin/: address, URL name, view, and the permissions it takes, all of them."""

    address: str
    name: str
    view: View
    needs: tuple[str, ...]


PAGES: Final[list[Page]] = []
"""The pages of all apps, which register theirs when they are ready."""


def needs_of(name: str) -> tuple[str, ...]:
    return {page.name: page.needs for page in PAGES}[name]


def patterns() -> list[URLPattern]:
    return [
        path(page.address, admin.site.admin_view(closed(page.view, page.needs)), name=page.name)
        for page in PAGES
    ]


def closed(view: View, needs: tuple[str, ...]) -> View:
    """Return a view that answers 403 to people who lack one of the permissions."""

    def behind(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user: Any = request.user
        if not user.has_perms(needs):
            raise PermissionDenied
        return view(request, *args, **kwargs)

    return behind


def render_page(request: HttpRequest, template: str, *, title: Any, **context: Any) -> HttpResponse:
    """Return a page in the admin's frame."""
    frame = admin.site.each_context(request)
    return TemplateResponse(request, template, {**frame, "title": title, **context})
