"""Everything of an actor over REST, as JSON Lines that are sent while they are read."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from memoryhub.api.fields import TenantQuery
from memoryhub.api.views import ApiView
from memoryhub.auth import audit
from memoryhub.auth.domain import Scope
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.importexport.writing import Whose, export

JSON_LINES = "application/x-ndjson"


class JSONLinesRenderer(JSONRenderer):
    """Lets a client ask for JSON Lines by `Accept`; the view itself writes them, and what goes wrong is JSON."""

    media_type = JSON_LINES
    format = "jsonl"


class ActorExport(ApiView):
    """Everything of an actor."""

    scopes = {"GET": Scope.ADMIN}
    renderer_classes = [JSONRenderer, JSONLinesRenderer]

    @extend_schema(parameters=[TenantQuery], responses={(200, JSON_LINES): OpenApiTypes.STR})
    def get(self, request: Request) -> StreamingHttpResponse:
        """Return everything of a user, or of an agent itself; a body without the line `{"end": …}` broke off."""
        tenant = self.reading(self.validated(TenantQuery, request.query_params.dict()))
        if tenant.actor is None:
            raise UnknownRow("No such user of this agent.")
        audit.record(
            by=self.principal, verb="export", object_kind="actor", object_id=tenant.actor.id, actor=tenant.actor,
            now=self.now,
        )  # fmt: skip
        whose = Whose(tenant.agent_id, tenant.user_id)
        # Django would collect a plain iterator whole before it sends the first byte through ASGI.
        streams = isinstance(request._request, ASGIRequest)
        pieces = in_a_thread_of_its_own(lambda: export(whose)) if streams else export(whose)
        headers = {"Content-Disposition": 'attachment; filename="export.jsonl"', "Cache-Control": "no-store"}
        return StreamingHttpResponse(pieces, content_type=JSON_LINES, headers=headers)


async def in_a_thread_of_its_own(make: Callable[[], Iterator[bytes]]) -> AsyncIterator[bytes]:
    """Yield what an iterator yields that reads the database: from one thread, which has a connection for that long."""
    thread, loop = ThreadPoolExecutor(max_workers=1), asyncio.get_running_loop()
    pieces = make()
    try:
        while (piece := await loop.run_in_executor(thread, next, pieces, None)) is not None:
            yield piece
    finally:
        thread.submit(_end, pieces)
        thread.shutdown(wait=False)


def _end(pieces: Iterator[bytes]) -> None:
    """End the transaction, also of a client that went away, and give the connection back."""
    try:
        pieces.close()  # type: ignore[attr-defined]
    finally:
        connection.close()
