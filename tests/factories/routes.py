"""Every address of the API, read from Django's own table: a new route is tested without being listed."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from django.urls import URLPattern, URLResolver, get_resolver

PREFIX = "api/v1/"
METHODS = ("get", "post", "put", "patch", "delete")
NEEDS_NO_KEY = frozenset({"schema", "docs"})
"""The interface's own description tells nothing that an installation remembers."""

_PLACE = re.compile(r"<(?:\w+:)?(\w+)>")


@dataclass(frozen=True)
class Route:
    """One address with the view behind it."""

    template: str
    name: str
    view: type

    @property
    def methods(self) -> tuple[str, ...]:
        """Return the methods that the view implements, in lower case."""
        return tuple(method for method in METHODS if hasattr(self.view, method))

    @property
    def places(self) -> tuple[str, ...]:
        """Return the names of the address's variable parts."""
        return tuple(_PLACE.findall(self.template))

    def address(self, values: Mapping[str, object]) -> str:
        """Return the address with its variable parts filled in."""
        return "/" + _PLACE.sub(lambda place: str(values[place[1]]), self.template)


def api_routes() -> list[Route]:
    """Return all routes below the API's prefix."""
    return [route for route in _walk(get_resolver().url_patterns, "") if route.template.startswith(PREFIX)]


def closed_routes() -> list[Route]:
    """Return the routes that need a key."""
    return [route for route in api_routes() if route.name not in NEEDS_NO_KEY]


def _walk(patterns: list[URLPattern | URLResolver], before: str) -> Iterator[Route]:
    for pattern in patterns:
        address = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, address)
        else:
            view = getattr(pattern.callback, "view_class", None) or getattr(pattern.callback, "cls", None)
            yield Route(address, pattern.name or "", view or type(pattern.callback))
