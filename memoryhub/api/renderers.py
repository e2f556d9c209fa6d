"""Renderers of answers that are no JSON."""

from typing import Any, Final

from rest_framework.renderers import JSONRenderer

PLAIN: Final = "text/plain"


class PlainRenderer(JSONRenderer):
    """Writes a text as it is, for clients that ask for text; errors are JSON."""

    media_type = PLAIN
    charset = "utf-8"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        written: bytes = data.encode() if isinstance(data, str) else super().render(data, *args, **kwargs)
        return written
