"""How the web server's loop hands a request to Django: in one hop."""

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class OneHopHandler(ASGIHandler):
    """Runs all of a request in one thread, answers that stream excepted: these are sent by the loop.

    Our views and most middleware are synchronous. Django's own handler takes what middleware it can into the
    loop, and hops into a thread and back for each of its hooks and for the view; that took 2 ms of every request.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        """Load the middleware as one synchronous chain, whatever it could do."""
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """Return the chain's answer, from a thread of this request's own."""
        response: HttpResponseBase = await sync_to_async(self.get_response, thread_sensitive=True)(request)
        return response
