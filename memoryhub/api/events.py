"""Server-sent events (WHATWG HTML, section 9.2): answers that are sent piece by piece."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final, TypeVar

from django.http import StreamingHttpResponse
from rest_framework.renderers import JSONRenderer

from memoryhub.db.pool import Stream, return_connection
from memoryhub.llm.types import Delta

MEDIA_TYPE: Final = "text/event-stream"
KEEP_ALIVE: Final = b": waiting\n\n"
"""A comment, so that no proxy closes an idle connection."""

KEEP_ALIVE_SECONDS: Final = 15.0

Piece = TypeVar("Piece")
Last = TypeVar("Last")


def event(name: str, data: Any) -> bytes:
    # JSON has no raw line breaks, so one `data` line is enough.
    body = json.dumps(json.loads(JSONRenderer().render(data)), ensure_ascii=False)
    return f"event: {name}\ndata: {body}\n\n".encode("utf-8", "replace")


def event_response(events: AsyncIterator[bytes], **headers: str) -> StreamingHttpResponse:
    """Return events as a response that no proxy keeps; the thread's connection is given back before they are sent."""
    return_connection()
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **headers}
    return StreamingHttpResponse(events, content_type=MEDIA_TYPE, headers=headers)


async def with_keep_alive(stream: Stream[Piece], *, last: type) -> AsyncIterator[Piece | None]:
    """Yield the pieces up to the first of type `last`, and None after every KEEP_ALIVE_SECONDS without one."""
    piece: Piece | None = None
    while not isinstance(piece, last):
        try:
            piece = await asyncio.wait_for(stream.next(), KEEP_ALIVE_SECONDS)
        except TimeoutError:
            piece = None
        yield piece


async def answer_events(stream: Stream[Delta | Last], *, last: type[Last]) -> AsyncIterator[bytes | Last]:
    """Yield a model's answer as events `delta` with comments in pauses, then the stream's last item as it is."""
    async for piece in with_keep_alive(stream, last=last):
        if piece is None:
            yield KEEP_ALIVE
        elif isinstance(piece, Delta):
            yield event("delta", {"text": piece.text})
        else:
            yield piece
