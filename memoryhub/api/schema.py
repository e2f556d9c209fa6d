"""The API's schema, served from its file: generating it takes seconds of a core, and asking needs no key."""

import json
from datetime import date, datetime
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

import yaml
from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

SCHEMA_FILE: Final = Path("docs/reference/openapi.yaml")
"""Below the checkout; `make schema` writes it, and a test compares it with the code."""

_CONVERTING: Final = Lock()


class SchemaView(SpectacularAPIView):
    """The schema as YAML or JSON, by `Accept` or `?format=json`."""

    schema = None

    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        media_type = request.accepted_renderer.media_type
        with _CONVERTING:  # the second of two at once takes the first one's
            body = _schema(is_json=media_type.endswith("json"))
        return HttpResponse(body, content_type=media_type, headers={"Cache-Control": "public, max-age=3600"})


@cache
def _schema(*, is_json: bool) -> bytes:
    body = (Path(settings.BASE_DIR) / SCHEMA_FILE).read_bytes()
    if not is_json:
        return body
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return json.dumps(yaml.load(body, loader), ensure_ascii=False, default=_isoformat).encode()  # noqa: S506


def _isoformat(value: date | datetime) -> str:
    """Return a value that YAML reads as a day or a time."""
    return value.isoformat()
