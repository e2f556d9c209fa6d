"""Middleware of installations with replicas: which requests read, and from where (ADR 65)."""

from collections.abc import Callable
from typing import Any, Final

from django.http import HttpRequest, HttpResponse

from memoryhub.api.middleware import API, WITHOUT_TURN
from memoryhub.auth.principals import Scope
from memoryhub.db import replicas

Handler = Callable[[HttpRequest], HttpResponse]
SAFE: Final = frozenset({"GET", "HEAD"})


class ReadFromReplicas:
    """Let requests that read do so on a replica: those of the API once their key is known, pages at once."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with replicas.request():
            response = self.get_response(request)
            # What another read noted, such as the receipt of a context, may not be on the replica yet.
            if response.status_code == 404 and request.method in SAFE and replicas.leave():
                vars(request)["reads_on_primary"] = True
                response = self.get_response(request)
            return response

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        if request.path in WITHOUT_TURN or "reads_on_primary" in vars(request):
            return
        is_safe = request.method in SAFE
        if request.path.startswith(API):
            scopes = getattr(getattr(view, "cls", None), "scopes", {})
            if is_safe or scopes.get(request.method) is Scope.READ:
                replicas.expect_read(of_api=True)
        elif is_safe:
            replicas.expect_read(of_api=False)
            replicas.read_everything()
