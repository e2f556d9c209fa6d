"""Server-sent events: what a streamed answer looks like on the wire (WHATWG HTML, section 9.2)."""

import json
from typing import Any, Final

from rest_framework.renderers import JSONRenderer

MEDIA_TYPE: Final = "text/event-stream"
BEAT: Final = b": waiting\n\n"
"""A comment, so that nobody on the way closes a connection on which nothing happens."""


class EventStreamRenderer(JSONRenderer):
    """Accepts clients that ask for events; what went wrong before the first is answered as JSON."""

    media_type = MEDIA_TYPE
    format = "events"


def event(name: str, data: Any) -> bytes:
    """Return one event; JSON holds no line break of its own, so that one line of data is enough."""
    body = json.dumps(json.loads(JSONRenderer().render(data)), ensure_ascii=False)
    return f"event: {name}\ndata: {body}\n\n".encode("utf-8", "replace")
